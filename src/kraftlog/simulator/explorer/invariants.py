"""What must hold in every state, checked for what the last step has changed."""

from __future__ import annotations

from kraftlog.raft import quorum
from kraftlog.raft.messages import Vote, VoteAnswer
from kraftlog.raft.roles.leader import Leader
from kraftlog.simulator.explorer.bounds import NAMES, NODES
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.raft.messages import Batch
    from kraftlog.simulator.explorer.state import Message, Node, State

MAJORITY = NODES // 2 + 1


class Broken(Exception):  # noqa: N818 - an invariant is broken; nothing went wrong in the code that says so
    """`invariant` is what does not hold."""

    def __init__(self, invariant: str, detail: str) -> None:
        super().__init__(f"{invariant}: {detail}")
        self.invariant = invariant


def check_promise(node: Node, message: Message) -> None:
    """A vote that others hear of, a candidate's own included, is the only one of its epoch."""
    body = message.body
    if isinstance(body, Vote) and not body.pre_vote:
        vote = body.epoch, body.candidate.id
    elif isinstance(body, VoteAnswer) and body.granted and not message.is_pre_vote:
        vote = body.epoch, message.target
    else:
        return
    if vote == node.promised:
        return
    if vote[0] <= node.promised[0]:
        raise Broken(
            "a node votes once in an epoch",
            f"node {_name(node)} voted for {NAMES[node.promised[1]]} in epoch "
            f"{node.promised[0]}, "
            f"and now for {NAMES[vote[1]]} in epoch {vote[0]}",
        )
    node.promised = vote


def check(before: State, after: State) -> None:
    """Everything that can be seen in two states that follow each other."""
    for node_id in after.touched:
        old, new = before.nodes[node_id], after.nodes[node_id]
        _check_log(new)
        _check_epochs(old, new)
        _check_leader(after, new)
        _check_own_epoch(old, new)
        _note_committed(after, new)
    if after.touched:
        _check_followers(after)
        _check_matching(after)
        _check_committed(after)


def _check_log(node: Node) -> None:
    """What the core knows of its log is what a scan of the log gives."""
    log = node.core.log
    end = node.batches[-1].last_offset + 1 if node.batches else 0
    starts: list[tuple[int, int]] = []
    for batch in node.batches:
        if not starts or starts[-1][0] != batch.epoch:
            starts.append((batch.epoch, batch.base_offset))
    if (end, starts) != (log.end, log.epochs.entries()):
        raise Broken(
            "the core knows its log",
            f"node {_name(node)} holds {starts} up to {end}, and believes "
            f"{log.epochs.entries()} up to {log.end}",
        )


def _check_epochs(old: Node, new: Node) -> None:
    if new.election.epoch < old.election.epoch:
        raise Broken(
            "epochs never decrease",
            f"node {_name(new)} persisted {new.election.epoch} after {old.election.epoch}",
        )
    same_life = new.crashes == old.crashes
    if same_life and new.core.log.high_watermark < old.core.log.high_watermark:
        raise Broken("the high watermark never decreases", f"node {_name(new)}")


def _check_leader(state: State, node: Node) -> None:
    """One leader an epoch, in every memory and on every disk; and it has what is committed."""
    for election in (node.core.election, node.election):
        if election.leader_id >= 0:
            leaders = dict(state.leaders)
            known = leaders.setdefault(election.epoch, election.leader_id)
            if known != election.leader_id:
                raise Broken(
                    "one leader an epoch",
                    f"epoch {election.epoch} has {NAMES[known]} and {NAMES[election.leader_id]}",
                )
            state.leaders = tuple(sorted(leaders.items()))
    newest = max(state.leaders, default=(0, -1))
    if node.core.role.name == quorum.LEADER and newest[0] == node.core.election.epoch:
        missing = state.committed != node.batches[: len(state.committed)]
        if missing:
            raise Broken(
                "the newest leader has everything that is committed",
                f"node {_name(node)} leads epoch {newest[0]} with {shown(node.batches)}, "
                f"committed is {shown(state.committed)}",
            )


def _check_own_epoch(old: Node, new: Node) -> None:
    """A leader commits nothing before a record of its own epoch."""
    was, role = old.core.role, new.core.role
    if not isinstance(was, Leader) or not isinstance(role, Leader):
        return
    committed = new.core.log.high_watermark
    if old.core.log.high_watermark < committed <= role.epoch_start:
        raise Broken(
            "a leader commits by a record of its own epoch",
            f"node {_name(new)} commits up to {committed}, its epoch "
            f"{new.core.election.epoch} starts at {role.epoch_start}",
        )


def _check_followers(state: State) -> None:
    """Whom a leader counts on has arrived in its epoch, and will not go back."""
    for leader in state.nodes:
        role = leader.core.role
        if not isinstance(role, Leader):
            continue
        counted = [key.id for key, p in role.progress.replicas.items() if p.end_offset >= 0]
        for node_id in (*role.endorsed, *counted):
            if state.nodes[node_id].election.epoch < leader.core.election.epoch:
                raise Broken(
                    "a leader counts on those in its epoch",
                    f"node {_name(leader)} leads {leader.core.election.epoch}, "
                    f"node {NAMES[node_id]} "
                    f"is in {state.nodes[node_id].election.epoch}",
                )


def _note_committed(state: State, node: Node) -> None:
    """What one node calls committed is committed for ever, and the same for all."""
    log = node.core.log
    believed = tuple([b for b in node.batches if b.last_offset < log.high_watermark])
    shorter = min(len(believed), len(state.committed))
    if believed[:shorter] != state.committed[:shorter]:
        raise Broken(
            "what is committed never changes",
            f"node {_name(node)} has committed {shown(believed)}, committed was "
            f"{shown(state.committed)}",
        )
    if len(believed) > len(state.committed):
        if believed[-1].epoch > node.core.election.epoch:
            raise Broken("records are of past epochs", f"node {_name(node)}")
        state.committed = believed


def _check_matching(state: State) -> None:
    """Two logs with a batch in common are the same up to there."""
    for a, b in ((0, 1), (0, 2), (1, 2)):
        first, second = state.nodes[a].batches, state.nodes[b].batches
        if first is second or not first or not second:
            continue
        for i in range(min(len(first), len(second)) - 1, -1, -1):
            if _place(first[i]) == _place(second[i]):
                if first[: i + 1] != second[: i + 1]:
                    raise Broken(
                        "logs with a batch in common are the same up to it",
                        f"node {NAMES[a]} has {shown(first)}, node {NAMES[b]} {shown(second)}",
                    )
                break


def _place(batch: Batch) -> tuple[int, int]:
    return batch.base_offset, batch.epoch


def _check_committed(state: State) -> None:
    length = len(state.committed)
    if not length:
        return
    end = state.committed[-1].last_offset + 1
    holders = [
        node
        for node in state.nodes
        if node.core.log.flushed >= end and node.batches[:length] == state.committed
    ]
    if len(holders) < MAJORITY:
        raise Broken(
            "what is committed is durable on a majority",
            f"{shown(state.committed)} is durable on {[_name(n) for n in holders]}",
        )


def _name(node: Node) -> str:
    return NAMES[node.core.me.id]


def shown(batches: tuple[Batch, ...]) -> str:
    """Each batch as its offsets and its epoch."""
    texts = [f"{b.base_offset}-{b.last_offset}@{b.epoch}" for b in batches]
    return f"[{' '.join(texts)}]"
