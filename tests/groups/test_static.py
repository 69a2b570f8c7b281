"""Static members: they come back to their place, and fence who had it."""

from __future__ import annotations

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.groups.states import State
from tests.groups.desk import OK, RANGE, REBALANCE_MS, SESSION_MS, Desk, subscription

FENCED = ErrorCode.FENCED_INSTANCE_ID
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID


def two_static(desk: Desk) -> list[str]:
    """A stable group of the instances a, which leads, and b."""
    slots = [desk.join(instance=each) for each in ("a", "b")]
    desk.poll()
    leader = desk.told(slots[0])
    desk.assign(leader)
    assert desk.state() == State.STABLE
    return [desk.told(slot).member_id for slot in slots]


def test_it_is_not_asked_to_come_back_with_an_id() -> None:
    desk = Desk()
    assert two_static(desk) == ["a-1", "b-2"]
    members = desk.told(1).members
    assert [each.group_instance_id for each in members] == ["a", "b"]


@pytest.mark.parametrize("version", [8, 9])
def test_one_that_comes_back_goes_on_without_a_rebalance(version: int) -> None:
    desk = Desk()
    two_static(desk)
    told = desk.told(desk.join(instance="b", version=version))
    assert (told.error_code, told.member_id, told.generation_id) == (OK, "b-3", 1)
    assert (told.skip_assignment, told.members, told.leader) == (False, (), "a-1")
    assert desk.state() == State.STABLE
    assert desk.told(desk.sync("b-3", 1, instance="b")).assignment == b"b-2"


def test_since_version_9_a_rejoining_leader_skips_assignment() -> None:
    desk = Desk()
    two_static(desk)
    told = desk.told(desk.join(instance="a", version=9))
    assert (told.leader, told.skip_assignment) == ("a-3", True)
    assert [each.member_id for each in told.members] == ["a-3", "b-2"]


def test_before_version_9_a_rejoining_leader_is_not_named_leader() -> None:
    desk = Desk()
    two_static(desk)
    told = desk.told(desk.join(instance="a", version=8))
    assert (told.leader, told.skip_assignment, told.members) == ("a-1", False, ())
    assert desk.shard.groups["g"].leader == "a-3"


def test_the_old_id_is_fenced_everywhere() -> None:
    desk = Desk()
    two_static(desk)
    desk.join(instance="b")
    assert desk.heartbeat("b-2", 1, instance="b") == FENCED
    assert desk.told(desk.sync("b-2", 1, instance="b")).error_code == FENCED
    assert desk.told(desk.join("b-2", instance="b")).error_code == FENCED
    assert desk.leave(("b-2", "b")).members[0].error_code == FENCED
    slot = desk.commit_offsets({("t", 0): 1}, "b-2", 1, instance="b")
    assert desk.told(slot).topics[0].partitions[0].error_code == FENCED
    assert desk.heartbeat("b-2", 1) == UNKNOWN
    assert desk.heartbeat("b-3", 1, instance="nobody") == UNKNOWN
    assert desk.heartbeat("b-3", 1, instance="b") == OK


def test_whoever_waits_under_the_old_id_is_told_that_it_is_fenced() -> None:
    desk = Desk()
    two_static(desk)
    desk.join("a-1", instance="a")  # the leader wants a rebalance
    waiting = desk.join(instance="a")
    joining = desk.join(instance="a")
    assert desk.told(waiting).error_code == FENCED
    told = desk.told(desk.join("b-2", instance="b"))
    assert told.error_code == OK
    assert desk.told(joining).member_id == "a-4"
    syncing = desk.sync("b-2", 2, instance="b")
    desk.join(instance="b")
    assert desk.told(syncing).error_code == FENCED
    assert desk.state() == State.PREPARING  # the leader may have had the old id in hand


def test_other_protocols_make_a_rebalance() -> None:
    desk = Desk()
    both = (("sticky", subscription("t")), *RANGE)
    slots = [desk.join(instance=each, protocols=both) for each in ("a", "b")]
    desk.poll()
    desk.assign(desk.told(slots[0]))
    assert desk.shard.groups["g"].protocol == "sticky"
    back = desk.join(instance="b")  # supports one of them only
    assert desk.state() == State.PREPARING
    told = desk.told(desk.join("a-1", instance="a", protocols=both))
    assert (told.protocol_name, desk.told(back).generation_id) == ("range", 2)


