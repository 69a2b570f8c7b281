"""The effect of one event on one node: its next state, and the messages that it sends.

A step depends on the node and the event alone, so it is computed once for all states of the quorum.
Four shortcuts lose no behaviour:

- A node forgets at once that it has heard from a leader: remembering only keeps it from voting or
  campaigning.
- A node that cannot crash any more writes at once. A slow write only delays messages, which may be
  delayed anyway, and a leader that writes at once only commits earlier.
- An unanswered request is repeated at once, unchanged. So requests need not be lost: one that is
  never delivered has the same effect.
- A response that is not awaited is never sent, and a fetch whose response is not awaited is not
  parked, as neither has an effect.
"""

from __future__ import annotations

from kraftlog.raft import fetching, quorum
from kraftlog.raft.messages import (
    Append,
    ElectionPersisted,
    FetchResult,
    Flushed,
    NoResponse,
    PersistElection,
    Reply,
    Request,
    Response,
    Send,
    Stop,
    Truncate,
)
from kraftlog.raft.roles.fetcher import NEVER, Fetcher
from kraftlog.raft.roles.leader import Leader
from kraftlog.value import TYPE_CHECKING, Value
from kraftlog_simulator.explorer.invariants import Broken, check_vote
from kraftlog_simulator.explorer.node import (
    AFTER_ALL_TIMEOUTS,
    NOW,
    Message,
    Node,
    RequestContext,
    make_core,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.raft.core import RaftCore

#: The beginnings of the names of timers that repeat a request.
RETRIES = ("ask ", "begin-epoch ", "end-epoch ", "fetch")


class Step(Value):
    """The result of an event; the node stopped waiting for responses of the `given_up` peers."""

    node: Node
    sent: tuple[Message, ...]
    given_up: tuple[int, ...]


def step(node: Node, event: str, argument: Any = None) -> Step:
    """Apply an event to a copy of the node; Broken or AssertionError: the core breaks a rule."""
    if event == "crash":
        next_node = _restarted(node)
        given_up = node.waits_for()
    else:
        next_node = node.copy()
        _EVENTS[event](next_node, argument)
        given_up = ()
    sent = _carry_out_effects(next_node)
    if event != "crash":
        waited = node.waits_for()
        given_up = tuple(
            [peer for peer in waited if next_node.in_flight(peer) != node.in_flight(peer)]
        )
    return Step(next_node, sent, given_up)


# Events ------------------------------------------------------------------------------------------


def _receive(node: Node, message: Message) -> None:
    source, body = message.source, message.body
    if message.is_response:
        node.core.handle(Response(source, node.in_flight(source), body), NOW)
    else:
        requester = RequestContext(source, message.is_awaited, getattr(body, "pre_vote", False))
        node.core.handle(Request(requester, body, source), NOW)


def _lose_response(node: Node, peer: int) -> None:
    """A peer's response never arrives."""
    node.core.handle(NoResponse(peer, node.in_flight(peer)), NOW)


def _forget(node: Node, requester: int) -> None:
    """`requester` no longer waits for the responses to its requests."""
    node.held = tuple(
        [
            effect
            for effect in node.held
            if isinstance(effect, Send) or effect.pending.id != requester
        ]
    )
    role = node.core.role
    if isinstance(role, Leader):
        role.parked = tuple(
            [parked for parked in role.parked if parked.request.pending.id != requester]
        )


def _campaign(node: Node, _: Any) -> None:
    core = node.core
    if core.role.name == quorum.LEADER:
        _time_out_majority(core)
    if core.role.name in {quorum.CANDIDATE, quorum.RESIGNED}:
        core.fire("election")
    core.role.on_succession(core, 0)  # campaign at once, without a pre-vote


def _resign(node: Node, _: Any) -> None:
    _time_out_majority(node.core)


def _time_out_majority(core: RaftCore) -> None:
    """A leader has heard from no majority within the fetch timeout: it resigns."""
    core.now = AFTER_ALL_TIMEOUTS
    core.fire("majority")
    core.now = NOW


def _fire_timer(node: Node, name: str) -> None:
    node.core.fire(name)


def _persist(node: Node, _: Any) -> None:
    """The oldest write of the election state is done."""
    (version, node.election), *later = node.pending
    node.pending = tuple(later)
    node.core.handle(ElectionPersisted(version), NOW)


def _flush(node: Node, _: Any) -> None:
    node.core.handle(Flushed(node.core.log.end), NOW)


def _propose(node: Node, _: Any) -> None:
    node.core.propose("proposal", 1, 1, "record", NOW)


def _discover(node: Node, peer: int) -> None:
    fetching.fetch_from(node.core, peer)


def _restarted(old: Node) -> Node:
    """The replica after a restart, with only its durable batches and election state."""
    durable = old.durable
    node = Node(make_core(old.id, durable, old.election), old.crashes - 1)
    node.batches, node.sent_vote = durable, old.sent_vote
    node.election = old.election
    return node


_EVENTS: dict[str, Callable[[Node, Any], None]] = {
    "receive": _receive,
    "no response": _lose_response,
    "forget": _forget,
    "campaign": _campaign,
    "resign": _resign,
    "timeout": _fire_timer,
    "persist": _persist,
    "flush": _flush,
    "propose": _propose,
    "discover": _discover,
}

# Effects -----------------------------------------------------------------------------------------


def _carry_out_effects(node: Node) -> tuple[Message, ...]:
    """Carry out the core's effects until there are none; return the sent messages."""
    sent: list[Send | Reply] = []
    while True:
        for effect in node.core.take_effects():
            _carry_out(node, effect)
        wrote = _write_at_once(node)
        _send_durable(node, sent)
        if not (_retry(node) or wrote):
            break
    role = node.core.role
    if isinstance(role, Fetcher):
        role.heard_at = NEVER
    elif isinstance(role, Leader):
        role.parked = tuple([parked for parked in role.parked if parked.request.pending.is_awaited])
    messages = [_message(node, effect) for effect in sent]
    for message in messages:
        check_vote(node, message)
    return tuple(messages)


def _carry_out(node: Node, effect: Any) -> None:
    if isinstance(effect, PersistElection):
        node.pending = (*node.pending, (effect.version, effect.state))
    elif isinstance(effect, Append):
        node.batches = (*node.batches, effect.batch.replace(payload=None))
    elif isinstance(effect, Truncate):
        node.batches = tuple([batch for batch in node.batches if batch.last_offset < effect.offset])
    elif isinstance(effect, Send):
        node.held = (*node.held, effect)
    elif isinstance(effect, Reply):
        if effect.pending.is_awaited:
            node.held = (*node.held, effect.replace(body=_with_batches(node, effect.body)))
    elif isinstance(effect, Stop):
        raise Broken("a replica never stops by itself", effect.reason)


def _with_batches(node: Node, body: Any) -> Any:
    """The body; a fetch response with its batches, as a leader's host fills them in."""
    if isinstance(body, FetchResult) and body.limit >= 0:
        batches = [batch for batch in node.batches if body.offset <= batch.base_offset < body.limit]
        return body.replace(batches=tuple(batches))
    return body


def _write_at_once(node: Node) -> bool:
    """Persist and flush at once if the node cannot crash; return whether anything was written."""
    if node.crashes:
        return False
    wrote = False
    while node.pending:
        _persist(node, None)
        wrote = True
    if node.core.log.flushed < node.core.log.end:
        _flush(node, None)
        wrote = True
    return wrote


def _send_durable(node: Node, sent: list[Send | Reply]) -> None:
    """Send the held messages whose durable points are reached, in order."""
    held, node.held = node.held, ()
    for effect in held:
        if node.core.is_durable(effect.after):
            sent.append(effect)
        else:
            node.held = (*node.held, effect)


def _message(node: Node, effect: Send | Reply) -> Message:
    if isinstance(effect, Send):
        is_awaited = node.in_flight(effect.peer) == effect.number
        return Message(node.id, effect.peer, False, is_awaited, effect.body)
    requester = effect.pending
    return Message(node.id, requester.id, True, True, effect.body, requester.is_pre_vote)


def _retry(node: Node) -> bool:
    """Repeat unanswered requests at once; return whether there are any."""
    names = [name for name in node.core.timers if name != "fetch timeout"]
    names = [name for name in names if name.startswith(RETRIES)]
    for name in names:
        if name in node.core.timers:
            node.core.fire(name)
    return bool(names)
