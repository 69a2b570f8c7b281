"""SyncGroup, Heartbeat, LeaveGroup and sessions."""

from __future__ import annotations

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.groups.states import GroupState
from tests.groups.shard_harness import OK, REBALANCE_MS, SESSION_MS, ShardHarness

UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
REBALANCE = ErrorCode.REBALANCE_IN_PROGRESS


# SyncGroup -----------------------------------------------------------------------------------


def test_assignments_are_sent_once_they_are_committed() -> None:
    harness = ShardHarness()
    ids = harness.request_member_ids(2)
    leader = harness.join_generation(ids)
    harness.commits_at_once = False
    responses = [harness.sync(ids[1], 1), harness.sync(ids[0], 1, {ids[0]: b"x", ids[1]: b"y"})]
    assert not harness.responses.keys() & set(responses)
    assert harness.state() == GroupState.COMPLETING
    harness.commit()
    outcome = [harness.outcome(pending) for pending in responses]
    assert [each.assignment for each in outcome] == [b"y", b"x"]
    assert {(e.error_code, e.protocol_type, e.protocol_name) for e in outcome} == {
        (OK, "consumer", "range")
    }
    assert harness.state() == GroupState.STABLE
    assert leader.generation_id == 1


def test_missing_assignments_are_empty_and_late_syncs_do_not_wait() -> None:
    harness = ShardHarness()
    ids = harness.request_member_ids(2)
    harness.join_generation(ids)
    harness.sync(ids[0], 1, {ids[0]: b"all", "stranger": b"none"})
    assert harness.outcome(harness.sync(ids[1], 1)).assignment == b""
    assert harness.outcome(harness.sync(ids[0], 1)).assignment == b"all"


def test_an_invalid_sync_is_refused() -> None:
    harness = ShardHarness()
    ids = harness.request_member_ids(2)
    harness.join_generation(ids)

    def code(*args: object, **kwargs: str) -> int:
        error: int = harness.outcome(harness.sync(*args, **kwargs)).error_code  # type: ignore[arg-type]  # passed on
        return error

    assert code(ids[0], 1, group="") == ErrorCode.INVALID_GROUP_ID
    assert code(ids[0], 1, group="other") == UNKNOWN
    assert code("nobody", 1) == UNKNOWN
    assert code(ids[0], 0) == ErrorCode.ILLEGAL_GENERATION
    assert code(ids[0], 1, protocol="other") == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert code(ids[0], 1, protocol_type="other") == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    harness.request_member_ids(1)
    harness.leave(ids[1])
    assert code(ids[0], 1) == REBALANCE


def test_a_rebalance_ends_the_wait_for_an_assignment() -> None:
    harness = ShardHarness()
    ids = harness.request_member_ids(2)
    harness.join_generation(ids)
    waiting = harness.sync(ids[1], 1)
    harness.join(version=3)
    assert harness.outcome(waiting).error_code == REBALANCE


def test_an_assignment_of_an_old_generation_is_ignored() -> None:
    harness = ShardHarness()
    ids = harness.request_member_ids(2)
    harness.join_generation(ids)
    harness.commits_at_once = False
    pending = harness.sync(ids[0], 1, {ids[0]: b"x"})
    harness.leave(ids[1])
    assert harness.outcome(pending).error_code == REBALANCE
    harness.commit()
    assert harness.state() == GroupState.PREPARING


