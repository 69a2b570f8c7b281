"""Pending batches: time limits, failures that depend on each other, loss of the partition."""

from __future__ import annotations

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.groups.messages import RequestContext, WriteFailed, Written
from kraftlog.groups.states import GroupState
from tests.groups.shard_harness import OK, ShardHarness, codes

T0 = ("t", 0)
NOT_AVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE
NOT_COORDINATOR = ErrorCode.NOT_COORDINATOR


def test_a_timed_out_write_is_reported_and_its_batch_still_counts() -> None:
    harness = ShardHarness(commits_at_once=False)
    slow = harness.commit_offsets({T0: 1})
    harness.advance(2000)
    later = harness.commit_offsets({T0: 2})
    stable = harness.fetch(T0, stable=True)
    harness.advance(2999)
    assert not {slow, later, stable} & harness.responses.keys()
    harness.advance(1)
    assert codes(harness.outcome(slow)) == [NOT_AVAILABLE]
    assert later not in harness.responses
    harness.advance(2000)
    assert codes(harness.outcome(later)) == [NOT_AVAILABLE]
    assert harness.outcome(stable).error_code == NOT_COORDINATOR
    harness.commit()
    assert harness.offsets() == {T0: 2}
    assert harness.shard.deadline() == harness.config.offsets_retention_check_interval_ms


def test_each_batch_has_its_own_time_limit() -> None:
    harness = ShardHarness(commits_at_once=False)
    harness.commit_offsets({T0: 1})
    harness.advance(1000)
    second = harness.commit_offsets({T0: 2})
    harness.commit(1)
    harness.advance(4999)
    assert second not in harness.responses
    harness.advance(1)
    assert codes(harness.outcome(second)) == [NOT_AVAILABLE]


def test_a_group_that_is_dropped_leaves_no_timers() -> None:
    harness = ShardHarness(commits_at_once=False)
    harness.join_generation(harness.request_member_ids(2))
    harness.fail()
    assert harness.shard.groups == {}
    assert harness.shard.deadline() == harness.config.offsets_retention_check_interval_ms


def test_an_assignment_that_times_out_starts_a_rebalance() -> None:
    harness = ShardHarness()
    [member_id] = harness.request_member_ids(1)
    harness.join_generation([member_id])
    harness.commits_at_once = False
    pending = harness.sync(member_id, 1, {member_id: b"x"})
    harness.advance(5000)
    assert harness.outcome(pending).error_code == NOT_AVAILABLE
    assert harness.state() == GroupState.PREPARING
    harness.commit()
    assert harness.state() == GroupState.PREPARING
    assert harness.outcome(harness.join(member_id)).generation_id == 2


def test_a_deletion_that_times_out_still_takes_effect_once_committed() -> None:
    harness = ShardHarness()
    harness.commit_offsets({T0: 1})
    harness.commits_at_once = False
    pending = harness.delete_groups("g")
    harness.advance(5000)
    assert harness.outcome(pending).results[0].error_code == NOT_AVAILABLE
    assert harness.state() == GroupState.DEAD
    harness.commit()
    assert harness.state() == "none"


def test_a_new_group_whose_write_fails_is_dropped() -> None:
    harness = ShardHarness(commits_at_once=False)
    waiting = harness.join(version=3)
    harness.request_member_ids(1)
    harness.fail(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert harness.outcome(waiting).error_code == NOT_AVAILABLE
    assert harness.shard.groups == {}
    harness.poll()
    harness.advance(60_000)
    assert harness.pending_writes == []


def test_a_later_write_survives_an_earlier_failed_one() -> None:
    harness = ShardHarness(commits_at_once=False)
    [member_id] = harness.request_member_ids(1)
    pending = harness.commit_offsets({T0: 1})
    harness.fail(count=1)
    assert harness.shard.groups == {}
    harness.commit()
    assert codes(harness.outcome(pending)) == [OK]
    assert (harness.state(), harness.offsets()) == (GroupState.EMPTY, {T0: 1})
    assert harness.outcome(harness.join(member_id)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_generation_of_a_dropped_group_is_restored_from_the_log() -> None:
    harness = ShardHarness(commits_at_once=False)
    [member_id] = harness.request_member_ids(1)
    harness.join_generation([member_id])
    pending = harness.sync(member_id, 1, {member_id: b"x"})
    harness.fail(ErrorCode.NOT_ENOUGH_REPLICAS, count=1)
    assert harness.outcome(pending).error_code == NOT_AVAILABLE
    assert harness.shard.groups == {}
    harness.commit()
    assert harness.heartbeat(member_id, 1) == OK
    assert harness.describe() == harness.reloaded().describe_groups(RequestContext(6), ["g"])[0]


def test_outcomes_out_of_order_are_an_internal_error() -> None:
    harness = ShardHarness(commits_at_once=False)
    harness.commit_offsets({T0: 1})
    harness.commit_offsets({T0: 2})
    with pytest.raises(AssertionError, match="in the order"):
        harness.shard.handle(Written(harness.pending_writes[1].token, 0), harness.now)


def test_pending_requests_get_not_coordinator_on_unload() -> None:
    harness = ShardHarness()
    harness.make_stable_group(2, group="joining")
    joining = harness.join("c-1", group="joining")
    ids = harness.request_member_ids(2, group="syncing")
    harness.join_generation(ids, group="syncing")
    syncing = harness.sync(ids[1], 1, group="syncing")
    static = harness.join(group="static", instance="i")
    harness.poll()
    harness.assign(harness.outcome(static), group="static")
    harness.commits_at_once = False
    rejoining = harness.join(group="static", instance="i")
    leading = harness.sync(ids[0], 1, {ids[0]: b"x"}, group="syncing")
    commit = harness.commit_offsets({T0: 1})
    stable = harness.fetch(T0, stable=True)
    harness.commit_offsets({T0: 1}, group="empty")
    deleted = harness.delete_groups("empty")
    pending_writes = list(harness.pending_writes)
    harness.shard.unload(harness.now)
    harness.settle()
    assert harness.pending_writes == pending_writes
    single_codes = [
        harness.outcome(pending).error_code
        for pending in (joining, syncing, rejoining, leading, stable)
    ]
    assert single_codes == [NOT_COORDINATOR] * 5
    assert codes(harness.outcome(commit)) == [NOT_COORDINATOR]
    assert harness.outcome(deleted).results[0].error_code == NOT_COORDINATOR
    assert (harness.shard.groups, harness.shard.deadline()) == ({}, None)
    for message in (Written(pending_writes[0].token, 9), WriteFailed(pending_writes[1].token, 1)):
        harness.shard.handle(message, harness.now)
    assert harness.shard.take_effects() == []
