"""One partition: assigned offsets, completed responses, refused epochs."""

from __future__ import annotations

from typing import Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.records.builder import BatchBuilder
from kraftlog.records.header import read_header
from kraftlog.replication.fetched_batches import FetchedRun
from kraftlog.replication.partition import Partition, PartitionAppend
from kraftlog.types import NULL_UUID


def leading_partition(epoch: int = 5, end: int = 10) -> Partition:
    partition = Partition("t", NULL_UUID, 0, ("t", 0))
    partition.lead(epoch)
    partition.opened(0, end)
    return partition


def append(partition: Partition, count: int, turn: list[PartitionAppend]) -> int:
    builder = BatchBuilder()
    for _ in range(count):
        builder.append(1000, None, b"x")
    batch = bytearray(builder.build())
    return partition.append(read_header(batch), memoryview(batch), turn)


def test_a_turn_makes_one_write_per_partition_without_offset_gaps() -> None:
    partition = leading_partition()
    turn: list[PartitionAppend] = []
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


def check_first_batch(partition: Partition, producer_id: int) -> int:
    """The code for a producer that is not known here, and whose first batch has sequence 5."""
    builder = BatchBuilder(producer_id=producer_id, producer_epoch=0, base_sequence=5)
    builder.append(1000, None, b"x")
    return partition.check_producer(read_header(builder.build()))


def test_a_producer_newer_than_the_log_starts_at_sequence_0() -> None:
    """Of an older one the batches before may be forgotten, or in an earlier topic of the name."""
    partition = leading_partition()
    assert check_first_batch(partition, 10**18) == ErrorCode.NONE
    partition.opened(0, 10, producers_known_from=2000)
    assert check_first_batch(partition, 1999) == ErrorCode.NONE
    assert check_first_batch(partition, 2000) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize("what", ["a compacted log is copied", "the log restarts at an offset"])
def test_a_log_without_some_batches_may_lack_those_of_any_producer(what: str) -> None:
    partition = leading_partition()
    partition.opened(0, 10, producers_known_from=2000)
    if what == "a compacted log is copied":
        partition.append_fetched(FetchedRun(10, 5), [])
        assert check_first_batch(partition, 2000) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        partition.append_fetched(FetchedRun(11, 5), [])
    else:
        partition.truncated(0, 5)
        assert check_first_batch(partition, 2000) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        partition.truncated(7, 7)
    assert check_first_batch(partition, 2000) == ErrorCode.NONE
