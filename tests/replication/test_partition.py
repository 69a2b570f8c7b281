"""One partition: assigned offsets, completed responses, refused epochs."""

from __future__ import annotations

from typing import Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.records.builder import BatchBuilder
from kraftlog.records.header import read_header
from kraftlog.replication.partition import Append, Partition
from kraftlog.types import NULL_UUID


def leading_partition(epoch: int = 5, end: int = 10) -> Partition:
    partition = Partition("t", NULL_UUID, 0, ("t", 0))
    partition.lead(epoch)
    partition.opened(0, end)
    return partition


def append(partition: Partition, count: int, turn: list[Append]) -> int:
    builder = BatchBuilder()
    for _ in range(count):
        builder.append(1000, None, b"x")
    batch = bytearray(builder.build())
    return partition.append(read_header(batch), memoryview(batch), turn)


def test_a_turn_makes_one_write_per_partition_without_offset_gaps() -> None:
    partition = leading_partition()
    turn: list[Append] = []
    assert [append(partition, count, turn) for count in (3, 1, 2)] == [10, 13, 14]
    assert partition.end == 16
    assert partition.high_watermark == 10, "nothing is written yet"
    [write] = turn
    assert [read_header(batch).base_offset for batch in write.buffers] == [10, 13, 14]
    assert {read_header(batch).leader_epoch for batch in write.buffers} == {5}


def test_a_write_completes_only_the_requests_with_records_in_it() -> None:
    """V7, with a single replica: what is written is below the high watermark."""
    partition = leading_partition()
    waiting: Any = [(11, "first", None, -1), (12, "second", None, 100), (13, "third", None, -1)]
    partition.acks.extend(waiting)
    assert partition.written(12) == waiting[:2]
    assert list(partition.acks) == waiting[2:]
    assert partition.high_watermark == 12


def test_an_outdated_write_report_is_ignored() -> None:
    """V7: it lowers neither end nor high watermark, and no record is counted twice."""
    partition = leading_partition()
    append(partition, 4, [])
    assert partition.written(14) == []
    assert partition.written(12) == []
    assert (partition.written_end, partition.high_watermark) == (14, 14)
    assert partition.counts.messages_in == 4


def test_v7_a_high_watermark_never_falls() -> None:
    """V7: neither by a leader's count nor by a late response to a follower."""
    partition = leading_partition()
    before = partition.high_watermark
    assert not partition.raise_high_watermark(before - 1)
    partition.note_leader_offsets(before - 1, partition.start)
    assert not partition.follow_high_watermark()
    assert partition.high_watermark == before


def test_v7_records_that_an_in_sync_replica_lacks_are_not_committed() -> None:
    """V7: the high watermark stays, and a request with acks=all waits on."""
    partition = leading_partition()
    partition.set_commits_at_once(False)
    waiting: Any = (11, "leader", None, -1), (12, "all", None, 100)
    leader_only, acks_all = waiting
    partition.acks.extend((leader_only, acks_all))
    assert partition.written(12) == [leader_only]
    assert (partition.just_written, partition.written_end) == ([acks_all], 12)
    assert partition.high_watermark == 10
    repeated: Any = "repeated"
    partition.wait_for(11, repeated, None, 100)
    assert partition.just_written == [acks_all, (11, repeated, None, 100)]
    assert partition.take_waiting() == [(acks_all[1], None), (repeated, None)]


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (-1, ErrorCode.NONE),
        (4, ErrorCode.FENCED_LEADER_EPOCH),
        (5, ErrorCode.NONE),
        (6, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_only_requests_of_the_leader_epoch_are_served(epoch: int, code: int) -> None:
    """C153."""
    assert leading_partition().error_for_request(epoch) == code


def test_a_partition_without_open_log_refuses_requests() -> None:
    partition = Partition("t", NULL_UUID, 0, ("t", 0))
    assert partition.error_for_request(-1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
