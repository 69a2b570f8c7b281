"""What becomes of a core's effects: the disk, and the messages under way.

Four things are settled at once, as nothing is lost by it:
- Nobody has heard of a leader: to hear one only keeps a node from voting or standing.
- A node that can't crash any more writes at once. A write only delays what waits for it, and
  messages may be delayed anyway; a leader that writes at once only commits earlier.
- A request that is not answered is asked again at once, in the same words. So a request need not
  be lost: one that is never delivered is as good as lost.
- An answer that nobody waits for any more is dropped, and so is a request that nobody waits for
  and that is of an older epoch than its receiver will ever be in again.
"""

from __future__ import annotations

from kraftlog.raft.messages import (
    Append,
    ElectionDurable,
    ElectionPersisted,
    FetchAnswer,
    Flushed,
    PersistElection,
    Reply,
    Send,
    Stop,
    Truncate,
    Unanswered,
)
from kraftlog.raft.roles.fetcher import NEVER, Fetcher
from kraftlog.simulator.explorer.invariants import Broken, check_promise
from kraftlog.simulator.explorer.state import ANSWER, LATE, NOW, REQUEST, Message
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.simulator.explorer.state import Node, State

RETRIES = ("ask ", "tell ", "fetch")


def settle(state: State, node_id: int) -> None:
    """Carry out all that the node's core wants done, until it rests."""
    node = state.change(node_id)
    while True:
        for effect in node.core.take_effects():
            _carry_out(node, effect)
        wrote = _write_at_once(node)
        _speak(state, node)
        if not (_retry(node) or wrote):
            break
    if isinstance(node.core.role, Fetcher):
        node.core.role.heard_at = NEVER
    _forget(state)


def _forget(state: State) -> None:
    """Drop the messages that can't change anything any more."""
    for place, message in list(state.wire.items()):
        if state.is_wanted(message):
            continue
        if message.is_answer or message.body.epoch < state.nodes[message.target].election.epoch:
            del state.wire[place]


def _carry_out(node: Node, effect: Any) -> None:
    if isinstance(effect, PersistElection):
        node.pending = (*node.pending, (effect.version, effect.state))
    elif isinstance(effect, Append):
        node.batches = (*node.batches, effect.batch)
    elif isinstance(effect, Truncate):
        node.batches = tuple([b for b in node.batches if b.last_offset < effect.offset])
    elif isinstance(effect, (Send, Reply)):
        if isinstance(effect, Reply):
            effect = effect.replace(body=_filled(node, effect.body))
        node.held = (*node.held, effect)
    elif isinstance(effect, Stop):
        raise Broken("a replica never stops by itself", effect.why)


def _filled(node: Node, body: Any) -> Any:
    """The leader's host puts the batches of the range into a fetch's answer."""
    if isinstance(body, FetchAnswer) and body.limit >= 0:
        wanted = [b for b in node.batches if body.offset <= b.base_offset < body.limit]
        return body.replace(batches=tuple(wanted))
    return body


def _write_at_once(node: Node) -> bool:
    """Whether something was written."""
    if node.crashes:
        return False
    wrote = False
    while node.pending:
        persist(node)
        wrote = True
    core = node.core
    if core.log.flushed < core.log.end:
        core.handle(Flushed(core.log.end), NOW)
        wrote = True
    return wrote


def persist(node: Node) -> None:
    """The oldest write of the election state is done."""
    (version, node.election), *later = node.pending
    node.pending = tuple(later)
    node.core.handle(ElectionPersisted(version), NOW)


def _speak(state: State, node: Node) -> None:
    """Say what was held and need not be any longer, in order."""
    held, node.held = node.held, ()
    for effect in held:
        if not _is_durable(node, effect.after):
            node.held = (*node.held, effect)
            continue
        me = node.core.me.id
        if isinstance(effect, Send):
            number, body = effect.number, effect.body
            message = Message(me, effect.peer, False, node.crashes, number, body)
        else:
            asker, life, number, is_pre_vote = effect.slot
            message = Message(me, asker, True, life, number, effect.body, is_pre_vote)
            if not state.is_wanted(message):
                continue
        check_promise(node, message)
        if state.keeps_late and isinstance(effect, Send) and message.place in state.wire:
            state.wire[me, effect.peer, LATE] = state.wire[message.place]
        state.wire[message.place] = message


def _is_durable(node: Node, points: tuple[Any, ...]) -> bool:
    core = node.core
    return all(
        point.version <= core.durable_version
        if isinstance(point, ElectionDurable)
        else point.offset <= core.log.flushed
        for point in points
    )


def _retry(node: Node) -> bool:
    """Ask again at once what was not answered."""
    names = [name for name in node.core.timers if name != "fetch timeout"]
    names = [name for name in names if name.startswith(RETRIES)]
    for name in names:
        if name in node.core.timers:
            node.core.fire(name)
    return bool(names)


def tell_unanswered(state: State, silent: int) -> None:
    """Who waits for `silent`, which has forgotten the question, learns that no answer comes."""
    for asker, node in enumerate(state.nodes):
        peer = node.core.peers.get(silent)
        if asker == silent or peer is None or peer.in_flight < 0:
            continue
        request = state.wire.get((asker, silent, REQUEST))
        answer = state.wire.get((silent, asker, ANSWER))
        held = [h for h in node.held if isinstance(h, Send) and h.peer == silent]
        under_way = [m for m in (request, answer) if m is not None and state.is_wanted(m)]
        if not under_way and peer.in_flight not in {h.number for h in held}:
            state.change(asker).core.handle(Unanswered(silent, peer.in_flight), NOW)
            settle(state, asker)
