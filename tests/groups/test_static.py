"""Static members keep their place after a restart, and fence an older instance."""

from __future__ import annotations

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.groups.states import GroupState
from tests.groups.shard_harness import (
    OK,
    RANGE,
    REBALANCE_MS,
    SESSION_MS,
    ShardHarness,
    subscription,
)

FENCED = ErrorCode.FENCED_INSTANCE_ID
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID


def stable_static_group(harness: ShardHarness) -> list[str]:
    """Make a stable group of the static members a, the leader, and b; return their member ids."""
    responses = [harness.join(instance=each) for each in ("a", "b")]
    harness.poll()
    leader = harness.outcome(responses[0])
    harness.assign(leader)
    assert harness.state() == GroupState.STABLE
    return [harness.outcome(pending).member_id for pending in responses]


def test_a_static_member_needs_no_second_join() -> None:
    harness = ShardHarness()
    assert stable_static_group(harness) == ["a-1", "b-2"]
    members = harness.outcome(1).members
    assert [each.group_instance_id for each in members] == ["a", "b"]


@pytest.mark.parametrize("version", [8, 9])
def test_a_static_member_rejoins_without_a_rebalance(version: int) -> None:
    harness = ShardHarness()
    stable_static_group(harness)
    outcome = harness.outcome(harness.join(instance="b", version=version))
    assert (outcome.error_code, outcome.member_id, outcome.generation_id) == (OK, "b-3", 1)
    assert (outcome.skip_assignment, outcome.members, outcome.leader) == (False, (), "a-1")
    assert harness.state() == GroupState.STABLE
    assert harness.outcome(harness.sync("b-3", 1, instance="b")).assignment == b"b-2"


def test_since_version_9_a_rejoining_leader_skips_assignment() -> None:
    harness = ShardHarness()
    stable_static_group(harness)
    outcome = harness.outcome(harness.join(instance="a", version=9))
    assert (outcome.leader, outcome.skip_assignment) == ("a-3", True)
    assert [each.member_id for each in outcome.members] == ["a-3", "b-2"]


def test_before_version_9_a_rejoining_leader_is_not_named_leader() -> None:
    harness = ShardHarness()
    stable_static_group(harness)
    outcome = harness.outcome(harness.join(instance="a", version=8))
    assert (outcome.leader, outcome.skip_assignment, outcome.members) == ("a-1", False, ())
    assert harness.shard.groups["g"].leader == "a-3"


def test_the_old_id_is_fenced_everywhere() -> None:
    harness = ShardHarness()
    stable_static_group(harness)
    harness.join(instance="b")
    assert harness.heartbeat("b-2", 1, instance="b") == FENCED
    assert harness.outcome(harness.sync("b-2", 1, instance="b")).error_code == FENCED
    assert harness.outcome(harness.join("b-2", instance="b")).error_code == FENCED
    assert harness.leave(("b-2", "b")).members[0].error_code == FENCED
    pending = harness.commit_offsets({("t", 0): 1}, "b-2", 1, instance="b")
    assert harness.outcome(pending).topics[0].partitions[0].error_code == FENCED
    assert harness.heartbeat("b-2", 1) == UNKNOWN
    assert harness.heartbeat("b-3", 1, instance="nobody") == UNKNOWN
    assert harness.heartbeat("b-3", 1, instance="b") == OK


def test_pending_requests_of_the_old_id_are_fenced() -> None:
    harness = ShardHarness()
    stable_static_group(harness)
    harness.join("a-1", instance="a")  # the leader wants a rebalance
    waiting = harness.join(instance="a")
    joining = harness.join(instance="a")
    assert harness.outcome(waiting).error_code == FENCED
    outcome = harness.outcome(harness.join("b-2", instance="b"))
    assert outcome.error_code == OK
    assert harness.outcome(joining).member_id == "a-4"
    syncing = harness.sync("b-2", 2, instance="b")
    harness.join(instance="b")
    assert harness.outcome(syncing).error_code == FENCED
    assert harness.state() == GroupState.PREPARING  # the leader may have assigned to the old id


def test_a_static_member_with_other_protocols_rebalances() -> None:
    harness = ShardHarness()
    both = (("sticky", subscription("t")), *RANGE)
    responses = [harness.join(instance=each, protocols=both) for each in ("a", "b")]
    harness.poll()
    harness.assign(harness.outcome(responses[0]))
    assert harness.shard.groups["g"].protocol == "sticky"
    rejoining = harness.join(instance="b")  # supports one of them only
    assert harness.state() == GroupState.PREPARING
    outcome = harness.outcome(harness.join("a-1", instance="a", protocols=both))
    assert (outcome.protocol_name, harness.outcome(rejoining).generation_id) == ("range", 2)


