"""Each invariant of the explorer has a state that breaks it, made by hand."""

from __future__ import annotations

import pytest

from kraftlog.logstate.voters import ReplicaKey
from kraftlog.raft.messages import Batch, ElectionState, Stop, Vote
from kraftlog.simulator.explorer import carry
from kraftlog.simulator.explorer.bounds import Bound
from kraftlog.simulator.explorer.invariants import Broken, check, check_promise
from kraftlog.simulator.explorer.state import Message, Node, State, first_state, make_core

FIRST = Batch(base_offset=0, last_offset=1, epoch=1, size_bytes=1)
SECOND = Batch(base_offset=2, last_offset=2, epoch=2, size_bytes=1)
OTHER = Batch(base_offset=0, last_offset=1, epoch=1, size_bytes=2)
OTHER_EPOCH = Batch(base_offset=0, last_offset=1, epoch=2, size_bytes=1)


def put(
    state: State,
    node_id: int,
    *batches: Batch,
    committed: int = 0,
    election: ElectionState | None = None,
) -> Node:
    """Let a node hold these batches, durably, and this election state."""
    node = Node(make_core(node_id, batches, election or ElectionState(2)), crashes=0)
    node.batches = batches
    node.core.log.high_watermark = committed
    state.nodes[node_id] = node
    state.touched.add(node_id)
    return node


def checked(before: State, after: State) -> str:
    with pytest.raises(Broken) as broken:
        check(before, after)
    return broken.value.invariant


@pytest.fixture
def state() -> State:
    return first_state(Bound("for tests", crashes=(0, 0, 0)))


def test_nothing_is_wrong_with_two_equal_logs(state: State) -> None:
    after = state.copy()
    for node_id in (0, 1):
        put(after, node_id, FIRST, SECOND, committed=3)
    check(state, after)
    assert after.committed == (FIRST, SECOND)


def test_epochs_that_decrease(state: State) -> None:
    put(state, 0, election=ElectionState(3))
    after = state.copy()
    put(after, 0, election=ElectionState(2))
    assert checked(state, after) == "epochs never decrease"


def test_a_high_watermark_that_decreases(state: State) -> None:
    put(state, 0, FIRST, committed=2)
    after = state.copy()
    put(after, 0, FIRST, committed=0)
    assert checked(state, after) == "the high watermark never decreases"


def test_two_leaders_in_memory_or_on_disk(state: State) -> None:
    after = state.copy()
    put(after, 0, election=ElectionState(2, leader_id=1))
    put(after, 2, election=ElectionState(2, leader_id=0))
    assert checked(state, after) == "one leader an epoch"


def test_logs_that_meet_again(state: State) -> None:
    after = state.copy()
    put(after, 0, FIRST, SECOND)
    put(after, 1, OTHER, SECOND)
    assert checked(state, after) == "logs with a batch in common are the same up to it"


def test_something_else_committed(state: State) -> None:
    state.committed = (FIRST,)
    after = state.copy()
    put(after, 0, OTHER_EPOCH, committed=2)
    assert checked(state, after) == "what is committed never changes"


def test_committed_on_one_node_only(state: State) -> None:
    after = state.copy()
    put(after, 0, FIRST, committed=2)
    assert checked(state, after) == "what is committed is durable on a majority"


def test_a_core_that_is_mistaken_about_its_log(state: State) -> None:
    after = state.copy()
    put(after, 0, FIRST, SECOND).batches = (FIRST,)
    assert checked(state, after) == "the core knows its log"


def test_a_second_vote_and_a_replica_that_stops(state: State) -> None:
    node = state.nodes[0]
    node.promised = 1, 1
    vote = Vote("", ReplicaKey(1), 1, ReplicaKey(0), 0, 0, pre_vote=False)
    message = Message(0, 1, is_answer=False, life=0, number=1, body=vote)
    with pytest.raises(Broken, match="node A voted for B in epoch 1, and now for A in epoch 1"):
        check_promise(node, message)
    node.core.effect(Stop("no reason"))
    with pytest.raises(Broken, match="never stops by itself: no reason"):
        carry.settle(state, 0)
