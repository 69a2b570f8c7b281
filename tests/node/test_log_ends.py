"""DeleteRecords, OffsetForLeaderEpoch, ListOffsets and DescribeLogDirs."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.metadata.values import NO_LEADER
from kraftlog.node.handlers.list_offsets import EARLIEST, EARLIEST_LOCAL, LATEST
from kraftlog.types import Now
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kraftlog.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from kraftlog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kraftlog.wire.messages.metadata_records import (
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
)
from kraftlog.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kraftlog_simulator.files import Fault
from tests.node.frame_client import FrameClient, configured_host, create_topics, make_host
from tests.node.test_producers import Writer, idempotent_batch
from tests.node.test_requests import batch, fetch, fetched_partition, produce, values_in

if TYPE_CHECKING:
    from tests.virtual_host import VirtualHost


def write_values(host: VirtualHost, count: int) -> VirtualHost:
    for number in range(count):
        assert Writer(host).write(batch(b"%d" % number))[0] == ErrorCode.NONE
    return host


def delete_request(offset: int, topic: str = "demo", index: int = 0) -> DeleteRecordsRequest:
    part = DeleteRecordsPartition(partition_index=index, offset=offset)
    topics = [DeleteRecordsTopic(name=topic, partitions=[part])]
    return DeleteRecordsRequest(topics=topics, timeout_ms=1000)


def delete_records(
    host: VirtualHost, before: int, topic: str = "demo", index: int = 0
) -> tuple[int, int]:
    """Delete the records before this offset; return the error code and the low watermark."""
    response = FrameClient(host).ask(ApiKey.DELETE_RECORDS, 2, delete_request(before, topic, index))
    [result] = response.topics[0].partitions
    return result.error_code, result.low_watermark


def offset_at(host: VirtualHost, timestamp: int, version: int = 7) -> tuple[int, int]:
    """The offset and leader epoch that ListOffsets returns for a timestamp.

    -1 asks for the end of the log, -2 for its start, -3 for the record with the largest timestamp.
    """
    part = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    topics = [ListOffsetsTopic(name="demo", partitions=[part])]
    request = ListOffsetsRequest(replica_id=-1, topics=topics)
    [result] = FrameClient(host).ask(ApiKey.LIST_OFFSETS, version, request).topics[0].partitions
    return result.offset, result.leader_epoch


def fetch_from(host: VirtualHost, offset: int) -> Any:
    return FrameClient(host).ask(ApiKey.FETCH, 12, fetch(offset))


def test_deleted_records_are_gone_and_the_others_stay() -> None:
    host = write_values(make_host(), 5)
    assert delete_records(host, 3) == (0, 3)
    assert offset_at(host, -2)[0] == 3
    assert fetched_partition(fetch_from(host, 2)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    response = fetch_from(host, 3)
    assert values_in(response) == [b"3", b"4"]
    assert fetched_partition(response).log_start_offset == 3
    assert delete_records(host, 1) == (0, 3), "the log already starts at 3"
    assert delete_records(host, -1) == (0, 5)
    assert Writer(host).write(batch(b"5")) == (0, 5)
    assert values_in(fetch_from(host, 5)) == [b"5"]


@pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
def test_deleted_records_stay_deleted_after_a_restart(clean: bool) -> None:
    host = write_values(make_host(), 5)
    assert delete_records(host, 3) == (0, 3)
    if clean:
        host.runner.close()
    else:
        host.files.kill()
    restarted = make_host(host.files)
    assert offset_at(restarted, -2)[0] == 3
    assert values_in(fetch_from(restarted, 3)) == [b"3", b"4"]


def test_delete_records_responds_once_the_new_log_start_is_durable() -> None:
    """A second request that arrives meanwhile also waits, and is stored by the next write."""
    host = write_values(make_host(), 5)
    client = FrameClient(host)
    client.send(ApiKey.DELETE_RECORDS, 2, delete_request(2))
    host.one_turn()
    client.send(ApiKey.DELETE_RECORDS, 2, delete_request(4))
    host.one_turn()
    assert client.take() == []
    host.turn()
    low_watermarks = [
        response.topics[0].partitions[0].low_watermark for _, response in client.take()
    ]
    assert low_watermarks == [2, 4]


def test_a_timeout_of_0_does_not_limit_the_disk_write() -> None:
    """The timeout limits the wait for other replicas, and there are none."""
    host = write_values(make_host(), 5)
    client = FrameClient(host)
    request = delete_request(2)
    request.timeout_ms = 0
    client.send(ApiKey.DELETE_RECORDS, 2, request)
    host.one_turn()
    host.now = Now(5000, 5000)
    host.one_turn()
    assert client.take() == []
    assert offset_at(host, -2)[0] == 2, "readers see the new start at once"
    host.turn()
    [(_, response)] = client.take()
    [result] = response.topics[0].partitions
    assert (result.error_code, result.low_watermark) == (ErrorCode.NONE, 2)


@pytest.mark.parametrize(
    ("offset", "topic", "index", "code"),
    [
        (6, "demo", 0, ErrorCode.OFFSET_OUT_OF_RANGE),
        (-2, "demo", 0, ErrorCode.OFFSET_OUT_OF_RANGE),
        (1, "nobody", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (1, "demo", 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (0, "__consumer_offsets", 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
        (0, "kept", 0, ErrorCode.POLICY_VIOLATION),
    ],
)
def test_an_invalid_delete_records_is_refused(
    offset: int, topic: str, index: int, code: int
) -> None:
    host = write_values(make_host(demo=1, __consumer_offsets=1), 5)
    create_topics(host, {"kept": 1}, {"cleanup.policy": "compact"})
    assert delete_records(host, offset, topic, index) == (code, -1)
    assert offset_at(host, -2)[0] == 0


def test_a_deletion_that_cannot_be_stored_is_a_storage_error() -> None:
    host = write_values(make_host(), 5)
    host.pass_time(1)
    host.files.faults.append(Fault("sync_folder", times=10))
    assert delete_records(host, 3) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)


def test_a_deletion_on_a_full_disk_is_an_error_that_can_be_retried() -> None:
    """The log stays online, and the node retries only at the next checkpoint."""
    host = write_values(make_host(), 5)
    host.pass_time(1)
    no_room = Fault("pwritev", errno.ENOSPC, "log-start-offset", times=2)
    host.files.faults.append(no_room)
    lines_before = len(host.log_lines)
    for _ in range(2):
        assert delete_records(host, 3) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
        assert not host.runner.has_work
    assert len(host.log_lines) == lines_before + 2
    assert delete_records(host, 3) == (0, 3)
    assert values_in(fetch_from(host, 3)) == [b"3", b"4"]


@pytest.mark.parametrize("other", ["demo", "other"])
def test_a_deletion_that_fails_on_disk_is_reported_to_all_waiters(other: str) -> None:
    """A request that arrived during the write fails, too, whether for the same log or another."""
    host = write_values(make_host(demo=1, other=1), 5)
    FrameClient(host).ask(ApiKey.PRODUCE, 9, produce(batch(*[b"x"] * 5), topic="other"))
    host.pass_time(1)
    host.files.faults.append(Fault("pwritev", errno.EIO, "log-start-offset"))
    client = FrameClient(host)
    for offset, topic in ((2, "demo"), (4, other)):
        client.send(ApiKey.DELETE_RECORDS, 2, delete_request(offset, topic))
        host.one_turn()
    host.turn()
    results = [response.topics[0].partitions[0] for _, response in client.take()]
    expected = (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert [(result.error_code, result.low_watermark) for result in results] == [expected] * 2


def test_a_waiting_deletion_fails_when_topic_or_leader_is_lost() -> None:
    host = write_values(make_host(), 5)
    client = FrameClient(host)
    for code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        replay_leader(host, 4, leader=1)
        client.send(ApiKey.DELETE_RECORDS, 2, delete_request(2))
        if code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            replay_leader(host, 3, leader=NO_LEADER)
        else:
            remove_topic(host)
        [(_, response)] = client.take()
        [result] = response.topics[0].partitions
        assert (result.error_code, result.low_watermark) == (code, -1)


def remove_topic(host: VirtualHost) -> None:
    [topic_id] = host.node.image.topics
    host.node.replay([RemoveTopicRecord(topic_id=topic_id)], 0)


def test_producers_are_kept_when_all_their_records_are_deleted() -> None:
    host = make_host()
    writer = Writer(host)
    for sequence in range(3):
        writer.write(idempotent_batch(sequence))
    assert delete_records(host, -1) == (0, 3)
    assert writer.write(idempotent_batch(2)) == (0, 2)
    assert writer.write(idempotent_batch(5)) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    host.files.kill()
    restarted = Writer(make_host(host.files))
    assert restarted.write(idempotent_batch(2)) == (0, 2)
    assert restarted.write(idempotent_batch(3)) == (0, 3)


def lead_in(host: VirtualHost, epoch: int, leader: int = 1) -> None:
    """Elect a leader of `demo` in this epoch."""
    replay_leader(host, epoch, leader)
    host.turn()


def replay_leader(host: VirtualHost, epoch: int, leader: int) -> None:
    """Replay a leader change, without the turn that applies its effects."""
    [key] = host.node.image.partitions
    record = PartitionRecord(
        partition_id=0,
        topic_id=key[0],
        replicas=(1,),
        isr=(1,),
        removing_replicas=(),
        adding_replicas=(),
        leader=leader,
        leader_epoch=epoch,
    )
    host.node.replay([record], 0)


def epoch_end(host: VirtualHost, epoch: int, current: int = -1) -> tuple[int, int, int]:
    """What OffsetForLeaderEpoch returns: error code, leader epoch and end offset."""
    part = OffsetForLeaderPartition(partition=0, current_leader_epoch=current, leader_epoch=epoch)
    topics = [OffsetForLeaderTopic(topic="demo", partitions=[part])]
    request = OffsetForLeaderEpochRequest(replica_id=-1, topics=topics)
    [result] = (
        FrameClient(host).ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, request).topics[0].partitions
    )
    return result.error_code, result.leader_epoch, result.end_offset


def test_epochs_end_where_the_next_one_begins() -> None:
    """C147, C148, C151, C155: an epoch without records gets the end of the last one before it.

    Future epochs have no end.
    """
    host = write_values(make_host(), 2)
    for epoch in (3, 5, 9):
        lead_in(host, epoch)
        if epoch != 9:
            write_values(host, epoch)
    ends = {epoch: epoch_end(host, epoch)[1:] for epoch in (-1, 0, 1, 3, 4, 5, 6, 9, 10)}
    assert ends == {
        -1: (-1, -1),
        0: (0, 2),
        1: (0, 2),
        3: (3, 5),
        4: (3, 5),
        5: (5, 10),
        6: (5, 10),
        9: (9, 10),
        10: (-1, -1),
    }
    assert epoch_end(host, 5, current=9)[0] == ErrorCode.NONE
    assert epoch_end(host, 5, current=5)[0] == ErrorCode.FENCED_LEADER_EPOCH
    assert epoch_end(host, 5, current=10)[0] == ErrorCode.UNKNOWN_LEADER_EPOCH
    lead_in(host, 10, leader=NO_LEADER)
    assert epoch_end(host, 5)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_list_offsets_returns_the_leader_epoch_of_the_record() -> None:
    host = make_host()
    assert offset_at(host, -2) == offset_at(host, -1) == (0, 0)
    Writer(host).write(batch(b"old", timestamp=1000))
    lead_in(host, 4)
    Writer(host).write(batch(b"new", timestamp=2000))
    assert offset_at(host, -2) == (0, 0)
    assert offset_at(host, 1000) == (0, 0)
    assert offset_at(host, 1001) == (1, 4)
    assert offset_at(host, -3) == (1, 4)
    assert offset_at(host, -1) == (2, 4)


def test_the_log_start_has_an_epoch_that_every_later_leader_knows() -> None:
    """V6, KIP-320: not the current one, with which a consumer may count as diverged later.

    A new leader has a record of epoch 0 that is not committed yet, so that the log starts at the
    high watermark. If a leader without records of epoch 2 follows, a consumer that had got this
    epoch would have lost its position.
    """
    host = make_host()
    [key] = host.node.image.partitions
    change = PartitionChangeRecord(partition_id=0, topic_id=key[0], replicas=(1, 2), isr=(1, 2))
    host.node.replay([change], 100)
    Writer(host).write(batch(b"a"), acks=1)
    for leader in (NO_LEADER, 1):
        host.node.replay([change.replace(replicas=None, isr=None, leader=leader)], 101)
    host.turn()
    [partition] = host.node.replica_manager.partitions.values()
    assert (partition.leader_epoch, partition.high_watermark, partition.end) == (2, 0, 1)
    assert offset_at(host, EARLIEST) == (0, 0)
    assert offset_at(host, EARLIEST_LOCAL, version=8) == (0, 0)


def test_the_start_of_an_emptied_log_has_the_last_records_epoch() -> None:
    """V6, KIP-320: see above; of a log that never had a record, the partition's first epoch."""
    host = make_host()
    lead_in(host, 3)
    assert offset_at(host, EARLIEST) == (0, 0)
    write_values(host, 2)
    lead_in(host, 5)
    assert delete_records(host, -1) == (0, 2)
    assert offset_at(host, EARLIEST) == (2, 3)
    assert offset_at(host, LATEST) == (2, 5)


