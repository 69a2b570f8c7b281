"""Offsets that nobody needs go after their time, and with the last one the empty group."""

from __future__ import annotations

from kraftlog.groups.states import State
from tests.groups.desk import SESSION_MS, WALL_MS, Desk

T0, U0 = ("t", 0), ("u", 0)
DAY_MS = 24 * 60 * 60_000
HOUR_MS = 60 * 60_000


def a_day() -> Desk:
    """A desk that keeps offsets for a day and looks every hour."""
    return Desk(offsets_retention_ms=DAY_MS, offsets_retention_check_interval_ms=HOUR_MS)


def stay(desk: Desk, member_id: str, ms: int) -> None:
    """Time goes by, and a member gives signs of life."""
    end = desk.ms + ms
    while desk.ms < end:
        desk.heartbeat(member_id, desk.shard.groups["g"].generation)
        desk.advance(min(1_000_000, end - desk.ms))


def test_of_who_uses_us_for_offsets_only_each_counts_from_its_commit() -> None:
    desk = a_day()
    desk.commit_offsets({T0: 1})
    desk.advance(2 * HOUR_MS)
    desk.commit_offsets({U0: 1})
    desk.advance(DAY_MS - 2 * HOUR_MS - 1)
    assert desk.offsets() == {T0: 1, U0: 1}
    desk.advance(1)
    assert desk.offsets() == {U0: 1}
    assert desk.state() == State.EMPTY
    desk.advance(2 * HOUR_MS)
    assert (desk.offsets(), desk.state()) == ({}, "none")
    assert desk.reloaded().groups == {}


def test_of_an_empty_group_all_count_from_when_it_became_empty() -> None:
    desk = a_day()
    [member_id] = desk.stable(1, session_ms=1_800_000)
    desk.commit_offsets({T0: 1}, member_id, 1)
    stay(desk, member_id, 5 * HOUR_MS)
    desk.leave(member_id)
    desk.advance(DAY_MS - 1)
    assert desk.offsets() == {T0: 1}
    desk.advance(1)
    assert (desk.offsets(), desk.state()) == ({}, "none")


def test_after_a_restart_it_is_still_empty_since_then() -> None:
    desk = a_day()
    desk.stable(1)
    desk.commit_offsets({T0: 1}, "c-1", 1)
    desk.leave("c-1")
    desk.advance(5 * HOUR_MS)
    desk.move()
    desk.advance(DAY_MS - 5 * HOUR_MS)
    assert desk.state() == "none"


def test_of_consumers_at_work_only_what_they_no_longer_read_goes() -> None:
    desk = a_day()
    [member_id] = desk.stable(1, session_ms=1_800_000)
    desk.commit_offsets({T0: 1, U0: 1}, member_id, 1)
    stay(desk, member_id, DAY_MS)
    assert desk.offsets() == {T0: 1}
    assert desk.state() == State.STABLE


def test_of_others_at_work_and_in_a_rebalance_nothing_goes() -> None:
    desk = a_day()
    [member_id] = desk.stable(1, session_ms=1_800_000, protocol_type="connect")
    desk.commit_offsets({U0: 1}, member_id, 1)
    stay(desk, member_id, DAY_MS)
    assert desk.offsets() == {U0: 1}

    desk = a_day()
    ids = desk.stable(2, session_ms=1_800_000, rebalance_ms=2**31 - 1)
    desk.commit_offsets({U0: 1}, ids[0], 1)
    desk.join(ids[0], rebalance_ms=2**31 - 1)
    stay(desk, ids[1], DAY_MS)
    assert (desk.offsets(), desk.state()) == ({U0: 1}, State.PREPARING)


def test_a_commit_with_a_time_to_live_has_its_own() -> None:
    desk = a_day()
    desk.commit_offsets({T0: 1}, version=4, retention_ms=HOUR_MS)
    desk.advance(HOUR_MS)
    assert (desk.offsets(), desk.state()) == ({}, "none")


def test_what_is_committed_meanwhile_stays() -> None:
    desk = a_day()
    desk.commit_offsets({T0: 1, U0: 1})
    desk.advance(DAY_MS - 1)
    desk.prompt = False
    desk.commit_offsets({T0: 2})
    desk.advance(1)
    desk.commit()
    assert desk.offsets() == {T0: 2}


def test_an_empty_group_without_offsets_goes_at_the_next_check() -> None:
    desk = a_day()
    desk.enter(1)
    desk.advance(SESSION_MS)
    assert desk.state() == State.EMPTY
    desk.advance(HOUR_MS)
    assert desk.state() == "none"


def test_what_can_not_be_written_is_tried_again() -> None:
    desk = a_day()
    desk.commit_offsets({T0: 1})
    desk.prompt = False
    desk.advance(DAY_MS)
    assert desk.state() == State.DEAD
    desk.advance(HOUR_MS)  # a check that meets the group while its end is under way
    assert len(desk.under_way) == 1
    desk.fail()
    assert (desk.state(), desk.offsets()) == (State.EMPTY, {T0: 1})
    desk.prompt = True
    desk.advance(HOUR_MS)
    assert desk.state() == "none"


def test_many_are_looked_at_in_several_goes() -> None:
    desk = a_day()
    for number in range(3):
        for start in range(0, 2000, 500):
            offsets = {("t", index): 1 for index in range(start, start + 500)}
            desk.commit_offsets(offsets, group=f"g{number}")
    desk.ms = DAY_MS
    desk.prompt = False
    sizes = []
    for _ in range(4):
        desk.poll()
        sizes.append([len(write.records) for write in desk.under_way])
        desk.commit()
        desk.ms += 1
    assert sizes == [[1000, 1000, 1]] * 3 + [[]]
    assert desk.shard.groups == {}


def test_an_old_record_does_not_say_since_when_a_group_is_empty() -> None:
    from kraftlog.groups.durable import Durable
    from kraftlog.groups.records import GroupRecord
    from kraftlog.wire.messages.group_records import GroupMetadataKey, GroupMetadataValue

    desk = a_day()
    desk.commit_offsets({T0: 1})
    desk.advance(3 * HOUR_MS)
    value = GroupMetadataValue(
        protocol_type="consumer", generation=3, protocol=None, leader=None, members=()
    )
    key, old = GroupRecord(GroupMetadataKey(group="g"), value, 1).encoded()
    desk.log.append((len(desk.log), key, old))
    desk.move()
    assert isinstance(desk.shard.durable, Durable)
    assert desk.shard.groups["g"].state_since == -1
    desk.advance(DAY_MS - 3 * HOUR_MS - 1)
    assert desk.offsets() == {T0: 1}
    desk.advance(1)
    assert desk.state() == "none"
    assert desk.now.wall_ms == WALL_MS + DAY_MS