def test_a_failed_assignment_write_starts_a_rebalance() -> None:
    harness = ShardHarness()
    ids = harness.request_member_ids(2)
    harness.join_generation(ids)
    harness.commits_at_once = False
    responses = [harness.sync(ids[1], 1), harness.sync(ids[0], 1, {ids[0]: b"x", ids[1]: b"y"})]
    harness.fail(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert {harness.outcome(pending).error_code for pending in responses} == {
        ErrorCode.COORDINATOR_NOT_AVAILABLE
    }
    assert harness.state() == GroupState.PREPARING
    assert harness.heartbeat(ids[0], 1) == REBALANCE


def test_a_member_that_does_not_sync_is_removed() -> None:
    harness = ShardHarness()
    ids = harness.request_member_ids(2)
    harness.join_generation(ids)
    harness.sync(ids[0], 1, {ids[0]: b"x"})
    for _ in range(REBALANCE_MS // 5000):
        assert harness.heartbeat(ids[0], 1) == harness.heartbeat(ids[1], 1) == OK
        harness.advance(5000)
    assert harness.state() == GroupState.PREPARING
    assert list(harness.shard.groups["g"].members) == [ids[0]]


def test_a_rebalance_restarts_the_sync_timeout() -> None:
    harness = ShardHarness()
    ids = harness.request_member_ids(2)
    harness.join_generation(ids)
    for _ in range(3):
        harness.advance(5000)
        assert harness.heartbeat(ids[0], 1) == harness.heartbeat(ids[1], 1) == OK
    new = harness.join(version=3)
    for _ in range(2):
        harness.advance(5000)
        assert harness.heartbeat(ids[0], 1) == harness.heartbeat(ids[1], 1) == REBALANCE
    harness.join(ids[0])
    harness.join(ids[1])
    assert harness.outcome(new).generation_id == 2


def test_a_leader_that_does_not_sync_is_removed_and_replaced() -> None:
    harness = ShardHarness()
    ids = harness.request_member_ids(2)
    harness.join_generation(ids)
    waiting = harness.sync(ids[1], 1)
    for _ in range(REBALANCE_MS // 5000):
        harness.heartbeat(ids[0], 1)
        harness.advance(5000)
    assert harness.outcome(waiting).error_code == REBALANCE
    assert harness.outcome(harness.join(ids[1])).leader == ids[1]


def test_a_later_sync_replaces_the_pending_one() -> None:
    harness = ShardHarness()
    ids = harness.request_member_ids(2)
    harness.join_generation(ids)
    first, second = harness.sync(ids[1], 1), harness.sync(ids[1], 1)
    assert harness.outcome(first).error_code == REBALANCE
    harness.sync(ids[0], 1, {ids[1]: b"y"})
    assert harness.outcome(second).assignment == b"y"


# Heartbeat -----------------------------------------------------------------------------------


def test_every_wrong_heartbeat_gets_its_error_code() -> None:
    harness = ShardHarness()
    ids = harness.request_member_ids(1)
    harness.join_generation(ids)
    assert harness.heartbeat(ids[0], 1) == OK  # while assignments are made
    harness.sync(ids[0], 1, {ids[0]: b"x"})
    assert harness.heartbeat(ids[0], 1) == OK
    assert harness.heartbeat(ids[0], 0) == ErrorCode.ILLEGAL_GENERATION
    assert harness.heartbeat("nobody", 1) == UNKNOWN
    assert harness.heartbeat(ids[0], 1, group="other") == UNKNOWN
    assert harness.heartbeat(ids[0], 1, group="") == ErrorCode.INVALID_GROUP_ID
    harness.join(version=3)
    assert harness.heartbeat(ids[0], 1) == REBALANCE


@pytest.mark.parametrize("request_kind", ["heartbeat", "commit"])
def test_any_request_of_a_member_extends_its_session(request_kind: str) -> None:
    harness = ShardHarness()
    [member_id] = harness.make_stable_group(1)
    for _ in range(5):
        harness.advance(SESSION_MS - 1)
        if request_kind == "heartbeat":
            harness.heartbeat(member_id, 1)
        else:
            harness.commit_offsets({("t", 0): 1}, member_id, 1)
    assert harness.state() == GroupState.STABLE
    harness.advance(SESSION_MS)
    assert harness.state() == GroupState.EMPTY


def test_an_expired_session_starts_a_rebalance() -> None:
    harness = ShardHarness()
    expired, other = harness.make_stable_group(2)
    harness.advance(SESSION_MS - 1)
    assert harness.heartbeat(other, 1) == OK
    harness.advance(1)
    assert harness.heartbeat(other, 1) == REBALANCE
    assert harness.heartbeat(expired, 1) == UNKNOWN
    outcome = harness.outcome(harness.join(other))
    assert (outcome.leader, outcome.generation_id, len(outcome.members)) == (other, 2, 1)


def test_a_pending_request_replaces_heartbeats() -> None:
    harness = ShardHarness()
    old, other = harness.make_stable_group(2)
    joining = harness.join(old)
    for _ in range(3):
        harness.advance(SESSION_MS // 2)
        assert harness.heartbeat(other, 1) == REBALANCE
    harness.join(other)
    assert harness.outcome(joining).error_code == OK
    waiting = harness.sync(other, 2)
    for _ in range(3):
        harness.advance(SESSION_MS // 2)
        assert harness.heartbeat(old, 2) == OK
    harness.sync(old, 2, {other: b"y"})
    assert harness.outcome(waiting).assignment == b"y"
    harness.advance(SESSION_MS - 1)
    assert set(harness.shard.groups["g"].members) == {old, other}


# LeaveGroup ----------------------------------------------------------------------------------


def test_a_leaving_member_starts_a_rebalance() -> None:
    harness = ShardHarness()
    leader, other = harness.make_stable_group(2)
    outcome = harness.leave(leader, "nobody")
    assert (outcome.error_code, [each.error_code for each in outcome.members]) == (
        OK,
        [OK, UNKNOWN],
    )
    assert harness.heartbeat(other, 1) == REBALANCE
    assert harness.outcome(harness.join(other)).leader == other


def test_the_last_member_leaves_an_empty_next_generation() -> None:
    harness = ShardHarness()
    [member_id] = harness.make_stable_group(1)
    harness.leave(member_id)
    value = harness.shard.durable.groups["g"]
    assert harness.state() == GroupState.EMPTY
    assert (value.generation, value.protocol_type, value.protocol, value.leader, value.members) == (
        2,
        "consumer",
        None,
        None,
        (),
    )


def test_old_versions_of_leave_have_a_top_level_error() -> None:
    harness = ShardHarness()
    [member_id] = harness.make_stable_group(1)
    assert harness.leave("nobody", version=2).error_code == UNKNOWN
    assert harness.leave(member_id, version=2).error_code == OK
    assert harness.leave(member_id, version=2, group="other").error_code == UNKNOWN
    assert harness.leave(member_id, group="").error_code == ErrorCode.INVALID_GROUP_ID
    assert harness.leave(member_id, group="other").members[0].error_code == UNKNOWN


def test_a_pending_member_may_leave() -> None:
    harness = ShardHarness()
    [old] = harness.make_stable_group(1)
    [new] = harness.request_member_ids(1)
    again = harness.join(old)
    assert again not in harness.responses
    assert harness.leave(new).members[0].error_code == OK
    assert harness.outcome(again).generation_id == 2


def test_a_leaving_members_pending_requests_get_a_response() -> None:
    harness = ShardHarness()
    ids = harness.request_member_ids(2)
    harness.join_generation(ids)
    waiting = harness.sync(ids[1], 1)
    harness.leave(ids[1])
    assert harness.outcome(waiting).error_code == UNKNOWN


def test_leave_without_member_id_needs_a_known_instance_id() -> None:
    harness = ShardHarness()
    harness.make_stable_group(1)
    assert harness.leave("").members[0].error_code == UNKNOWN
