"""Keys for nodes and messages, without times and request numbers.

`names` maps each node to its new name, and -1 (none) to -1. Two states that differ only by the
names of the nodes have the same key under suitable names.
"""

from __future__ import annotations

from kraftlog.raft.messages import (
    BeginEpoch,
    BeginEpochResult,
    ElectionDurable,
    Fetch,
    FetchResult,
    Send,
    Vote,
    VoteResult,
)
from kraftlog.raft.roles.leader import Leader
from kraftlog.raft.roles.voter_poll import VoterPoll
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.raft.core import RaftCore
    from kraftlog.raft.messages import Batch, ElectionState
    from kraftlog_simulator.explorer.invariants import History
    from kraftlog_simulator.explorer.node import Message, Node

    Names = tuple[int, ...]


def node_key(node: Node, names: Names) -> tuple[Any, ...]:
    core, log = node.core, node.core.log
    return (
        core.role.name,
        node.crashes,
        log.end,
        log.flushed,
        log.high_watermark,
        log.epochs.latest,
        log_key(node.batches),
        core.election_version - core.durable_election_version,
        _election(core.election, names),
        _election(node.election, names),
        tuple([_election(election, names) for _, election in node.pending]),
        (node.sent_vote[0], names[node.sent_vote[1]]),
        _role(core.role, names),
        _requests(node, names),
        _held(node, names),
    )


def message_key(message: Message, names: Names) -> tuple[Any, ...]:
    return (
        names[message.source],
        names[message.target],
        message.is_response,
        message.is_awaited,
        message.is_pre_vote,
        _body(message.body, names),
    )


def history_key(history: History, names: Names) -> tuple[Any, ...]:
    leaders = tuple([(epoch, names[leader]) for epoch, leader in history.leaders])
    return history.records, leaders, log_key(history.committed), history.broken or ()


def log_key(batches: tuple[Batch, ...]) -> tuple[tuple[int, int, int], ...]:
    """The log; the size distinguishes a client's record from a leader's first record."""
    return tuple([(batch.last_offset, batch.epoch, batch.size_bytes) for batch in batches])


def _election(election: ElectionState, names: Names) -> tuple[int, int, int]:
    voted = election.voted
    return election.epoch, names[election.leader_id], -1 if voted is None else names[voted.id]


def _role(role: Any, names: Names) -> tuple[Any, ...]:
    if isinstance(role, VoterPoll):
        granted = tuple(sorted([names[i] for i in role.granted]))
        refused = tuple(sorted([names[i] for i in role.refused]))
        return granted, refused, getattr(role, "has_lost", False)
    if isinstance(role, Leader):
        ends = [
            (names[key.id], progress.end_offset) for key, progress in role.progress.replicas.items()
        ]
        parked = [
            (names[parked.request.pending.id], _body(parked.fetch, names)) for parked in role.parked
        ]
        return (
            role.epoch_start,
            tuple(sorted([names[i] for i in role.acknowledged_by])),
            tuple(sorted(ends)),
            tuple(sorted(parked)),
        )
    return ()


def _requests(node: Node, names: Names) -> tuple[Any, ...]:
    """The peers from which the node waits for a response, and the kind of request."""
    peers = node.core.peers
    requests = [(names[peer], type(peers[peer].request).__name__) for peer in node.waits_for()]
    return tuple(sorted(requests))


def _held(node: Node, names: Names) -> tuple[Any, ...]:
    """The held messages, in order for each receiver; the order of receivers makes no difference."""
    held: list[tuple[Any, ...]] = []
    for effect in node.held:
        waits = _waits(node.core, effect)
        if isinstance(effect, Send):
            is_awaited = node.in_flight(effect.peer) == effect.number
            held.append((names[effect.peer], 0, _body(effect.body, names), waits, is_awaited))
        else:
            requester = effect.pending
            body = _body(effect.body, names)
            held.append((names[requester.id], 1, body, waits, requester.is_pre_vote))
    held.sort(key=lambda message: message[:2])
    return tuple(held)


def _waits(core: RaftCore, effect: Any) -> tuple[tuple[int, int], ...]:
    """The election states and offsets that must be durable before a message is sent."""
    return tuple(
        [
            (0, core.election_version - point.version)
            if isinstance(point, ElectionDurable)
            else (1, point.offset)
            for point in effect.after
        ]
    )


def _body(body: Any, names: Names) -> tuple[Any, ...]:
    """A number for the type of a body, then its fields; the bodies of requests name no nodes."""
    if isinstance(body, FetchResult):
        diverging = body.diverging
        return (
            1,
            body.error,
            body.epoch,
            names[body.leader_id],
            body.high_watermark,
            (diverging.offset, diverging.epoch) if diverging is not None else (-1, -1),
            body.offset,
            log_key(body.batches),
        )
    if isinstance(body, Fetch):
        return 2, body.epoch, body.offset, body.last_epoch, body.high_watermark
    if isinstance(body, VoteResult):
        return 3, body.error, body.epoch, names[body.leader_id], body.granted
    if isinstance(body, Vote):
        return 4, body.epoch, body.pre_vote, body.last_epoch, body.end_offset
    if isinstance(body, BeginEpochResult):
        return 5, body.error, body.epoch, names[body.leader_id]
    if isinstance(body, BeginEpoch):
        return 6, body.epoch
    raise TypeError(f"not explored: {body!r}")