def test_one_that_is_away_stays_a_member_until_its_session_is_over() -> None:
    desk = Desk()
    slots = [desk.join(instance=each, session_ms=100_000) for each in ("a", "b")]
    desk.poll()
    desk.assign(desk.told(slots[0]))
    again = desk.join("a-1", instance="a", session_ms=100_000)
    desk.advance(REBALANCE_MS)
    told = desk.told(again)
    assert (told.generation_id, [each.member_id for each in told.members]) == (2, ["a-1", "b-2"])
    desk.assign(told)
    desk.advance(100_000 - 1)
    assert desk.state() == State.STABLE


def test_a_leader_that_is_away_stays_and_another_leads() -> None:
    desk = Desk()
    two_static(desk)
    slot = desk.join("b-2", instance="b", protocols=(("range", subscription("u")),))
    for _ in range(4):
        desk.heartbeat("a-1", 1, instance="a")
        desk.advance(5_000)
    told = desk.told(slot)
    assert (told.leader, [each.member_id for each in told.members]) == ("b-2", ["a-1", "b-2"])


def test_a_member_that_rejoins_before_its_assignment_is_awaited() -> None:
    desk = Desk()
    slots = [desk.join(instance=each, session_ms=60_000) for each in ("a", "b")]
    desk.poll()
    desk.sync("a-1", 1, {"a-1": b"x", "b-2": b"y"}, instance="a")
    assert desk.told(desk.join(instance="b", session_ms=60_000)).member_id == "b-3"
    assert {desk.told(slot).error_code for slot in slots} == {OK}
    desk.advance(REBALANCE_MS)
    assert desk.state() == State.PREPARING
    assert list(desk.shard.groups["g"].members) == ["a-1"]


def test_without_anybody_here_the_rebalance_waits_on() -> None:
    desk = Desk()
    two_static(desk)
    [new] = desk.enter(1)
    slot = desk.join(new)
    desk.leave(new)
    assert desk.told(slot).error_code == UNKNOWN
    for _ in range(9):
        desk.heartbeat("a-1", 1, instance="a")
        desk.heartbeat("b-2", 1, instance="b")
        desk.advance(5_000)
    assert desk.state() == State.PREPARING
    desk.advance(SESSION_MS)
    assert desk.state() == State.EMPTY


def test_while_none_is_here_the_rebalance_waits_for_as_long_again() -> None:
    desk = Desk()
    two_static(desk)
    desk.leave(("", "a"))

    def beat(ms: int) -> None:
        for _ in range(ms // 5000):
            assert desk.heartbeat("b-2", 1, instance="b") == ErrorCode.REBALANCE_IN_PROGRESS
            desk.advance(5_000)

    beat(REBALANCE_MS)
    slot = desk.join(instance="c")
    beat(REBALANCE_MS - 5_000)
    assert slot not in desk.answers
    beat(5_000)
    told = desk.told(slot)
    assert (told.generation_id, told.leader) == (2, "c-3")
    assert [each.member_id for each in told.members] == ["b-2", "c-3"]


def test_an_administrator_removes_it_by_its_instance_id() -> None:
    desk = Desk()
    two_static(desk)
    told = desk.leave(("", "b"), ("", "nobody"))
    assert [(each.group_instance_id, each.error_code) for each in told.members] == [
        ("b", OK),
        ("nobody", UNKNOWN),
    ]
    assert list(desk.shard.groups["g"].members) == ["a-1"]


def test_if_the_new_id_can_not_be_written_the_old_one_is_good_again() -> None:
    desk = Desk()
    two_static(desk)
    before = desk.describe()
    desk.prompt = False
    slot = desk.join(instance="a", session_ms=20_000)
    assert slot not in desk.answers
    desk.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    told = desk.told(slot)
    assert (told.error_code, told.member_id) == (ErrorCode.NOT_COORDINATOR, "")
    assert desk.describe() == before
    assert desk.heartbeat("a-1", 1, instance="a") == OK
    assert desk.shard.groups["g"].members["a-1"].session_timeout_ms == SESSION_MS


def test_two_that_come_back_as_one_instance_and_both_fail() -> None:
    desk = Desk()
    two_static(desk)
    desk.prompt = False
    first = desk.join(instance="b")
    second = desk.join(instance="b")
    assert desk.told(first).error_code == FENCED
    desk.fail(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert desk.told(second).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert list(desk.shard.groups["g"].members) == ["a-1", "b-2"]


def test_a_rebalance_meanwhile_answers_instead() -> None:
    desk = Desk()
    two_static(desk)
    desk.prompt = False
    back = desk.join(instance="b")
    desk.join("a-1", instance="a")
    assert desk.told(back).generation_id == 2
    desk.commit()
    assert desk.state() == State.COMPLETING
