"""SyncGroup, Heartbeat, LeaveGroup and sessions."""

from __future__ import annotations

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.groups.states import State
from tests.groups.desk import OK, REBALANCE_MS, SESSION_MS, Desk

UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
REBALANCE = ErrorCode.REBALANCE_IN_PROGRESS


# SyncGroup -----------------------------------------------------------------------------------


def test_all_get_their_part_once_what_the_leader_says_is_in_the_log() -> None:
    desk = Desk()
    ids = desk.enter(2)
    leader = desk.generation(ids)
    desk.prompt = False
    slots = [desk.sync(ids[1], 1), desk.sync(ids[0], 1, {ids[0]: b"x", ids[1]: b"y"})]
    assert not desk.answers.keys() & set(slots)
    assert desk.state() == State.COMPLETING
    desk.commit()
    told = [desk.told(slot) for slot in slots]
    assert [each.assignment for each in told] == [b"y", b"x"]
    assert {(e.error_code, e.protocol_type, e.protocol_name) for e in told} == {
        (OK, "consumer", "range")
    }
    assert desk.state() == State.STABLE
    assert leader.generation_id == 1


def test_unmentioned_members_get_nothing_and_late_ones_an_immediate_answer() -> None:
    desk = Desk()
    ids = desk.enter(2)
    desk.generation(ids)
    desk.sync(ids[0], 1, {ids[0]: b"all", "stranger": b"none"})
    assert desk.told(desk.sync(ids[1], 1)).assignment == b""
    assert desk.told(desk.sync(ids[0], 1)).assignment == b"all"


def test_what_a_sync_is_refused_for() -> None:
    desk = Desk()
    ids = desk.enter(2)
    desk.generation(ids)

    def code(*words: object, **more: str) -> int:
        refused: int = desk.told(desk.sync(*words, **more)).error_code  # type: ignore[arg-type]  # as given
        return refused

    assert code(ids[0], 1, group="") == ErrorCode.INVALID_GROUP_ID
    assert code(ids[0], 1, group="other") == UNKNOWN
    assert code("nobody", 1) == UNKNOWN
    assert code(ids[0], 0) == ErrorCode.ILLEGAL_GENERATION
    assert code(ids[0], 1, protocol="other") == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert code(ids[0], 1, protocol_type="other") == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    desk.enter(1)
    desk.leave(ids[1])
    assert code(ids[0], 1) == REBALANCE


def test_a_rebalance_ends_the_wait_for_an_assignment() -> None:
    desk = Desk()
    ids = desk.enter(2)
    desk.generation(ids)
    waiting = desk.sync(ids[1], 1)
    desk.join(version=3)
    assert desk.told(waiting).error_code == REBALANCE


def test_what_the_leader_said_comes_too_late_for_another_generation() -> None:
    desk = Desk()
    ids = desk.enter(2)
    desk.generation(ids)
    desk.prompt = False
    slot = desk.sync(ids[0], 1, {ids[0]: b"x"})
    desk.leave(ids[1])
    assert desk.told(slot).error_code == REBALANCE
    desk.commit()
    assert desk.state() == State.PREPARING


