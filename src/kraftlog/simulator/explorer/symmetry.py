"""A state's key. Two states have the same key if they differ by the names of their nodes alone.

`names` gives each node its new name, and -1 (nobody) stays -1. Nodes are sorted by what can be
seen without names; only among those that look alike every order is tried, and the least key wins.
"""

from __future__ import annotations

from functools import cache
from itertools import permutations

from kraftlog.raft import quorum
from kraftlog.raft.messages import (
    Begin,
    BeginAnswer,
    ElectionDurable,
    Fetch,
    FetchAnswer,
    Reply,
    Send,
    Vote,
    VoteAnswer,
)
from kraftlog.raft.roles.leader import Leader
from kraftlog.raft.roles.polling import Polling
from kraftlog.simulator.explorer.bounds import NODES
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.raft.core import RaftCore
    from kraftlog.raft.messages import Batch, ElectionState
    from kraftlog.simulator.explorer.state import Message, Node, State

    Names = tuple[int, ...]

ROLES = {
    name: number
    for number, name in enumerate(
        (
            quorum.UNATTACHED,
            quorum.VOTED,
            quorum.PROSPECTIVE,
            quorum.CANDIDATE,
            quorum.LEADER,
            quorum.FOLLOWER,
            quorum.RESIGNED,
            quorum.OBSERVER,
        )
    )
}
NOBODY = (-1,)


def key(state: State) -> int:
    """64 bits: states are told apart by them alone, as their number is far below 2 to the 32."""
    looks = tuple([_look(node) for node in state.nodes])
    return min([hash(_key(state, names)) for names in _renamings(looks)])


@cache
def _renamings(looks: tuple[Any, ...]) -> list[Names]:
    """New names that put the looks in order."""
    ordered = sorted(looks)
    return [
        (*names, -1)
        for names in permutations(range(NODES))
        if [look for _, look in sorted(zip(names, looks, strict=True))] == ordered
    ]


def _look(node: Node) -> tuple[int, ...]:
    """What can be seen of a node without names."""
    known = node.keys.get(NOBODY)
    if known is None:
        core = node.core
        known = node.keys[NOBODY] = (
            ROLES[core.role.name],
            node.crashes,
            core.election.epoch,
            core.log.end,
            core.log.last_epoch,
            core.log.flushed,
            core.log.high_watermark,
            node.election.epoch,
            node.promised[0],
        )
    look: tuple[int, ...] = known
    return look


def _key(state: State, names: Names) -> tuple[Any, ...]:
    nodes: list[Any] = [None] * NODES
    parked: list[Any] = []
    held: list[Any] = []
    for node_id, node in enumerate(state.nodes):
        known = node.keys.get(names)
        if known is None:
            known = node.keys[names] = _node_key(node, names)
        nodes[names[node_id]] = known
        if isinstance(node.core.role, Leader) and node.core.role.parked:
            parked.append(_parked(state, node, names))
        held += [_held_answer(state, node, h, names) for h in node.held if isinstance(h, Reply)]
    parked.sort()
    held.sort()
    wire = [_message_key(state, message, names) for message in state.wire.values()]
    wire.sort()
    leaders = tuple([(epoch, names[leader]) for epoch, leader in state.leaders])
    return (
        tuple(nodes),
        tuple(parked),
        tuple(held),
        tuple(wire),
        state.records,
        leaders,
        _log(state.committed),
    )


def _node_key(node: Node, names: Names) -> tuple[Any, ...]:
    core, log = node.core, node.core.log
    return (
        _look(node),
        core.version - core.durable_version,
        _election(core.election, names),
        _election(node.election, names),
        tuple([_election(election, names) for _, election in node.pending]),
        names[node.promised[1]],
        _log(node.batches),
        log.epochs.latest,
        _role(core.role, names),
        _held_requests(node, names),
    )


def _held_requests(node: Node, names: Names) -> tuple[Any, ...]:
    """In order for each receiver; which receiver comes first makes no difference."""
    core = node.core
    held = [
        (
            names[h.peer],
            _body(h.body, names),
            _waits(core, h),
            core.peer(h.peer).in_flight == h.number,
        )
        for h in node.held
        if isinstance(h, Send)
    ]
    held.sort(key=lambda request: request[0])
    return tuple(held)


def _election(election: ElectionState, names: Names) -> tuple[int, int, int]:
    voted = election.voted
    return election.epoch, names[election.leader_id], -1 if voted is None else names[voted.id]


def _log(batches: tuple[Batch, ...]) -> tuple[tuple[int, int], ...]:
    return tuple([(batch.last_offset, batch.epoch) for batch in batches])


def _role(role: Any, names: Names) -> tuple[Any, ...]:
    if isinstance(role, Polling):
        granted = tuple(sorted([names[i] for i in role.granted]))
        refused = tuple(sorted([names[i] for i in role.refused]))
        return granted, refused, getattr(role, "beaten", False)
    if isinstance(role, Leader):
        ends = [(names[key.id], p.end_offset) for key, p in role.progress.replicas.items()]
        return (
            role.epoch_start,
            tuple(sorted([names[i] for i in role.endorsed])),
            tuple(sorted(ends)),
        )
    return ()


def _parked(state: State, node: Node, names: Names) -> tuple[Any, ...]:
    me = node.core.me.id
    found = []
    for parked in node.core.role.parked:  # type: ignore[attr-defined] # a leader's, says the caller
        asker, life, number, _ = parked.asked.slot
        wanted = state.nodes[asker].awaits(me, life, number)
        found.append((names[asker], _body(parked.fetch, names), wanted))
    return names[me], tuple(sorted(found))


def _held_answer(state: State, node: Node, effect: Any, names: Names) -> tuple[Any, ...]:
    asker, life, number, is_pre_vote = effect.slot
    me = node.core.me.id
    if not state.nodes[asker].awaits(me, life, number):
        return names[me], names[asker]  # it will be dropped, whatever it says
    said = _body(effect.body, names)
    return names[me], names[asker], said, is_pre_vote, _waits(node.core, effect)


def _waits(core: RaftCore, effect: Any) -> tuple[tuple[int, int], ...]:
    """What must be durable first. Nothing is negative here: -1 and -2 have the same hash."""
    return tuple(
        [
            (0, core.version - point.version)
            if isinstance(point, ElectionDurable)
            else (1, point.offset)
            for point in effect.after
        ]
    )


def _message_key(state: State, message: Message, names: Names) -> tuple[Any, ...]:
    return (
        names[message.source],
        names[message.target],
        message.is_answer,
        state.is_wanted(message),
        message.is_pre_vote,
        _body(message.body, names),
    )


def _body(body: Any, names: Names) -> tuple[Any, ...]:
    """Requests name nobody but their sender and receiver."""
    if isinstance(body, FetchAnswer):
        diverging = body.diverging
        return (
            1,
            body.error,
            body.epoch,
            names[body.leader_id],
            body.high_watermark,
            (diverging.offset, diverging.epoch) if diverging is not None else (-1, -1),
            body.offset,
            _log(body.batches),
        )
    if isinstance(body, Fetch):
        return 2, body.epoch, body.offset, body.last_epoch, body.high_watermark
    if isinstance(body, VoteAnswer):
        return 3, body.error, body.epoch, names[body.leader_id], body.granted
    if isinstance(body, Vote):
        return 4, body.epoch, body.pre_vote, body.last_epoch, body.end_offset
    if isinstance(body, BeginAnswer):
        return 5, body.error, body.epoch, names[body.leader_id]
    if isinstance(body, Begin):
        return 6, body.epoch
    raise TypeError(f"not explored: {body!r}")
