"""Templates of repeated Fetch requests: of a consumer's partition, or of a follower's session."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.node.templates.request_templates import RequestTemplates
    from kraftlog.types import Buffer
    from kraftlog.wire.messages.fetch import FetchRequest


def add_template(
    templates: RequestTemplates,
    node: ServingNode,
    pending: PendingResponse,
    request: FetchRequest,
    buffer: Buffer,
    pos: int,
    end: int,
) -> None:
    """Add the template of a served request, if the fast path supports requests like it."""
    if max(request.replica_id, request.replica_state.replica_id) >= 0:
        from kraftlog.node.fetch import follower_template

        follower_template.add_template(templates, node, pending, request, buffer, pos, end)
    else:
        from kraftlog.node.fetch import consumer_template

        consumer_template.add_template(templates, node, pending, request, buffer, pos, end)
