"""The invariants of a step, of the history, and of all nodes together.

Each is checked once for the parts of a state on which it depends: `check_step` for a node before
and after an event, `check_vote` for a message that a node sends, `History.with_node` for a history
and a node, `check_state` for all nodes and a history.
"""

from __future__ import annotations

from kraftlog.raft import quorum
from kraftlog.raft.messages import Vote, VoteResult
from kraftlog.raft.roles.leader import Leader
from kraftlog.value import TYPE_CHECKING, Value
from kraftlog_simulator.explorer.bounds import NAMES, NODES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.raft.messages import Batch
    from kraftlog_simulator.explorer.node import Message, Node

MAJORITY = NODES // 2 + 1


class Broken(Exception):  # noqa: N818 - it reports a broken invariant, not an error of the code that raises it
    """An invariant does not hold; `invariant` is its name."""

    def __init__(self, invariant: str, detail: str) -> None:
        super().__init__(invariant, detail)
        self.invariant = invariant

    def __str__(self) -> str:
        return ": ".join(self.args)


def check_vote(node: Node, message: Message) -> None:
    """Check that a node votes only once in an epoch, for another node or for itself."""
    body = message.body
    if isinstance(body, Vote) and not body.pre_vote:
        vote = body.epoch, body.candidate.id
    elif isinstance(body, VoteResult) and body.granted and not message.is_pre_vote:
        vote = body.epoch, message.target
    else:
        return
    if vote == node.sent_vote:
        return
    if vote[0] <= node.sent_vote[0]:
        raise Broken(
            "a node votes once in an epoch",
            f"node {_name(node)} voted for {NAMES[node.sent_vote[1]]} in epoch "
            f"{node.sent_vote[0]}, "
            f"and now for {NAMES[vote[1]]} in epoch {vote[0]}",
        )
    node.sent_vote = vote


def check_step(old: Node, new: Node) -> None:
    """Check a node after an event, compared with the node before it."""
    _check_log(new)
    _check_epochs(old, new)
    _check_own_epoch(old, new)


def check_state(nodes: Sequence[Node], history: History) -> None:
    """Check all nodes and their history."""
    if history.broken is not None:
        raise Broken(*history.broken)
    for node in nodes:
        _check_leader(node, history)
    _check_followers(nodes)
    _check_matching(nodes)
    _check_committed(nodes, history.committed)


class History(Value):
    """The leaders and commits so far, and the number of records that may still be proposed."""

    #: How many records may still be proposed.
    records: int
    #: The leader of each epoch, and the longest log that was ever committed.
    leaders: tuple[tuple[int, int], ...] = ()
    committed: tuple[Batch, ...] = ()
    #: The invariant that does not hold, and why.
    broken: tuple[str, str] | None = None

    def with_node(self, node: Node) -> History:
        """Add the leaders and committed batches that this node knows."""
        try:
            leaders = _leaders(self, node)
            committed = _committed(self, node)
        except Broken as broken:
            return self.replace(broken=broken.args)
        return self.replace(leaders=leaders, committed=committed)


def _leaders(history: History, node: Node) -> tuple[tuple[int, int], ...]:
    """The leaders of all epochs so far; an epoch has only one, in memory and on disk."""
    leaders = dict(history.leaders)
    for election in (node.core.election, node.election):
        epoch, leader_id = election.epoch, election.leader_id
        if leader_id >= 0 and leaders.setdefault(epoch, leader_id) != leader_id:
            raise Broken(
                "one leader an epoch",
                f"epoch {epoch} has {NAMES[leaders[epoch]]} and {NAMES[leader_id]}",
            )
    return tuple(sorted(leaders.items()))


def _committed(history: History, node: Node) -> tuple[Batch, ...]:
    """The longest committed log so far; the batches that a node reports as committed are in it."""
    before, reported = history.committed, node.committed
    shorter = min(len(reported), len(before))
    if reported[:shorter] != before[:shorter]:
        raise Broken(
            "what is committed never changes",
            f"node {_name(node)} has committed {batches_text(reported)}, "
            f"committed was {batches_text(before)}",
        )
    if len(reported) > shorter and reported[-1].epoch > node.core.election.epoch:
        raise Broken("no committed record is of a future epoch", f"node {_name(node)}")
    return max(reported, before, key=len)


