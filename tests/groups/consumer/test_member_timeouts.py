"""Members that go silent, or do not revoke in time, are removed."""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.groups.consumer.states import LEAVE_STATIC_EPOCH
from tests.groups.consumer.consumer_harness import (
    REVOKE_MS,
    SESSION_MS,
    ConsumerHarness,
    T,
    assigned,
)
from tests.groups.shard_harness import OK


def test_a_silent_member_is_removed_after_its_session() -> None:
    harness = ConsumerHarness()
    a, b = harness.share_topic()
    harness.advance(SESSION_MS - 1)
    assert harness.beat("b", b).error_code == OK
    harness.advance(1)
    assert list(harness.group.members) == ["b"]
    assert harness.beat("a", a).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert assigned(harness.beat("b", b)) == {T: [0, 1, 2, 3, 4, 5]}


def test_a_groups_own_session_timeout_counts() -> None:
    harness = ConsumerHarness()
    harness.image.configs[32, "g"] = {"consumer.session.timeout.ms": "50000"}
    harness.enter("a")
    harness.advance(49_999)
    assert list(harness.group.members) == ["a"]
    harness.advance(1)
    assert harness.group.members == {}


def test_a_member_that_does_not_revoke_is_removed_in_time() -> None:
    harness = ConsumerHarness()
    a = harness.enter("a").member_epoch
    b = harness.enter("b").member_epoch
    harness.beat("a", a, owned={T: range(6)})
    harness.advance(REVOKE_MS - 1)
    assert harness.beat("a", a, owned={T: range(6)}).error_code == OK
    assert harness.beat("b", b).error_code == OK
    harness.advance(1)
    assert list(harness.group.members) == ["b"]
    assert assigned(harness.beat("b", b)) == {T: [0, 1, 2, 3, 4, 5]}


def test_a_member_that_has_revoked_has_no_deadline() -> None:
    harness = ConsumerHarness()
    a = harness.enter("a").member_epoch
    b = harness.enter("b").member_epoch
    harness.beat("a", a, owned={T: range(6)})
    a = harness.beat("a", a, owned={T: range(3)}).member_epoch
    harness.beat("b", b)
    harness.advance(REVOKE_MS)
    assert list(harness.group.members) == ["a", "b"]


def test_each_revocation_has_its_own_time() -> None:
    harness = ConsumerHarness()
    a = harness.enter("a").member_epoch
    harness.enter("b")
    harness.beat("a", a, owned={T: range(6)})
    a = harness.beat("a", a, owned={T: range(3)}).member_epoch
    harness.advance(REVOKE_MS - 1)
    harness.beat("b", harness.group.members["b"].epoch)
    harness.enter("c")
    harness.beat("a", a, owned={T: range(3)})
    harness.advance(REVOKE_MS - 1)
    assert "a" in harness.group.members
    harness.advance(1)
    assert "a" not in harness.group.members


def test_a_new_coordinator_gives_all_members_their_full_time() -> None:
    harness = ConsumerHarness()
    a = harness.enter("a").member_epoch
    harness.enter("b")
    harness.beat("a", a, owned={T: range(6)})
    harness.advance(REVOKE_MS - 1)
    harness.move()
    harness.advance(REVOKE_MS - 1)
    assert "a" in harness.group.members
    harness.advance(1)
    assert "a" not in harness.group.members
    harness.advance(SESSION_MS - REVOKE_MS - 1)
    assert list(harness.group.members) == ["b"]
    harness.advance(1)
    assert harness.group.members == {}


def test_a_static_member_that_left_keeps_its_place_for_a_session() -> None:
    harness = ConsumerHarness()
    harness.enter("a", instance="i")
    harness.beat("a", LEAVE_STATIC_EPOCH, instance="i")
    harness.advance(SESSION_MS - 1)
    back = harness.enter("b", instance="i")
    assert (back.member_epoch, assigned(back)) == (2, {T: [0, 1, 2, 3, 4, 5]})
    assert list(harness.group.members) == ["b"]
    harness.beat("b", LEAVE_STATIC_EPOCH, instance="i")
    harness.advance(SESSION_MS)
    assert harness.group.members == {}


def test_timers_of_members_that_left_are_gone() -> None:
    harness = ConsumerHarness()
    harness.enter("a")
    harness.beat("a", -1)
    due = harness.shard.deadline()
    assert due == harness.config.offsets_retention_check_interval_ms