def list_offset(host: VirtualHost, timestamp: int, version: int = 7, epoch: int = -1) -> Any:
    """The result of ListOffsets for the only partition of `demo`."""
    part = ListOffsetsPartition(partition_index=0, timestamp=timestamp, current_leader_epoch=epoch)
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name="demo", partitions=[part])]
    )
    [result] = FrameClient(host).ask(ApiKey.LIST_OFFSETS, version, request).topics[0].partitions
    return result


@pytest.mark.parametrize(
    ("epoch", "code"),
    [(3, ErrorCode.NONE), (2, ErrorCode.FENCED_LEADER_EPOCH), (4, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_list_offsets_with_another_leader_epoch_is_refused(epoch: int, code: int) -> None:
    """C154: an older epoch is fenced, a newer one is unknown."""
    host = write_values(make_host(), 2)
    lead_in(host, 3)
    for timestamp in (-1, -2, 0):
        assert list_offset(host, timestamp, epoch=epoch).error_code == code


def test_a_new_leader_returns_its_end_once_its_epoch_start_is_committed() -> None:
    """C158, KIP-207: the end must not fall below one that the previous leader may have returned."""
    host = write_values(make_host(), 2)
    [key] = host.node.image.partitions
    change = PartitionChangeRecord(partition_id=0, topic_id=key[0], replicas=(1, 2), isr=(1, 2))
    host.node.replay([change], 100)
    Writer(host).write(batch(b"a", timestamp=7000), acks=1)
    for leader in (NO_LEADER, 1):
        host.node.replay([change.replace(replicas=None, isr=None, leader=leader)], 101)
    host.turn()
    assert [list_offset(host, it).error_code for it in (-1, 7000)] == [
        ErrorCode.OFFSET_NOT_AVAILABLE
    ] * 2
    assert list_offset(host, -1, version=4).error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert (list_offset(host, -2).error_code, list_offset(host, -2).offset) == (ErrorCode.NONE, 0)
    host.node.replay([change.replace(replicas=None, isr=(1,))], 102)
    assert (list_offset(host, -1).error_code, list_offset(host, -1).offset) == (ErrorCode.NONE, 3)
    assert list_offset(host, 7000).offset == 2


def log_dirs(host: VirtualHost, partitions: dict[str, list[int]] | None = None) -> Any:
    topics = (
        None
        if partitions is None
        else [
            DescribableLogDirTopic(topic=name, partitions=indexes)
            for name, indexes in partitions.items()
        ]
    )
    response = FrameClient(host).ask(
        ApiKey.DESCRIBE_LOG_DIRS, 4, DescribeLogDirsRequest(topics=topics)
    )
    [result] = response.results
    return result


def sizes(result: Any) -> dict[tuple[str, int], int]:
    return {
        (topic.name, part.partition_index): part.partition_size
        for topic in result.topics
        for part in topic.partitions
    }


def test_the_log_directory_is_described() -> None:
    host = make_host(demo=1, more=2)
    raw = batch(b"x" * 100)
    Writer(host).write(raw)
    host.files.capacity_bytes = host.files.used_bytes() + 1000
    result = log_dirs(host)
    assert (result.error_code, result.log_dir) == (ErrorCode.NONE, "data")
    assert sizes(result) == {("demo", 0): len(raw), ("more", 0): 0, ("more", 1): 0}
    assert (result.total_bytes, result.usable_bytes) == (host.files.capacity_bytes, 1000)
    assert sizes(log_dirs(host, {"more": [1, 9], "nobody": [0]})) == {("more", 1): 0}


def test_the_lag_of_a_follower_is_described() -> None:
    host = make_host()
    Writer(host).write(batch(b"x"))
    lead_in(host, 4, leader=NO_LEADER)
    host.node.replica_manager.by_log["demo", 0].note_leader_offsets(5, 0)
    [topic] = log_dirs(host).topics
    assert [part.offset_lag for part in topic.partitions] == [4]


def test_a_failed_directory_is_described_as_failed() -> None:
    host = configured_host()
    host.files.faults.append(Fault("pwritev"))
    Writer(host).write(batch(b"lost"))
    assert log_dirs(host).error_code == ErrorCode.KAFKA_STORAGE_ERROR
