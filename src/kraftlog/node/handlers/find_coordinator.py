"""FindCoordinator 0-6: the coordinator of a group; creates the offsets topic if it is missing.

Transactional ids have no coordinator, because transactions are not supported; they get an error
that clients do not retry.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode, error_name
from kraftlog.groups.shard import partition_of
from kraftlog.node.coordinators.group_coordinators import TOPIC
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.types import Now
    from kraftlog.wire.messages.find_coordinator import FindCoordinatorRequest

GROUP = 0
TRANSACTION = 1
#: The first version with several keys.
SEVERAL_SINCE = 4
#: Keys per slice, and the cost of one in microseconds.
KEYS_PER_SLICE = 50
KEY_COST = 5


def handle(
    node: ServingNode, pending: PendingResponse, request: FindCoordinatorRequest, now: Now
) -> Iterator[int] | None:
    assert node.group_coordinators is not None
    if request.key_type != GROUP or node.group_coordinators.partition_count:
        return _respond_in_steps(node, pending, request)
    from kraftlog.node.auto_topic_creation import create_topics

    def on_created(_: object, __: object) -> None:
        node.sliced.run(pending, _respond_in_steps(node, pending, request))

    create_topics(node, [TOPIC], on_created, now)
    return None


def _respond_in_steps(
    node: ServingNode, pending: PendingResponse, request: FindCoordinatorRequest
) -> Iterator[int]:
    several = pending.version >= SEVERAL_SINCE
    keys = request.coordinator_keys if several else [request.key]
    coordinators = []
    for number, key in enumerate(keys, 1):
        if request.key_type == TRANSACTION:
            coordinators.append(_transactions_unsupported(key, several=several))
        else:
            coordinators.append(_find(node, pending, request.key_type, key))
        if not number % KEYS_PER_SLICE:
            yield KEYS_PER_SLICE * KEY_COST
    if several:
        response = FindCoordinatorResponse(coordinators=coordinators)
        yield from pending.respond_in_steps(response, len(coordinators))
        return
    coordinator = coordinators[0]
    pending.respond(
        FindCoordinatorResponse(
            error_code=coordinator.error_code,
            # For a single key Kafka sets the message to the name of the code, also on success.
            error_message=coordinator.error_message or error_name(coordinator.error_code),
            node_id=coordinator.node_id,
            host=coordinator.host,
            port=coordinator.port,
        )
    )


def _find(node: ServingNode, pending: PendingResponse, key_type: int, key: str) -> Coordinator:
    if key_type != GROUP:
        return _no_coordinator(
            key, ErrorCode.INVALID_REQUEST, f"unsupported coordinator type {key_type}"
        )
    assert node.group_coordinators is not None
    topic = node.image.topic_named(TOPIC)
    if topic is None:
        return _no_coordinator(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    index = partition_of(key, topic.partition_count)
    partition = node.image.partitions.get((topic.id, index))
    broker = node.image.brokers.get(partition.leader) if partition is not None else None
    if broker is None or broker.fenced:
        return _no_coordinator(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    endpoint = broker.endpoint(pending.connection.listener_name)
    if endpoint is None:
        return _no_coordinator(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return Coordinator(
        key=key, node_id=broker.id, host=endpoint.host, port=endpoint.port, error_message=""
    )


def _transactions_unsupported(key: str, *, several: bool) -> Coordinator:
    """An error that clients do not retry.

    librdkafka, which sends a single key, retries all errors but those of authorization.
    """
    code = (
        ErrorCode.UNSUPPORTED_VERSION
        if several
        else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    )
    return _no_coordinator(key, code, "transactions are not supported by this broker")


def _no_coordinator(key: str, code: int, why: str = "") -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=why)
