"""Which errors the client retries, and which one it raises at the deadline."""

from __future__ import annotations

import socketserver
import struct
import threading
from typing import TYPE_CHECKING

import pytest

from kraftlog import Client
from kraftlog.client.cluster import BACKOFF_S, Cluster
from kraftlog.client.connection import Connection
from kraftlog.client.deadline import Deadline
from kraftlog.errors import ClientError, ErrorCode, RefusedError, UnreachableError
from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.frames import response_frame
from kraftlog.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from kraftlog.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kraftlog.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kraftlog.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraftlog.wire.schema import Message

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


SERVED_APIS = (
    *(ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.LIST_OFFSETS, ApiKey.PRODUCE),
    ApiKey.DESCRIBE_QUORUM,
)


class Broker(socketserver.ThreadingTCPServer):
    """Sends the prepared responses of each API in order, and then repeats the last one."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _RequestHandler)
        self.port = self.socket.getsockname()[1]
        served = [
            ApiVersion(api_key=key, min_version=APIS[key].first, max_version=APIS[key].last)
            for key in SERVED_APIS
        ]
        self.responses: dict[int, list[Message]] = {
            ApiKey.API_VERSIONS: [ApiVersionsResponse(error_code=0, api_keys=served)],
            ApiKey.METADATA: [self.metadata()],
        }

    def metadata(self, code: int = 0) -> MetadataResponse:
        """Metadata of topic `t`: one partition, led by this broker; with an error code, none."""
        partition = MetadataResponsePartition(
            error_code=0, partition_index=0, leader_id=1, replica_nodes=(1,), isr_nodes=(1,)
        )
        partitions = () if code else (partition,)
        topic = MetadataResponseTopic(error_code=code, name="t", partitions=partitions)
        this_broker = MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.port)
        return MetadataResponse(brokers=[this_broker], controller_id=1, topics=[topic])


class _RequestHandler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, Broker)
        while size := self.rfile.read(4):
            frame = self.rfile.read(int.from_bytes(size, "big"))
            key, version, correlation_id = struct.unpack_from(">hhi", frame)
            responses = self.server.responses[key]
            message = responses.pop(0) if len(responses) > 1 else responses[0]
            pieces = response_frame(APIS[key], version, correlation_id, message)
            self.wfile.write(b"".join(pieces))


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def client(broker: Broker) -> Iterator[Client]:
    with Client(f"127.0.0.1:{broker.port}", timeout_s=LIMIT_S) as connected:
        yield connected


def list_offsets_response(code: int, offset: int = -1) -> ListOffsetsResponse:
    partition = ListOffsetsPartitionResponse(partition_index=0, error_code=code, offset=offset)
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[partition])])


def produce_response(code: int, offset: int = -1) -> ProduceResponse:
    partition = PartitionProduceResponse(index=0, error_code=code, base_offset=offset)
    return ProduceResponse(
        responses=[TopicProduceResponse(name="t", partition_responses=[partition])]
    )


def test_a_leader_that_does_not_know_its_topic_yet_is_retried(
    broker: Broker, client: Client
) -> None:
    """A broker may be elected before it has applied the metadata of the topic."""
    broker.responses[ApiKey.LIST_OFFSETS] = [
        list_offsets_response(UNKNOWN),
        list_offsets_response(UNKNOWN),
        list_offsets_response(0, 5),
    ]
    assert client.offsets("t")[0].offset == 5
    broker.responses[ApiKey.PRODUCE] = [
        produce_response(UNKNOWN),
        produce_response(UNKNOWN),
        produce_response(0, 7),
    ]
    with client.producer(idempotent=False) as producer:
        producer.send("t", "a")
    assert producer.last_base_offsets == {("t", 0): 7}


def test_a_deleted_topic_is_not_retried(broker: Broker, client: Client) -> None:
    broker.responses[ApiKey.METADATA].append(broker.metadata(UNKNOWN))
    broker.responses[ApiKey.LIST_OFFSETS] = [list_offsets_response(UNKNOWN)]
    with pytest.raises(RefusedError, match="UNKNOWN_TOPIC_OR_PARTITION") as refused:
        client.offsets("t")
    assert refused.value.api == "Metadata"


class FailingRequest:
    """A request that fails with one error per attempt; its last attempt ends at the deadline."""

    def __init__(self, deadline: Deadline, *errors: ClientError) -> None:
        self._deadline = deadline
        self._errors = list(errors)
        self.attempts = 0

    def __call__(self) -> None:
        self.attempts += 1
        if self.attempts == len(self._errors):
            self._deadline.pause(LIMIT_S)
        raise self._errors[self.attempts - 1]


def unreachable(*, was_sent: bool) -> UnreachableError:
    error = UnreachableError("host:9092: request timed out")
    error.was_sent = was_sent
    return error


NOT_CONTROLLER = RefusedError(ErrorCode.NOT_CONTROLLER, api="CreateTopics", broker="b")


@pytest.mark.parametrize("was_sent", [True, False])
def test_a_refusal_is_not_the_outcome_of_a_later_request(*, was_sent: bool) -> None:
    """If the second request was sent, it may have been carried out, so its timeout is raised."""
    cluster = Cluster("127.0.0.1:1", client_id="", timeout_s=0)
    cluster.was_reached = True
    deadline = Deadline(3 * BACKOFF_S)
    last = unreachable(was_sent=was_sent)
    with pytest.raises(UnreachableError if was_sent else RefusedError):
        cluster.retry(FailingRequest(deadline, NOT_CONTROLLER, last), deadline)


def test_no_request_is_sent_after_the_deadline() -> None:
    cluster = Cluster("127.0.0.1:1", client_id="", timeout_s=0)
    deadline = Deadline(BACKOFF_S / 2)
    attempts: list[bool] = []

    def attempt() -> None:
        attempts.append(deadline.is_over)
        raise NOT_CONTROLLER

    with pytest.raises(RefusedError):
        cluster.retry(attempt, deadline)
    assert attempts[1:] == []


def test_a_lost_connection_leaves_the_outcome_of_a_request_open(broker: Broker) -> None:
    connection = Connection("127.0.0.1", broker.port, "", Deadline(LIMIT_S))
    # The broker fails to encode this response, and so closes the connection.
    broker.responses[ApiKey.METADATA] = [ListOffsetsResponse(topics=[])]
    with pytest.raises(UnreachableError) as lost:
        connection.call(MetadataRequest(topics=None), Deadline(LIMIT_S))
    assert lost.value.was_sent
