"""Offsets expire, and an empty group is deleted with its last offset."""

from __future__ import annotations

from kraftlog.groups.states import GroupState
from tests.groups.shard_harness import SESSION_MS, WALL_MS, ShardHarness

T0, U0 = ("t", 0), ("u", 0)
DAY_MS = 24 * 60 * 60_000
HOUR_MS = 60 * 60_000


def one_day_retention() -> ShardHarness:
    """A shard that keeps offsets for a day and checks every hour."""
    return ShardHarness(offsets_retention_ms=DAY_MS, offsets_retention_check_interval_ms=HOUR_MS)


def keep_member_alive(harness: ShardHarness, member_id: str, ms: int) -> None:
    """Let time pass while a member sends heartbeats."""
    end = harness.ms + ms
    while harness.ms < end:
        harness.heartbeat(member_id, harness.shard.groups["g"].generation)
        harness.advance(min(1_000_000, end - harness.ms))


def test_retention_starts_at_the_commit_if_there_never_was_a_member() -> None:
    harness = one_day_retention()
    harness.commit_offsets({T0: 1})
    harness.advance(2 * HOUR_MS)
    harness.commit_offsets({U0: 1})
    harness.advance(DAY_MS - 2 * HOUR_MS - 1)
    assert harness.offsets() == {T0: 1, U0: 1}
    harness.advance(1)
    assert harness.offsets() == {U0: 1}
    assert harness.state() == GroupState.EMPTY
    harness.advance(2 * HOUR_MS)
    assert (harness.offsets(), harness.state()) == ({}, "none")
    assert harness.reloaded().groups == {}


def test_retention_starts_when_the_group_becomes_empty() -> None:
    harness = one_day_retention()
    [member_id] = harness.make_stable_group(1, session_ms=1_800_000)
    harness.commit_offsets({T0: 1}, member_id, 1)
    keep_member_alive(harness, member_id, 5 * HOUR_MS)
    harness.leave(member_id)
    harness.advance(DAY_MS - 1)
    assert harness.offsets() == {T0: 1}
    harness.advance(1)
    assert (harness.offsets(), harness.state()) == ({}, "none")


def test_the_time_of_becoming_empty_survives_a_restart() -> None:
    harness = one_day_retention()
    harness.make_stable_group(1)
    harness.commit_offsets({T0: 1}, "c-1", 1)
    harness.leave("c-1")
    harness.advance(5 * HOUR_MS)
    harness.move()
    harness.advance(DAY_MS - 5 * HOUR_MS)
    assert harness.state() == "none"


def test_only_unsubscribed_offsets_of_active_consumers_expire() -> None:
    harness = one_day_retention()
    [member_id] = harness.make_stable_group(1, session_ms=1_800_000)
    harness.commit_offsets({T0: 1, U0: 1}, member_id, 1)
    keep_member_alive(harness, member_id, DAY_MS)
    assert harness.offsets() == {T0: 1}
    assert harness.state() == GroupState.STABLE


def test_no_offset_expires_during_a_rebalance_or_in_a_connect_group() -> None:
    harness = one_day_retention()
    [member_id] = harness.make_stable_group(1, session_ms=1_800_000, protocol_type="connect")
    harness.commit_offsets({U0: 1}, member_id, 1)
    keep_member_alive(harness, member_id, DAY_MS)
    assert harness.offsets() == {U0: 1}

    harness = one_day_retention()
    ids = harness.make_stable_group(2, session_ms=1_800_000, rebalance_ms=2**31 - 1)
    harness.commit_offsets({U0: 1}, ids[0], 1)
    harness.join(ids[0], rebalance_ms=2**31 - 1)
    keep_member_alive(harness, ids[1], DAY_MS)
    assert (harness.offsets(), harness.state()) == ({U0: 1}, GroupState.PREPARING)


def test_a_commit_with_retention_time_expires_by_it() -> None:
    harness = one_day_retention()
    harness.commit_offsets({T0: 1}, version=4, retention_ms=HOUR_MS)
    harness.advance(HOUR_MS)
    assert (harness.offsets(), harness.state()) == ({}, "none")


def test_an_offset_with_a_pending_commit_does_not_expire() -> None:
    harness = one_day_retention()
    harness.commit_offsets({T0: 1, U0: 1})
    harness.advance(DAY_MS - 1)
    harness.commits_at_once = False
    harness.commit_offsets({T0: 2})
    harness.advance(1)
    harness.commit()
    assert harness.offsets() == {T0: 2}


def test_an_empty_group_without_offsets_is_deleted() -> None:
    harness = one_day_retention()
    harness.request_member_ids(1)
    harness.advance(SESSION_MS)
    assert harness.state() == GroupState.EMPTY
    harness.advance(HOUR_MS)
    assert harness.state() == "none"


def test_a_failed_expiration_is_retried() -> None:
    harness = one_day_retention()
    harness.commit_offsets({T0: 1})
    harness.commits_at_once = False
    harness.advance(DAY_MS)
    assert harness.state() == GroupState.DEAD
    harness.advance(HOUR_MS)  # a check while the tombstones of the group are pending
    assert len(harness.pending_writes) == 1
    harness.fail()
    assert (harness.state(), harness.offsets()) == (GroupState.EMPTY, {T0: 1})
    harness.commits_at_once = True
    harness.advance(HOUR_MS)
    assert harness.state() == "none"


def test_many_offsets_are_checked_in_slices() -> None:
    harness = one_day_retention()
    for number in range(3):
        for start in range(0, 2000, 500):
            offsets = {("t", index): 1 for index in range(start, start + 500)}
            harness.commit_offsets(offsets, group=f"g{number}")
    harness.ms = DAY_MS
    harness.commits_at_once = False
    sizes = []
    for _ in range(4):
        harness.poll()
        sizes.append([len(write.records) for write in harness.pending_writes])
        harness.commit()
        harness.ms += 1
    assert sizes == [[1000, 1000, 1]] * 3 + [[]]
    assert harness.shard.groups == {}


def test_retention_starts_at_the_commit_if_the_record_has_no_time() -> None:
    from kraftlog.groups.records import GroupRecord
    from kraftlog.groups.stored_state import StoredGroups
    from kraftlog.wire.messages.group_records import GroupMetadataKey, GroupMetadataValue

    harness = one_day_retention()
    harness.commit_offsets({T0: 1})
    harness.advance(3 * HOUR_MS)
    value = GroupMetadataValue(
        protocol_type="consumer", generation=3, protocol=None, leader=None, members=()
    )
    key, old = GroupRecord(GroupMetadataKey(group="g"), value, 1).encoded()
    harness.log.append((len(harness.log), key, old))
    harness.move()
    assert isinstance(harness.shard.durable, StoredGroups)
    assert harness.shard.groups["g"].state_since == -1
    harness.advance(DAY_MS - 3 * HOUR_MS - 1)
    assert harness.offsets() == {T0: 1}
    harness.advance(1)
    assert harness.state() == "none"
    assert harness.now.wall_ms == WALL_MS + DAY_MS
