"""Each invariant of the explorer detects a handmade state that breaks it."""

from __future__ import annotations

import pytest

from kraftlog.logstate.voters import ReplicaKey
from kraftlog.raft.messages import Batch, ElectionState, Stop, Vote
from kraftlog_simulator.explorer.bounds import NODES
from kraftlog_simulator.explorer.invariants import (
    Broken,
    History,
    check_state,
    check_step,
    check_vote,
)
from kraftlog_simulator.explorer.node import Message, Node, make_core, new_node
from kraftlog_simulator.explorer.step import step

FIRST = Batch(base_offset=0, last_offset=1, epoch=1, size_bytes=1)
SECOND = Batch(base_offset=2, last_offset=2, epoch=2, size_bytes=1)
OTHER = Batch(base_offset=0, last_offset=1, epoch=1, size_bytes=2)
OTHER_EPOCH = Batch(base_offset=0, last_offset=1, epoch=2, size_bytes=1)


def node(
    node_id: int,
    *batches: Batch,
    committed: int = 0,
    election: ElectionState | None = None,
) -> Node:
    """A node with these durable batches and this election state."""
    new = Node(make_core(node_id, batches, election or ElectionState(2)), crashes=0)
    new.batches = batches
    new.core.log.high_watermark = committed
    return new


def invariant_broken_by_step(old: Node, new: Node) -> str:
    with pytest.raises(Broken) as broken:
        check_step(old, new)
    return broken.value.invariant


def invariant_broken_by(*nodes: Node) -> str:
    """The invariant that is broken when these nodes are added one by one to empty ones."""
    with pytest.raises(Broken) as broken:
        check_all(*nodes)
    return broken.value.invariant


def check_all(*nodes: Node) -> History:
    all_nodes = [node(node_id) for node_id in range(NODES)]
    history = History(records=0)
    for added in nodes:
        all_nodes[added.id] = added
        history = history.with_node(added)
    check_state(all_nodes, history)
    return history


def test_two_equal_logs_break_no_invariant() -> None:
    history = check_all(*[node(i, FIRST, SECOND, committed=3) for i in (0, 1)])
    assert history.committed == (FIRST, SECOND)


def test_decreasing_epochs_are_detected() -> None:
    old, new = [node(0, election=ElectionState(epoch)) for epoch in (3, 2)]
    assert invariant_broken_by_step(old, new) == "epochs never decrease"


def test_a_decreasing_high_watermark_is_detected() -> None:
    old, new = [node(0, FIRST, committed=committed) for committed in (2, 0)]
    assert invariant_broken_by_step(old, new) == "the high watermark never decreases"


def test_a_core_with_a_wrong_view_of_its_log_is_detected() -> None:
    new = node(0, FIRST, SECOND)
    new.batches = (FIRST,)
    assert invariant_broken_by_step(node(0), new) == "the core knows its log"


def test_a_high_watermark_beyond_the_log_is_detected() -> None:
    assert (
        invariant_broken_by_step(node(0), node(0, FIRST, committed=3))
        == "what is committed is in the log"
    )


def test_two_leaders_in_an_epoch_are_detected() -> None:
    one, other = [node(i, election=ElectionState(2, leader_id=j)) for i, j in ((0, 1), (2, 0))]
    assert invariant_broken_by(one, other) == "one leader an epoch"


def test_a_common_batch_after_a_difference_is_detected() -> None:
    both = node(0, FIRST, SECOND), node(1, OTHER, SECOND)
    assert invariant_broken_by(*both) == "logs with a batch in common are the same up to it"


def test_different_committed_records_are_detected() -> None:
    both = [node(i, b, committed=2) for i, b in ((0, FIRST), (1, OTHER_EPOCH))]
    assert invariant_broken_by(*both) == "what is committed never changes"


def test_a_commit_on_one_node_only_is_detected() -> None:
    assert (
        invariant_broken_by(node(0, FIRST, committed=2))
        == "what is committed is durable on a majority"
    )


def leader(epoch: int) -> Node:
    """Node 0, after it has won an election."""
    before = ElectionState(epoch - 1)
    candidate = step(node(0, election=before), "campaign")
    voter = step(node(1, election=before), "receive", candidate.sent[0])
    winner = step(candidate.node, "receive", voter.sent[0]).node
    assert winner.core.role.name == "leader"
    return winner


def test_a_leader_without_committed_records_is_detected() -> None:
    others = [node(i, FIRST, committed=2, election=ElectionState(1)) for i in (1, 2)]
    newest = leader(3)
    assert newest.batches[0].epoch == 3
    assert (
        invariant_broken_by(*others, newest) == "the newest leader has everything that is committed"
    )


def test_a_leader_that_counts_a_replica_of_an_older_epoch_is_detected() -> None:
    newest = leader(3)
    newest.core.role.acknowledged_by = (1,)  # type: ignore[attr-defined] # a leader's
    lagging = node(1, election=ElectionState(2))
    assert invariant_broken_by(lagging, newest) == "a leader counts only replicas of its epoch"


def test_a_commit_without_a_record_of_the_leaders_epoch_is_detected() -> None:
    old = leader(3)
    new = old.copy()
    old.core.role.epoch_start = new.core.role.epoch_start = 2  # type: ignore[attr-defined] # as above
    new.core.log.high_watermark = 2
    assert invariant_broken_by_step(old, new) == "a leader commits by a record of its own epoch"


def test_a_second_vote_and_a_stop_are_detected() -> None:
    voter = new_node(0, 0)
    voter.sent_vote = 1, 1
    vote = Vote("", ReplicaKey(1), 1, ReplicaKey(0), 0, 0, pre_vote=False)
    message = Message(0, 1, is_response=False, is_awaited=True, body=vote)
    with pytest.raises(Broken, match="node A voted for B in epoch 1, and now for A in epoch 1"):
        check_vote(voter, message)
    voter.core.effect(Stop("no reason"))
    with pytest.raises(Broken, match="never stops by itself: no reason"):
        step(voter, "forget", 1)