def test_a_missing_static_member_stays_until_its_session_timeout() -> None:
    harness = ShardHarness()
    responses = [harness.join(instance=each, session_ms=100_000) for each in ("a", "b")]
    harness.poll()
    harness.assign(harness.outcome(responses[0]))
    again = harness.join("a-1", instance="a", session_ms=100_000)
    harness.advance(REBALANCE_MS)
    outcome = harness.outcome(again)
    assert (outcome.generation_id, [each.member_id for each in outcome.members]) == (
        2,
        ["a-1", "b-2"],
    )
    harness.assign(outcome)
    harness.advance(100_000 - 1)
    assert harness.state() == GroupState.STABLE


def test_a_missing_static_leader_stays_and_another_leads() -> None:
    harness = ShardHarness()
    stable_static_group(harness)
    pending = harness.join("b-2", instance="b", protocols=(("range", subscription("u")),))
    for _ in range(4):
        harness.heartbeat("a-1", 1, instance="a")
        harness.advance(5_000)
    outcome = harness.outcome(pending)
    assert (outcome.leader, [each.member_id for each in outcome.members]) == ("b-2", ["a-1", "b-2"])


def test_a_member_that_rejoins_before_it_syncs_must_still_sync() -> None:
    harness = ShardHarness()
    responses = [harness.join(instance=each, session_ms=60_000) for each in ("a", "b")]
    harness.poll()
    harness.sync("a-1", 1, {"a-1": b"x", "b-2": b"y"}, instance="a")
    assert harness.outcome(harness.join(instance="b", session_ms=60_000)).member_id == "b-3"
    assert {harness.outcome(pending).error_code for pending in responses} == {OK}
    harness.advance(REBALANCE_MS)
    assert harness.state() == GroupState.PREPARING
    assert list(harness.shard.groups["g"].members) == ["a-1"]


def test_a_rebalance_that_no_member_joins_lasts_until_sessions_expire() -> None:
    harness = ShardHarness()
    stable_static_group(harness)
    [new] = harness.request_member_ids(1)
    pending = harness.join(new)
    harness.leave(new)
    assert harness.outcome(pending).error_code == UNKNOWN
    for _ in range(9):
        harness.heartbeat("a-1", 1, instance="a")
        harness.heartbeat("b-2", 1, instance="b")
        harness.advance(5_000)
    assert harness.state() == GroupState.PREPARING
    harness.advance(SESSION_MS)
    assert harness.state() == GroupState.EMPTY


def test_a_rebalance_that_no_member_joins_waits_for_another_timeout() -> None:
    harness = ShardHarness()
    stable_static_group(harness)
    harness.leave(("", "a"))

    def send_heartbeats(ms: int) -> None:
        for _ in range(ms // 5000):
            assert harness.heartbeat("b-2", 1, instance="b") == ErrorCode.REBALANCE_IN_PROGRESS
            harness.advance(5_000)

    send_heartbeats(REBALANCE_MS)
    pending = harness.join(instance="c")
    send_heartbeats(REBALANCE_MS - 5_000)
    assert pending not in harness.responses
    send_heartbeats(5_000)
    outcome = harness.outcome(pending)
    assert (outcome.generation_id, outcome.leader) == (2, "c-3")
    assert [each.member_id for each in outcome.members] == ["b-2", "c-3"]


def test_a_static_member_is_removed_by_instance_id() -> None:
    harness = ShardHarness()
    stable_static_group(harness)
    outcome = harness.leave(("", "b"), ("", "nobody"))
    assert [(each.group_instance_id, each.error_code) for each in outcome.members] == [
        ("b", OK),
        ("nobody", UNKNOWN),
    ]
    assert list(harness.shard.groups["g"].members) == ["a-1"]


def test_a_failed_write_restores_the_old_member_id() -> None:
    harness = ShardHarness()
    stable_static_group(harness)
    before = harness.describe()
    harness.commits_at_once = False
    pending = harness.join(instance="a", session_ms=20_000)
    assert pending not in harness.responses
    harness.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    outcome = harness.outcome(pending)
    assert (outcome.error_code, outcome.member_id) == (ErrorCode.NOT_COORDINATOR, "")
    assert harness.describe() == before
    assert harness.heartbeat("a-1", 1, instance="a") == OK
    assert harness.shard.groups["g"].members["a-1"].session_timeout_ms == SESSION_MS


def test_two_failed_rejoins_of_an_instance_restore_the_old_id() -> None:
    harness = ShardHarness()
    stable_static_group(harness)
    harness.commits_at_once = False
    first = harness.join(instance="b")
    second = harness.join(instance="b")
    assert harness.outcome(first).error_code == FENCED
    harness.fail(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert harness.outcome(second).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert list(harness.shard.groups["g"].members) == ["a-1", "b-2"]


def test_a_rebalance_meanwhile_completes_the_pending_rejoin() -> None:
    harness = ShardHarness()
    stable_static_group(harness)
    harness.commits_at_once = False
    rejoining = harness.join(instance="b")
    harness.join("a-1", instance="a")
    assert harness.outcome(rejoining).generation_id == 2
    harness.commit()
    assert harness.state() == GroupState.COMPLETING
