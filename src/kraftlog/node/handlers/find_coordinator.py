"""FindCoordinator 0-6: which broker looks after a group; the topic it rests on is made if need be.

Transactional ids have no coordinator, as there are no transactions yet. Who asks for one must not
ask again: every client takes one of two codes for final, and shows the words that come with it.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode, error_name
from kraftlog.groups.shard import partition_of
from kraftlog.node.coordinators.group_coordinators import TOPIC
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraftlog.node.node import Node
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.types import Now
    from kraftlog.wire.messages.find_coordinator import FindCoordinatorRequest

GROUP = 0
TRANSACTION = 1
#: The first version that asks for several at once.
SEVERAL_SINCE = 4
#: After so many keys there is a pause; one costs so many microseconds.
KEYS_IN_A_STEP = 50
A_KEY_COSTS = 5


def handle(
    node: Node, slot: PendingResponse, request: FindCoordinatorRequest, now: Now
) -> Iterator[int] | None:
    assert node.group_coordinators is not None
    if request.key_type != GROUP or node.group_coordinators.partition_count:
        return _answering(node, slot, request)
    from kraftlog.node.broker.auto_topic_creation import create_topics

    def made(_: object, __: object) -> None:
        node.sliced.run(slot, _answering(node, slot, request))

    create_topics(node, [TOPIC], made, now)
    return None


def _answering(node: Node, slot: PendingResponse, request: FindCoordinatorRequest) -> Iterator[int]:
    several = slot.version >= SEVERAL_SINCE
    keys = request.coordinator_keys if several else [request.key]
    found = []
    for number, key in enumerate(keys, 1):
        if request.key_type == TRANSACTION:
            found.append(_without_transactions(key, several=several))
        else:
            found.append(_find(node, slot, request.key_type, key))
        if not number % KEYS_IN_A_STEP:
            yield KEYS_IN_A_STEP * A_KEY_COSTS
    if several:
        yield from slot.respond_in_steps(FindCoordinatorResponse(coordinators=found), len(found))
        return
    one = found[0]
    slot.respond(
        FindCoordinatorResponse(
            error_code=one.error_code,
            # Of a single coordinator Kafka names what the code stands for, also of success.
            error_message=one.error_message or error_name(one.error_code),
            node_id=one.node_id,
            host=one.host,
            port=one.port,
        )
    )


def _find(node: Node, slot: PendingResponse, key_type: int, key: str) -> Coordinator:
    if key_type != GROUP:
        return _nowhere(key, ErrorCode.INVALID_REQUEST, f"unsupported coordinator type {key_type}")
    assert node.group_coordinators is not None
    topic = node.image.topic_named(TOPIC)
    if topic is None:
        return _nowhere(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    index = partition_of(key, topic.partition_count)
    partition = node.image.partitions.get((topic.id, index))
    broker = node.image.brokers.get(partition.leader) if partition is not None else None
    at = None if broker is None or broker.fenced else broker.endpoint(slot.connection.listener_name)
    if broker is None or at is None:
        return _nowhere(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return Coordinator(key=key, node_id=broker.id, host=at.host, port=at.port, error_message="")


def _without_transactions(key: str, *, several: bool) -> Coordinator:
    """librdkafka, which asks for one at a time, gives up on nothing but missing rights."""
    code = (
        ErrorCode.UNSUPPORTED_VERSION
        if several
        else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    )
    return _nowhere(key, code, "transactions are not supported by this broker")


def _nowhere(key: str, code: int, why: str = "") -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=why)
