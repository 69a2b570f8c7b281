"""DescribeCluster 0-2: the brokers, or on a controller listener the voters."""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.logstate.voters import endpoint_of
from kraftlog.node.handlers.consistency import linearizable_on_request
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import CONTROLLER
from kraftlog.wire.messages.describe_cluster import DescribeClusterBroker, DescribeClusterResponse

if TYPE_CHECKING:
    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.types import Now
    from kraftlog.wire.messages.describe_cluster import DescribeClusterRequest

#: Endpoint types.
BROKERS, CONTROLLERS = 1, 2
_TYPES = {BROKERS: "BROKER", CONTROLLERS: "CONTROLLER"}
#: All operations on a cluster, without an authorizer, as bits: create, alter, describe, cluster
#: action, describe configs, alter configs, idempotent write.
ALL_OPERATIONS = sum([1 << operation for operation in (5, 7, 8, 9, 10, 11, 12)])
#: Instead of operations.
NOT_REQUESTED = -(2**31)


@linearizable_on_request
def handle(
    node: ServingNode,
    pending: PendingResponse,
    request: DescribeClusterRequest,
    now: Now,  # noqa: ARG001 - interface of handlers
) -> None:
    own_type = CONTROLLERS if pending.connection.serves == CONTROLLER else BROKERS
    if request.endpoint_type not in {BROKERS, CONTROLLERS}:
        why = f"Unsupported endpoint type {request.endpoint_type}"
        pending.respond(_refused(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, why))
        return
    if request.endpoint_type != own_type:
        why = (
            f"The request was sent to an endpoint of type {_TYPES[own_type]}, but we wanted an "
            f"endpoint of type {_TYPES[request.endpoint_type]}"
        )
        pending.respond(_refused(ErrorCode.MISMATCHED_ENDPOINT_TYPE, why))
        return
    listener = pending.connection.listener_name
    pending.respond(
        DescribeClusterResponse(
            error_code=ErrorCode.NONE,
            endpoint_type=own_type,
            cluster_id=node.cluster_id or "",
            controller_id=node.quorum.leader_id if own_type == CONTROLLERS else node.config.node_id,
            brokers=(
                _controllers(node, listener)
                if own_type == CONTROLLERS
                else _brokers(node, request, listener)
            ),
            cluster_authorized_operations=(
                ALL_OPERATIONS if request.include_cluster_authorized_operations else NOT_REQUESTED
            ),
        )
    )


def _brokers(
    node: ServingNode, request: DescribeClusterRequest, listener: str
) -> list[DescribeClusterBroker]:
    """The brokers that have the client's listener, with their endpoints on it."""
    return [
        DescribeClusterBroker(
            broker_id=broker.id,
            host=endpoint.host,
            port=endpoint.port,
            rack=broker.rack,
            is_fenced=broker.fenced,
        )
        for broker in node.image.brokers.values()
        if (request.include_fenced_brokers or not broker.fenced)
        and (endpoint := broker.endpoint(listener))
    ]


def _controllers(node: ServingNode, listener: str) -> list[DescribeClusterBroker]:
    return [
        DescribeClusterBroker(broker_id=voter.key.id, host=endpoint.host, port=endpoint.port)
        for voter in node.quorum.core.log.voter_set.voters
        if (endpoint := endpoint_of(node.endpoints_of(voter), listener))
    ]


def _refused(code: int, why: str) -> DescribeClusterResponse:
    return DescribeClusterResponse(
        error_code=code,
        error_message=why,
        cluster_id="",
        brokers=(),
    )
