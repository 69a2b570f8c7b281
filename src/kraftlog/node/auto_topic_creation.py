"""Automatic topic creation: on first use by a client, or by a coordinator."""

from __future__ import annotations

from kraftlog.errors import ErrorCode, error_name
from kraftlog.node.coordinators.group_coordinators import TOPIC as OFFSETS_TOPIC
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from typing import Any

    from kraftlog.node.controller_request import ForwardedClient
    from kraftlog.node.interfaces import ServingNode
    from kraftlog.types import Now


#: The version of the CreateTopics requests.
VERSION = 7


def create_topics(
    node: ServingNode,
    names: Collection[str],
    on_created: Callable[[dict[str, int], Now], None],
    now: Now,
    client: ForwardedClient | None = None,
) -> None:
    """Create topics with this broker's defaults; `on_created` gets the error codes of failures.

    They count for the quota of the client, if it is not the broker that needs them.
    """
    topics = [topic_of(node, name) for name in dict.fromkeys(names)]

    def on_done(response: Any, now: Now) -> None:
        _report_offsets_topic(node, names, response)
        if response is None:
            on_created(dict.fromkeys(names, ErrorCode.LEADER_NOT_AVAILABLE), now)
            return
        codes = {topic.name: topic.error_code for topic in response.topics if topic.error_code}
        on_created({name: _metadata_error(code) for name, code in codes.items()}, now)

    request = CreateTopicsRequest(topics=topics)
    node.controller_channel.send(
        ApiKey.CREATE_TOPICS, VERSION, request, on_done, now, client=client
    )


def _report_offsets_topic(node: ServingNode, names: Collection[str], response: Any) -> None:
    """Log why there are no group coordinators: clients get no reason."""
    if node.group_coordinators is None or OFFSETS_TOPIC not in names:
        return
    if response is None:
        node.group_coordinators.report(
            f"{OFFSETS_TOPIC} is not created: there is no active controller"
        )
        return
    for topic in [it for it in response.topics if it.name == OFFSETS_TOPIC]:
        code = topic.error_code
        if code not in {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}:
            why = f"{error_name(code)}: {topic.error_message}"
            node.group_coordinators.report(f"{OFFSETS_TOPIC} is not created: {why}")


def _metadata_error(code: int) -> int:
    """The error code for a Metadata response, which decides whether the client retries."""
    if code in {ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.INVALID_REPLICATION_FACTOR}:
        return code
    if code == ErrorCode.TOPIC_ALREADY_EXISTS:
        return ErrorCode.LEADER_NOT_AVAILABLE  # just created, but not replayed here yet
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def topic_of(node: ServingNode, name: str) -> CreatableTopic:
    """The topic to create, by the settings of this broker: those of a controller may differ.

    If the replication factor of the offsets topic is not configured, Kafka's default is lowered to
    the number of brokers, so that consumer groups also work on a single node. A configured one is
    used unchanged.
    """
    settings = node.config.settings
    if name == OFFSETS_TOPIC:
        replicas = settings.offsets_topic_replication_factor
        if not settings.is_given("offsets.topic.replication.factor"):
            replicas = min(replicas, max(len(node.image.brokers), 1))
        return _topic(
            name,
            settings.offsets_topic_num_partitions,
            replicas,
            {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(settings.offsets_topic_segment_bytes),
            },
        )
    return _topic(name, settings.num_partitions, settings.default_replication_factor, {})


def _topic(name: str, partitions: int, replicas: int, configs: Mapping[str, str]) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=(),
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
