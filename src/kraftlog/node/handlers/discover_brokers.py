"""DiscoverBrokers: where the nodes of the quorum listen, for other nodes and for operators (R9)."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import CONTROLLER

if TYPE_CHECKING:
    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.types import Now
    from kraftlog.wire.messages.discover_brokers import DiscoverBrokersRequest


def handle(
    node: ServingNode, pending: PendingResponse, request: DiscoverBrokersRequest, now: Now
) -> None:
    """Respond with the known addresses, and note the sender's own on a controller listener.

    A broker's listener takes no reports: any client may connect to it.
    """
    may_report = pending.connection.serves == CONTROLLER
    pending.respond(node.discovery.respond_to(request, now, may_report=may_report))
