"""Vote, Begin- and EndQuorumEpoch, FetchSnapshot, ReadOffset: requests between quorum replicas.

The raft core handles them, as it does Fetch requests for the metadata log (see `fetch_metadata`).
"""

from __future__ import annotations

from kraftlog.effects import LogLine
from kraftlog.errors import ErrorCode
from kraftlog.logstate.voters import endpoint_of
from kraftlog.node.quorum.refusals import refusal_of_other_partition
from kraftlog.node.quorum.requests import request_from_wire
from kraftlog.raft.messages import BeginEpoch
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.fetch import FetchResponse

if TYPE_CHECKING:
    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.types import Now
    from kraftlog.wire.messages.fetch import FetchRequest
    from kraftlog.wire.schema import Message


def handle(node: ServingNode, pending: PendingResponse, request: Message, now: Now) -> None:
    assert pending.api is not None
    refusal = refusal_of_other_partition(pending.api.key, request)
    if refusal is not None:
        pending.respond(refusal)
        return
    body = request_from_wire(pending.api.key, request)
    endpoint = endpoint_of(getattr(request, "leader_endpoints", ()), node.quorum.listener)
    if endpoint is not None and isinstance(body, BeginEpoch):
        node.quorum.begin_epoch_received(pending, body, (endpoint.host, endpoint.port), now)
    else:
        node.quorum.handle_request(pending, body, pending.connection, now)


def fetch_metadata(
    node: ServingNode, pending: PendingResponse, request: FetchRequest, now: Now
) -> None:
    """Handle a fetch of the metadata log by a replica of the quorum."""
    node.needs_poll = True
    body = request_from_wire(ApiKey.FETCH, request)
    if node.quorum.twins.refuses(body.replica, pending):
        # Another process runs on a copy of the same log directory.
        code = ErrorCode.DUPLICATE_BROKER_REGISTRATION
        pending.respond(FetchResponse(error_code=code, responses=()))
        return
    if not node.quorum.core.cluster_id_differs(body.cluster_id):
        host = getattr(pending.connection, "host", "")
        warning = node.quorum.shared_ids.warning(body.replica, host)
        if warning is not None:
            node.emit(LogLine(warning))
    max_bytes = min(body.max_bytes, node.config.raft.max_fetch_bytes)
    node.quorum.handle_request(pending, body, pending.connection, now, max_bytes)