def _check_log(node: Node) -> None:
    """The log end and epochs that the core keeps equal those that a scan of the log finds."""
    log = node.core.log
    end = node.batches[-1].last_offset + 1 if node.batches else 0
    starts: list[tuple[int, int]] = []
    for batch in node.batches:
        if not starts or starts[-1][0] != batch.epoch:
            starts.append((batch.epoch, batch.base_offset))
    if (end, starts) != (log.end, log.epochs.entries()):
        raise Broken(
            "the core knows its log",
            f"node {_name(node)} has {starts} up to {end}, its core "
            f"{log.epochs.entries()} up to {log.end}",
        )
    if log.high_watermark > end:
        raise Broken(
            "what is committed is in the log",
            f"node {_name(node)} ends at {end}, its high watermark is {log.high_watermark}",
        )


def _check_epochs(old: Node, new: Node) -> None:
    if new.election.epoch < old.election.epoch:
        raise Broken(
            "epochs never decrease",
            f"node {_name(new)} persisted {new.election.epoch} after {old.election.epoch}",
        )
    is_same_incarnation = new.crashes == old.crashes
    if is_same_incarnation and new.core.log.high_watermark < old.core.log.high_watermark:
        raise Broken("the high watermark never decreases", f"node {_name(new)}")


def _check_leader(node: Node, history: History) -> None:
    newest, _ = max(history.leaders, default=(0, -1))
    if node.core.role.name != quorum.LEADER or newest != node.core.election.epoch:
        return
    if history.committed != node.batches[: len(history.committed)]:
        raise Broken(
            "the newest leader has everything that is committed",
            f"node {_name(node)} leads epoch {newest} with {batches_text(node.batches)}, "
            f"committed is {batches_text(history.committed)}",
        )


def _check_own_epoch(old: Node, new: Node) -> None:
    """A leader commits nothing before a record of its own epoch."""
    before, role = old.core.role, new.core.role
    if not isinstance(before, Leader) or not isinstance(role, Leader):
        return
    committed = new.core.log.high_watermark
    if old.core.log.high_watermark < committed <= role.epoch_start:
        raise Broken(
            "a leader commits by a record of its own epoch",
            f"node {_name(new)} commits up to {committed}, its epoch "
            f"{new.core.election.epoch} starts at {role.epoch_start}",
        )


def _check_followers(nodes: Sequence[Node]) -> None:
    """A replica that a leader counts has durably reached the leader's epoch."""
    for leader in nodes:
        role = leader.core.role
        if not isinstance(role, Leader):
            continue
        counted = [
            key.id for key, progress in role.progress.replicas.items() if progress.end_offset >= 0
        ]
        for node_id in (*role.acknowledged_by, *counted):
            if nodes[node_id].election.epoch < leader.core.election.epoch:
                raise Broken(
                    "a leader counts only replicas of its epoch",
                    f"node {_name(leader)} leads {leader.core.election.epoch}, "
                    f"node {NAMES[node_id]} "
                    f"is in {nodes[node_id].election.epoch}",
                )


def _check_matching(nodes: Sequence[Node]) -> None:
    """Two logs with a batch in common are equal up to there."""
    for a, b in ((0, 1), (0, 2), (1, 2)):
        first, second = nodes[a].batches, nodes[b].batches
        if first is second or not first or not second:
            continue
        for i in range(min(len(first), len(second)) - 1, -1, -1):
            if _offset_and_epoch(first[i]) == _offset_and_epoch(second[i]):
                if first[: i + 1] != second[: i + 1]:
                    raise Broken(
                        "logs with a batch in common are the same up to it",
                        f"node {NAMES[a]} has {batches_text(first)}, "
                        f"node {NAMES[b]} {batches_text(second)}",
                    )
                break


def _offset_and_epoch(batch: Batch) -> tuple[int, int]:
    return batch.base_offset, batch.epoch


def _check_committed(nodes: Sequence[Node], committed: tuple[Batch, ...]) -> None:
    length = len(committed)
    if not length:
        return
    end = committed[-1].last_offset + 1
    holders = [
        node
        for node in nodes
        if node.core.log.flushed >= end and node.batches[:length] == committed
    ]
    if len(holders) < MAJORITY:
        raise Broken(
            "what is committed is durable on a majority",
            f"{batches_text(committed)} is durable on {[_name(node) for node in holders]}",
        )


def _name(node: Node) -> str:
    return NAMES[node.id]


def batches_text(batches: tuple[Batch, ...]) -> str:
    """Each batch as its offsets and its epoch."""
    texts = [f"{batch.base_offset}-{batch.last_offset}@{batch.epoch}" for batch in batches]
    return f"[{' '.join(texts)}]"
