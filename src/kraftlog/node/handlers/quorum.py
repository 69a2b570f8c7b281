"""Vote, BeginQuorumEpoch, EndQuorumEpoch, FetchSnapshot, ReadOffset: what replicas of the metadata
quorum ask each other goes to its core (a Fetch of the metadata log does, too: see `fetch`)."""

from __future__ import annotations

from kraftlog.logstate.voters import endpoint_of
from kraftlog.node.quorum.elsewhere import refusal_elsewhere
from kraftlog.node.quorum.requests import request_from_wire
from kraftlog.raft.messages import Begin
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.node.node import Node
    from kraftlog.node.slots import Slot
    from kraftlog.types import Now
    from kraftlog.wire.schema import Message


def handle(node: Node, slot: Slot, request: Message, now: Now) -> None:
    assert slot.api is not None
    refusal = refusal_elsewhere(slot.api.key, request)
    if refusal is not None:
        slot.answer(refusal)
        return
    body = request_from_wire(slot.api.key, request)
    told = endpoint_of(getattr(request, "leader_endpoints", ()), node.quorum.listener)
    if told is not None and isinstance(body, Begin):
        node.quorum.told_of_leader(slot, body, (told.host, told.port), now)
    else:
        node.quorum.asked(slot, body, slot.connection, now)
