"""Loading a partition replays its records, including those of transactions."""

from __future__ import annotations

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.groups.shard import partition_of
from kraftlog.groups.states import GroupState
from kraftlog.groups.stored_state import CommittedOffset
from kraftlog.types import NULL_UUID
from kraftlog.wire.messages.group_records import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kraftlog.wire.record_frames import OFFSETS_LOG, encode_versioned
from tests.groups.shard_harness import OK, SESSION_MS, ShardHarness

T0, T1 = ("t", 0), ("t", 1)


def offset_record(record_offset: int, offset: int, index: int = 0) -> tuple[int, bytes, bytes]:
    """The offset, key and value of a record: group g has committed an offset for t."""
    key = OFFSETS_LOG.encode_key(OffsetCommitKey(group="g", topic="t", partition=index))
    value = OffsetCommitValue(offset=offset, metadata="", commit_timestamp=5)
    return record_offset, key, encode_versioned(value, 4)


# Groups --------------------------------------------------------------------------------------


def test_members_survive_a_coordinator_change() -> None:
    harness = ShardHarness()
    ids = harness.make_stable_group(2)
    static = harness.join(instance="i")
    harness.join(ids[0])
    harness.join(ids[1])
    harness.assign(harness.leader_response())
    harness.commit_offsets({T0: 7}, ids[0], 2)
    before = harness.describe()
    harness.move()
    assert harness.describe() == before
    assert harness.heartbeat(ids[1], 2) == OK
    assert harness.heartbeat(harness.outcome(static).member_id, 2, instance="i") == OK
    assert harness.offsets() == {T0: 7}
    rejoined = harness.outcome(harness.join(ids[1]))
    assert rejoined.generation_id == 2, "no rebalance is needed"


def test_sessions_restart_on_a_new_coordinator() -> None:
    harness = ShardHarness()
    _, other = harness.make_stable_group(2)
    harness.advance(SESSION_MS - 1)
    harness.move()
    harness.advance(SESSION_MS - 1)
    assert harness.heartbeat(other, 1) == OK
    harness.advance(1)
    assert harness.heartbeat(other, 1) == ErrorCode.REBALANCE_IN_PROGRESS


def test_an_unfinished_rebalance_starts_again() -> None:
    harness = ShardHarness()
    old, _ = harness.make_stable_group(2)
    joining = harness.join(old)
    harness.move()
    assert harness.outcome(joining).error_code == ErrorCode.NOT_COORDINATOR
    assert harness.state() == GroupState.STABLE
    harness.join(old)
    assert harness.state() == GroupState.PREPARING


def test_a_record_without_rebalance_timeout_uses_the_session_timeout() -> None:
    from kraftlog.groups.group import group_from_record
    from kraftlog.wire.messages.group_records import GroupMetadataValue, MemberMetadata

    member = MemberMetadata(
        member_id="m",
        client_id="c",
        client_host="/h",
        session_timeout=7000,
        subscription=b"",
        assignment=b"a",
    )
    value = GroupMetadataValue(
        protocol_type="connect", generation=3, protocol=None, leader="gone", members=(member,)
    )
    group = group_from_record("g", value)
    assert group.rebalance_timeout_ms == 7000
    assert group.elect_leader() is False


def test_a_replay_after_loading_is_an_internal_error() -> None:
    with pytest.raises(AssertionError):
        ShardHarness().shard.replay_batch([])


def test_unknown_record_types_are_skipped() -> None:
    harness = ShardHarness()
    shard = harness.new_shard()
    shard.replay_batch(
        [
            (0, b"\x7f\x00new", b"whatever"),
            (1, b"\x00\x03\x00\x01g", None),  # ConsumerGroupMetadata, of KIP-848
            (2, offset_record(0, 1)[1], b"\x00\x63from the future"),
            offset_record(3, 9),
        ]
    )
    shard.finish_loading(harness.now)
    assert {key: each.offset for key, each in shard.durable.offsets.by_group["g"]["t"].items()} == {
        0: 9
    }


def test_offsets_of_the_oldest_record_version_are_loaded() -> None:
    harness = ShardHarness()
    key = LegacyOffsetCommitKey(group="g", topic="t", partition=0)
    value = LegacyOffsetCommitValue(offset=4, metadata="m", commit_timestamp=9)
    shard = harness.new_shard()
    shard.replay_batch([(7, OFFSETS_LOG.encode_key(key), encode_versioned(value, 0))])
    assert shard.durable.offsets.get("g", "t", 0) == CommittedOffset(
        4, -1, "m", 9, -1, NULL_UUID, 7
    )