def test_an_assignment_that_can_not_be_written_is_made_anew() -> None:
    desk = Desk()
    ids = desk.enter(2)
    desk.generation(ids)
    desk.prompt = False
    slots = [desk.sync(ids[1], 1), desk.sync(ids[0], 1, {ids[0]: b"x", ids[1]: b"y"})]
    desk.fail(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert {desk.told(slot).error_code for slot in slots} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert desk.state() == State.PREPARING
    assert desk.heartbeat(ids[0], 1) == REBALANCE


def test_who_joins_and_does_not_sync_is_out() -> None:
    desk = Desk()
    ids = desk.enter(2)
    desk.generation(ids)
    desk.sync(ids[0], 1, {ids[0]: b"x"})
    for _ in range(REBALANCE_MS // 5000):
        assert desk.heartbeat(ids[0], 1) == desk.heartbeat(ids[1], 1) == OK
        desk.advance(5000)
    assert desk.state() == State.PREPARING
    assert list(desk.shard.groups["g"].members) == [ids[0]]


def test_who_has_not_synced_has_time_again_when_a_rebalance_begins() -> None:
    desk = Desk()
    ids = desk.enter(2)
    desk.generation(ids)
    for _ in range(3):
        desk.advance(5000)
        assert desk.heartbeat(ids[0], 1) == desk.heartbeat(ids[1], 1) == OK
    new = desk.join(version=3)
    for _ in range(2):
        desk.advance(5000)
        assert desk.heartbeat(ids[0], 1) == desk.heartbeat(ids[1], 1) == REBALANCE
    desk.join(ids[0])
    desk.join(ids[1])
    assert desk.told(new).generation_id == 2


def test_a_leader_that_never_speaks_is_out_and_another_leads() -> None:
    desk = Desk()
    ids = desk.enter(2)
    desk.generation(ids)
    waiting = desk.sync(ids[1], 1)
    for _ in range(REBALANCE_MS // 5000):
        desk.heartbeat(ids[0], 1)
        desk.advance(5000)
    assert desk.told(waiting).error_code == REBALANCE
    assert desk.told(desk.join(ids[1])).leader == ids[1]


def test_a_later_sync_of_a_member_takes_the_place_of_the_one_that_waits() -> None:
    desk = Desk()
    ids = desk.enter(2)
    desk.generation(ids)
    first, second = desk.sync(ids[1], 1), desk.sync(ids[1], 1)
    assert desk.told(first).error_code == REBALANCE
    desk.sync(ids[0], 1, {ids[1]: b"y"})
    assert desk.told(second).assignment == b"y"


# Heartbeat -----------------------------------------------------------------------------------


def test_what_a_heartbeat_is_told() -> None:
    desk = Desk()
    ids = desk.enter(1)
    desk.generation(ids)
    assert desk.heartbeat(ids[0], 1) == OK  # while assignments are made
    desk.sync(ids[0], 1, {ids[0]: b"x"})
    assert desk.heartbeat(ids[0], 1) == OK
    assert desk.heartbeat(ids[0], 0) == ErrorCode.ILLEGAL_GENERATION
    assert desk.heartbeat("nobody", 1) == UNKNOWN
    assert desk.heartbeat(ids[0], 1, group="other") == UNKNOWN
    assert desk.heartbeat(ids[0], 1, group="") == ErrorCode.INVALID_GROUP_ID
    desk.join(version=3)
    assert desk.heartbeat(ids[0], 1) == REBALANCE


@pytest.mark.parametrize("sign", ["heartbeat", "commit"])
def test_a_member_that_gives_a_sign_of_life_stays(sign: str) -> None:
    desk = Desk()
    [member_id] = desk.stable(1)
    for _ in range(5):
        desk.advance(SESSION_MS - 1)
        if sign == "heartbeat":
            desk.heartbeat(member_id, 1)
        else:
            desk.commit_offsets({("t", 0): 1}, member_id, 1)
    assert desk.state() == State.STABLE
    desk.advance(SESSION_MS)
    assert desk.state() == State.EMPTY


def test_one_that_is_silent_makes_the_others_share_what_it_had() -> None:
    desk = Desk()
    silent, other = desk.stable(2)
    desk.advance(SESSION_MS - 1)
    assert desk.heartbeat(other, 1) == OK
    desk.advance(1)
    assert desk.heartbeat(other, 1) == REBALANCE
    assert desk.heartbeat(silent, 1) == UNKNOWN
    told = desk.told(desk.join(other))
    assert (told.leader, told.generation_id, len(told.members)) == (other, 2, 1)


def test_who_waits_for_us_need_not_give_signs_of_life() -> None:
    desk = Desk()
    old, other = desk.stable(2)
    joining = desk.join(old)
    for _ in range(3):
        desk.advance(SESSION_MS // 2)
        assert desk.heartbeat(other, 1) == REBALANCE
    desk.join(other)
    assert desk.told(joining).error_code == OK
    waiting = desk.sync(other, 2)
    for _ in range(3):
        desk.advance(SESSION_MS // 2)
        assert desk.heartbeat(old, 2) == OK
    desk.sync(old, 2, {other: b"y"})
    assert desk.told(waiting).assignment == b"y"
    desk.advance(SESSION_MS - 1)
    assert set(desk.shard.groups["g"].members) == {old, other}


# LeaveGroup ----------------------------------------------------------------------------------


def test_one_leaves_and_the_others_share() -> None:
    desk = Desk()
    leader, other = desk.stable(2)
    told = desk.leave(leader, "nobody")
    assert (told.error_code, [each.error_code for each in told.members]) == (OK, [OK, UNKNOWN])
    assert desk.heartbeat(other, 1) == REBALANCE
    assert desk.told(desk.join(other)).leader == other


def test_the_last_one_leaves_an_empty_group_of_the_next_generation() -> None:
    desk = Desk()
    [member_id] = desk.stable(1)
    desk.leave(member_id)
    value = desk.shard.durable.groups["g"]
    assert desk.state() == State.EMPTY
    assert (value.generation, value.protocol_type, value.protocol, value.leader, value.members) == (
        2,
        "consumer",
        None,
        None,
        (),
    )


def test_old_versions_are_told_of_their_one_member_at_the_top() -> None:
    desk = Desk()
    [member_id] = desk.stable(1)
    assert desk.leave("nobody", version=2).error_code == UNKNOWN
    assert desk.leave(member_id, version=2).error_code == OK
    assert desk.leave(member_id, version=2, group="other").error_code == UNKNOWN
    assert desk.leave(member_id, group="").error_code == ErrorCode.INVALID_GROUP_ID
    assert desk.leave(member_id, group="other").members[0].error_code == UNKNOWN


def test_one_that_was_given_an_id_and_thinks_better_of_it() -> None:
    desk = Desk()
    [old] = desk.stable(1)
    [new] = desk.enter(1)
    again = desk.join(old)
    assert again not in desk.answers
    assert desk.leave(new).members[0].error_code == OK
    assert desk.told(again).generation_id == 2


def test_who_leaves_while_it_waits_is_answered() -> None:
    desk = Desk()
    ids = desk.enter(2)
    desk.generation(ids)
    waiting = desk.sync(ids[1], 1)
    desk.leave(ids[1])
    assert desk.told(waiting).error_code == UNKNOWN


def test_a_name_that_is_given_without_an_id_must_be_an_instance() -> None:
    desk = Desk()
    desk.stable(1)
    assert desk.leave("").members[0].error_code == UNKNOWN
