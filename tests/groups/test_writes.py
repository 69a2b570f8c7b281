"""Batches under way: time limits, failures that rest on each other, the partition's loss."""

from __future__ import annotations

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.groups.messages import Asker, WriteFailed, Written
from kraftlog.groups.states import State
from tests.groups.desk import OK, Desk, codes

T0 = ("t", 0)
AWAY = ErrorCode.COORDINATOR_NOT_AVAILABLE
NOT_OURS = ErrorCode.NOT_COORDINATOR


def test_a_timed_out_write_is_reported_and_its_batch_still_counts() -> None:
    desk = Desk(prompt=False)
    slow = desk.commit_offsets({T0: 1})
    desk.advance(2000)
    later = desk.commit_offsets({T0: 2})
    stable = desk.fetch(T0, stable=True)
    desk.advance(2999)
    assert not {slow, later, stable} & desk.answers.keys()
    desk.advance(1)
    assert codes(desk.told(slow)) == [AWAY]
    assert later not in desk.answers
    desk.advance(2000)
    assert codes(desk.told(later)) == [AWAY]
    assert desk.told(stable).error_code == NOT_OURS
    desk.commit()
    assert desk.offsets() == {T0: 2}
    assert desk.shard.deadline() == desk.config.offsets_retention_check_interval_ms


def test_each_batch_has_its_own_time_limit() -> None:
    desk = Desk(prompt=False)
    desk.commit_offsets({T0: 1})
    desk.advance(1000)
    second = desk.commit_offsets({T0: 2})
    desk.commit(1)
    desk.advance(4999)
    assert second not in desk.answers
    desk.advance(1)
    assert codes(desk.told(second)) == [AWAY]


def test_of_a_group_that_could_not_be_written_nothing_is_waited_for() -> None:
    desk = Desk(prompt=False)
    desk.generation(desk.enter(2))
    desk.fail()
    assert desk.shard.groups == {}
    assert desk.shard.deadline() == desk.config.offsets_retention_check_interval_ms


def test_an_assignment_that_takes_too_long_is_made_anew() -> None:
    desk = Desk()
    [member_id] = desk.enter(1)
    desk.generation([member_id])
    desk.prompt = False
    slot = desk.sync(member_id, 1, {member_id: b"x"})
    desk.advance(5000)
    assert desk.told(slot).error_code == AWAY
    assert desk.state() == State.PREPARING
    desk.commit()
    assert desk.state() == State.PREPARING
    assert desk.told(desk.join(member_id)).generation_id == 2


def test_a_deletion_that_takes_long_is_decided_by_what_comes_of_it() -> None:
    desk = Desk()
    desk.commit_offsets({T0: 1})
    desk.prompt = False
    slot = desk.delete_groups("g")
    desk.advance(5000)
    assert desk.told(slot).results[0].error_code == AWAY
    assert desk.state() == State.DEAD
    desk.commit()
    assert desk.state() == "none"


def test_a_new_group_that_can_not_be_written_is_none() -> None:
    desk = Desk(prompt=False)
    waiting = desk.join(version=3)
    desk.enter(1)
    desk.fail(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert desk.told(waiting).error_code == AWAY
    assert desk.shard.groups == {}
    desk.poll()
    desk.advance(60_000)
    assert desk.under_way == []


def test_a_later_write_of_a_group_stands_after_a_failed_earlier_one() -> None:
    desk = Desk(prompt=False)
    [member_id] = desk.enter(1)
    slot = desk.commit_offsets({T0: 1})
    desk.fail(count=1)
    assert desk.shard.groups == {}
    desk.commit()
    assert codes(desk.told(slot)) == [OK]
    assert (desk.state(), desk.offsets()) == (State.EMPTY, {T0: 1})
    assert desk.told(desk.join(member_id)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_generation_that_rests_on_such_a_group_comes_back_from_the_log() -> None:
    desk = Desk(prompt=False)
    [member_id] = desk.enter(1)
    desk.generation([member_id])
    slot = desk.sync(member_id, 1, {member_id: b"x"})
    desk.fail(ErrorCode.NOT_ENOUGH_REPLICAS, count=1)
    assert desk.told(slot).error_code == AWAY
    assert desk.shard.groups == {}
    desk.commit()
    assert desk.heartbeat(member_id, 1) == OK
    assert desk.describe() == desk.reloaded().describe_groups(Asker(6), ["g"])[0]


def test_batches_are_told_of_in_order_or_it_is_our_own_error() -> None:
    desk = Desk(prompt=False)
    desk.commit_offsets({T0: 1})
    desk.commit_offsets({T0: 2})
    with pytest.raises(AssertionError, match="in the order"):
        desk.shard.handle(Written(desk.under_way[1].token, 0), desk.now)


def test_whoever_waits_is_sent_away_when_the_partition_goes() -> None:
    desk = Desk()
    desk.stable(2, group="joining")
    joining = desk.join("c-1", group="joining")
    ids = desk.enter(2, group="syncing")
    desk.generation(ids, group="syncing")
    syncing = desk.sync(ids[1], 1, group="syncing")
    static = desk.join(group="static", instance="i")
    desk.poll()
    desk.assign(desk.told(static), group="static")
    desk.prompt = False
    back = desk.join(group="static", instance="i")
    leading = desk.sync(ids[0], 1, {ids[0]: b"x"}, group="syncing")
    commit = desk.commit_offsets({T0: 1})
    stable = desk.fetch(T0, stable=True)
    desk.commit_offsets({T0: 1}, group="empty")
    deleted = desk.delete_groups("empty")
    under_way = list(desk.under_way)
    desk.shard.unload(desk.now)
    desk.settle()
    assert desk.under_way == under_way
    singly = [desk.told(slot).error_code for slot in (joining, syncing, back, leading, stable)]
    assert singly == [NOT_OURS] * 5
    assert codes(desk.told(commit)) == [NOT_OURS]
    assert desk.told(deleted).results[0].error_code == NOT_OURS
    assert (desk.shard.groups, desk.shard.deadline()) == ({}, None)
    for message in (Written(under_way[0].token, 9), WriteFailed(under_way[1].token, 1)):
        desk.shard.handle(message, desk.now)
    assert desk.shard.take_effects() == []