# Transactions --------------------------------------------------------------------------------


def harness_with_open_transaction() -> ShardHarness:
    """Group g has committed 1 for t-0; an open transaction has 8 for t-0 and 9 for t-1."""
    harness = ShardHarness()
    harness.shard = harness.new_shard()
    harness.shard.replay_batch([offset_record(0, 1)])
    harness.shard.replay_batch([offset_record(1, 8), offset_record(2, 9, 1)], producer_id=5)
    harness.shard.finish_loading(harness.now)
    return harness


def test_transactional_offsets_take_effect_on_commit() -> None:
    harness = harness_with_open_transaction()
    assert harness.offsets() == {T0: 1}
    harness.shard.end_transaction(5, committed=True, now=harness.now)
    assert harness.offsets() == {T0: 8, T1: 9}
    assert (harness.shard.durable.open_producers, harness.shard.durable.transactional) == ({}, {})


def test_offsets_of_an_aborted_transaction_have_no_effect() -> None:
    harness = harness_with_open_transaction()
    harness.shard.end_transaction(5, committed=False, now=harness.now)
    harness.shard.end_transaction(6, committed=True, now=harness.now)
    assert harness.offsets() == {T0: 1}
    assert (harness.shard.durable.open_producers, harness.shard.durable.transactional) == ({}, {})


def test_a_later_ordinary_commit_wins_over_a_transaction() -> None:
    harness = harness_with_open_transaction()
    # Fills the log up to the loaded offsets, so that the next record comes after them.
    harness.log += [(each, b"", None) for each in range(3)]
    harness.commit_offsets({T0: 3})
    harness.shard.end_transaction(5, committed=True, now=harness.now)
    assert harness.offsets() == {T0: 3, T1: 9}


def test_a_fetch_of_stable_offsets_reports_open_transactions() -> None:
    harness = harness_with_open_transaction()
    outcome = harness.outcome(harness.fetch(T0, ("u", 0), stable=True))
    unstable, stable = [topic.partitions[0] for topic in outcome.topics]
    assert (unstable.error_code, unstable.committed_offset) == (
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        -1,
    )
    assert stable.error_code == OK
    assert harness.offsets(T0) == {T0: 1}


def test_a_deletion_includes_transactional_offsets() -> None:
    harness = harness_with_open_transaction()
    # Fills the log up to the loaded offsets, so that the next record comes after them.
    harness.log += [(each, b"", None) for each in range(3)]
    harness.delete_offsets(T1)
    harness.shard.end_transaction(5, committed=True, now=harness.now)
    assert harness.offsets() == {T0: 8}

    harness = harness_with_open_transaction()
    harness.delete_groups("g")
    harness.shard.end_transaction(5, committed=True, now=harness.now)
    assert (harness.offsets(), harness.state()) == ({}, "none")


def test_a_committed_transaction_creates_a_group() -> None:
    harness = ShardHarness()
    harness.shard = harness.new_shard()
    harness.shard.replay_batch([offset_record(1, 8)], producer_id=5)
    harness.shard.finish_loading(harness.now)
    assert harness.state() == "none"
    harness.shard.end_transaction(5, committed=True, now=harness.now)
    assert (harness.state(), harness.offsets()) == (GroupState.EMPTY, {T0: 8})


def test_offsets_with_an_open_transaction_do_not_expire() -> None:
    harness = harness_with_open_transaction()
    harness.advance(2 * harness.config.offsets_retention_ms)
    assert harness.offsets() == {T0: 1}


# The partition of a group --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("group", "absolute_hash"),
    [
        ("", 0),
        ("g", 103),
        ("my-group", 1906497762),
        # Its hash is the smallest int, whose absolute value is 0 to Kafka.
        ("polygenelubricants", 0),
        ("console-consumer-12345", 158455506),
        ("\N{GRINNING FACE}", 1772899),
        ("é漢", 35673),
    ],
)
def test_groups_are_partitioned_by_javas_string_hash(group: str, absolute_hash: int) -> None:
    assert [partition_of(group, count) for count in (1, 50, 2**31)] == [
        0,
        absolute_hash % 50,
        absolute_hash,
    ]
