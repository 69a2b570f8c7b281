"""A client that exchanges frames with a virtual host, and requests that many tests send."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any
from unittest import mock

from kraftlog.runner.new_folders import DELAY_MS
from kraftlog.wire import primitives
from kraftlog.wire.apis import APIS, BROKER, ApiKey
from kraftlog.wire.codec import decode
from kraftlog.wire.frames import request_frame
from kraftlog.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kraftlog.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kraftlog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kraftlog.wire.messages.remove_partitions import RemovePartitionsRequest, RemovePartitionsTopic
from tests.virtual_host import VirtualHost

if TYPE_CHECKING:
    from kraftlog.wire.schema import Message
    from kraftlog_simulator.files import MemoryFiles


def make_host(files: MemoryFiles | None = None, **topics: int) -> VirtualHost:
    """A node with these topics, `demo=1` by default: name and number of partitions."""
    host = VirtualHost(files)
    create_topics(host, topics or {"demo": 1})
    return host


def make_folders(host: VirtualHost) -> None:
    """Let time pass until the folders of new logs are created."""
    host.pass_time(DELAY_MS)
    host.settle()


def creation(
    topics: dict[str, int], configs: dict[str, object] | None = None
) -> CreateTopicsRequest:
    """A CreateTopics request for topics with these numbers of partitions and one replica."""
    settings = [
        CreatableTopicConfig(name=key, value=str(value)) for key, value in (configs or {}).items()
    ]
    return CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=name,
                num_partitions=count,
                replication_factor=1,
                assignments=(),
                configs=settings,
            )
            for name, count in topics.items()
        ]
    )


def create_topics(
    host: VirtualHost, topics: dict[str, int], configs: dict[str, object] | None = None
) -> None:
    """Create the topics that do not exist yet."""
    missing = {
        name: count for name, count in topics.items() if name not in host.node.image.topic_ids
    }
    if missing:
        answer = ask_settled(host, ApiKey.CREATE_TOPICS, 7, creation(missing, configs))
        assert [topic.error_code for topic in answer.topics] == [0] * len(missing)


def create_partitions(host: VirtualHost, topic: str, count: int) -> None:
    change = CreatePartitionsTopic(name=topic, count=count, assignments=None)
    request = CreatePartitionsRequest(topics=[change], timeout_ms=1000, validate_only=False)
    [result] = ask_settled(host, ApiKey.CREATE_PARTITIONS, 3, request).results
    assert result.error_code == 0


def remove_partitions(host: VirtualHost, topic: str, *partitions: int) -> int:
    """Remove partitions; return the error code."""
    removal = RemovePartitionsTopic(name=topic, partitions=partitions)
    request = RemovePartitionsRequest(topics=[removal], timeout_ms=1000)
    [result] = ask_settled(host, ApiKey.REMOVE_PARTITIONS, 0, request).results
    return int(result.error_code)


def configured_host(**configs: object) -> VirtualHost:
    """A node with a topic `demo` that has these configs, such as `retention_ms=5`."""
    host = VirtualHost()
    settings = {name.replace("_", "."): value for name, value in configs.items()}
    create_topics(host, {"demo": 1}, settings)
    return host


def set_config(host: VirtualHost, kind: int, name: str, key: str, value: object) -> None:
    """Set a dynamic config of a topic or broker; `kind` is the type of the resource."""
    change = AlterableConfig(name=key, config_operation=0, value=str(value))
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[change])
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    answer = ask_settled(host, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
    assert [it.error_code for it in answer.responses] == [0]


def ask_settled(host: VirtualHost, api_key: int, version: int, request: Message) -> Any:
    """Send a request on a new connection, and run turns until the node is idle."""
    client = FrameClient(host)
    client.send(api_key, version, request)
    host.settle()
    ((_, answer),) = client.take()
    return answer


class FrameClient:
    """One connection to a virtual host."""

    def __init__(self, host: VirtualHost, listener: int = BROKER, name: str = "PLAINTEXT") -> None:
        self.host = host
        self.connection = host.connect(listener, name)
        self.requests: list[tuple[int, int]] = []
        self.client_id = "test"

    def frame(self, api_key: int, version: int, request: Message) -> bytes:
        self.requests.append((api_key, version))
        return b"".join(
            request_frame(APIS[api_key], version, len(self.requests), self.client_id, request)
        )

    def overlong_frame(self, api_key: int, version: int, request: Message) -> bytes:
        """A frame whose strings may exceed the limit of kraftlog's own encoder."""
        with mock.patch.object(primitives, "LONGEST_STRING", 1 << 20):
            return self.frame(api_key, version, request)

    def send(self, api_key: int, version: int, request: Message) -> None:
        self.host.send(self.connection, self.frame(api_key, version, request))

    def take(self) -> list[Any]:
        """The responses received so far: (correlation id, message)."""
        raw = self.connection.take()
        answers = []
        while raw:
            (size, number) = struct.unpack_from(">ii", raw)
            api_key, version = self.requests[number - 1]
            api = APIS[api_key]
            body = raw[8 + api.response_header_version(version) : 4 + size]
            answers.append((number, decode(api.response(), version, body)))
            raw = raw[4 + size :]
        return answers

    def await_responses(self) -> list[Any]:
        """Run turns until there are responses."""
        while not (answers := self.take()):
            self.host.turn()
        return answers

    def ask(self, api_key: int, version: int, request: Message) -> Any:
        """Send a request, run turns until the I/O is done, and return the response, or None."""
        self.send(api_key, version, request)
        self.host.turn()
        answers = self.take()
        return answers[-1][1] if answers else None
