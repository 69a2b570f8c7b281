"""ReplicaManager without a node: image changes, reports of the host, its listeners."""

from __future__ import annotations

from typing import Any, cast

import pytest

from kraftlog.config.layers import ConfigLayers
from kraftlog.effects import (
    DeleteLog,
    LogFailed,
    LogOpened,
    LogStartMoved,
    LogStartNotStored,
    MarkStrays,
    MoveLogStart,
    OpenLog,
)
from kraftlog.errors import ErrorCode
from kraftlog.logstate.epochs import EpochCache
from kraftlog.metadata.image import Image, ReplayError
from kraftlog.metadata.loader import MetadataLoader, MetadataPublisher
from kraftlog.replication.delayed_produce import complete_one
from kraftlog.replication.fetcher import FetchConfig
from kraftlog.replication.partition import Partition
from kraftlog.replication.replica_manager import ReplicaManager
from kraftlog.replication.services import ReplicationConfig, ReplicationServices
from kraftlog.replication.topic_configs import TopicConfigs
from kraftlog.types import Now
from kraftlog.wire.messages.metadata_records import (
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from tests.replication.test_partition import append

ID = b"t" * 16
LOG = "t", 0
NOW = Now(0, 0)
TIMEOUT_MS = 100
LISTENER, MAX_LAG_MS = "PLAINTEXT", 1000


class Slot:
    """In place of a pending response: keeps the result, and whether it was sent."""

    def __init__(self) -> None:
        self.waits = 0
        self.response = self
        self.is_answered = False
        self.error_code = 0
        self.base_offset = self.low_watermark = 7

    def respond(self, _: Any) -> None:
        assert not self.is_answered, "a response is sent once"
        self.is_answered = True


class Logs:
    """The epochs of the one log, as a `LogReader` reports them."""

    def __init__(self) -> None:
        self.epochs = EpochCache()
        self.end = 0

    def latest_epoch(self, _: Any) -> int:
        return self.epochs.latest

    def end_of_epoch(self, _: Any, epoch: int) -> tuple[int, int]:
        return self.epochs.end_offset_for(min(epoch, self.epochs.latest), self.end)

    def producers(self, _: Any) -> None:
        return None


class Replicas:
    """A `ReplicaManager` of broker 1 with its effects, timers, requests and calls of listeners."""

    def __init__(self) -> None:
        self.effects: list[Any] = []
        self.scheduled: list[tuple[Any, int]] = []
        self.failures: list[tuple[Any, Exception]] = []
        self.calls: list[str] = []
        self.loader = MetadataLoader()
        configs = TopicConfigs(self.loader, lambda: ConfigLayers({}))
        self.asked: list[tuple[Any, ...]] = []
        self.now = NOW
        self.logs = Logs()
        self.manager = ReplicaManager(
            ReplicationConfig(LISTENER, lambda: MAX_LAG_MS, -1, FetchConfig(broker_id=1)),
            self.loader,
            configs,
            ReplicationServices(
                config_layers=lambda: ConfigLayers({}),
                logs=cast("Any", self.logs),
                emit=self.effects.append,
                send_fetch=self.effects.append,
                poll_by=lambda _: None,
                schedule=lambda waiter, timeout_ms: self.scheduled.append((waiter, timeout_ms)),
                fail=lambda slot, error: self.failures.append((slot, error)),
                clock=lambda: self.now,
                broker_epoch=lambda: 11,
                is_registered=lambda: True,
                send_to_controller=lambda *request: self.asked.append(request),
            ),
        )
        self.loader.publishers += [configs, self.manager]
        self.manager.listeners.append(self)

    def leads(self, partition: Partition) -> None:
        self.calls.append(f"leads in {partition.leader_epoch}")

    def resigned(self, _: Partition) -> None:
        self.calls.append("resigned")

    def log_failed(self, _: Partition) -> None:
        self.calls.append("log failed")

    def replay(self, *records: Any) -> None:
        for _ in self.loader.replay_in_steps(records):
            pass

    def change(self, **fields: Any) -> None:
        self.replay(PartitionChangeRecord(partition_id=0, topic_id=ID, **fields))

    def taken(self) -> list[Any]:
        taken, self.effects[:] = self.effects[:], []
        return taken

    @property
    def partition(self) -> Partition:
        return self.manager.by_log[LOG]

    def opened(self, end: int = 0) -> Partition:
        self.manager.handle(LogOpened(LOG, ID, 0, end))
        return self.partition

    def appended(self, timeout_ms: int = TIMEOUT_MS) -> Slot:
        """Append a record with acks=all; return its pending response."""
        slot = Slot()
        append(self.partition, 1, self.manager.turn)
        self.manager.wait_for(self.partition, self.partition.end, slot, slot, timeout_ms)
        return slot


def records(replicas: tuple[int, ...] = (1,)) -> tuple[Any, ...]:
    return (
        TopicRecord(name="t", topic_id=ID),
        PartitionRecord(
            partition_id=0,
            topic_id=ID,
            replicas=replicas,
            isr=replicas,
            removing_replicas=(),
            adding_replicas=(),
            leader=replicas[0],
            leader_epoch=3,
            directories=(b"d" * 16,) * len(replicas),
        ),
    )


def leading(replicas: tuple[int, ...] = (1,)) -> Replicas:
    this = Replicas()
    this.manager.open_logs()
    this.replay(*records(replicas))
    this.opened()
    this.taken()
    return this


def test_no_log_is_opened_before_the_registration_is_replayed() -> None:
    this = Replicas()
    other = b"o" * 16
    this.replay(TopicRecord(name="t", topic_id=other), RemoveTopicRecord(topic_id=other))
    this.replay(*records())
    assert (this.taken(), this.manager.partitions) == ([], {})
    this.manager.open_logs()
    opened, strays = this.taken()
    assert (type(opened), opened.log, opened.topic_id) == (OpenLog, LOG, ID)
    assert strays == MarkStrays(frozenset([LOG]), frozenset([other]))
    this.manager.open_logs()
    assert this.taken() == [], "once"


def removed(index: int) -> PartitionChangeRecord:
    return PartitionChangeRecord(partition_id=index, topic_id=ID, removed=True)


def partition_record(index: int, first_leader_epoch: int = 0) -> Any:
    _, record = records()
    return record.replace(
        partition_id=index, leader_epoch=first_leader_epoch, first_leader_epoch=first_leader_epoch
    )


def test_v11_logs_of_partitions_removed_meanwhile_are_deleted() -> None:
    this = Replicas()
    this.replay(*records(), partition_record(1), removed(1))
    this.manager.open_logs()
    assert this.taken()[1:] == [MarkStrays(frozenset([LOG]), frozenset(), frozenset([(ID, 1)]))]


def test_v11_a_partition_added_again_has_a_first_epoch() -> None:
    this = leading()
    topic, first = records()
    this.replay(partition_record(1))
    [opened] = this.taken()
    assert opened.first_leader_epoch == 0
    this.replay(removed(1))
    assert this.taken() == [DeleteLog(("t", 1), ID)]
    code = this.manager.partition("t", b"", 1, by_id=False)
    assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    this.replay(partition_record(1, 4))
    [opened] = this.taken()
    assert (opened.log, opened.first_leader_epoch) == (("t", 1), 4)
    this.loader.install(Image.of([topic, first, partition_record(1, 4)]))
    assert not [it for it in this.taken() if isinstance(it, OpenLog | DeleteLog)], "it is the same"


def test_v11_a_partition_replaced_in_a_snapshot_loses_its_log() -> None:
    """V11: a snapshot shows the removal only by its outcome."""
    this = leading()
    topic, first = records()
    this.replay(partition_record(1))
    [opened] = this.taken()
    before = this.manager.by_log["t", 1]
    this.loader.install(Image.of([topic, first, partition_record(1, 4)]))
    deleted, opened = [it for it in this.taken() if isinstance(it, OpenLog | DeleteLog)]
    assert deleted == DeleteLog(("t", 1), ID)
    assert isinstance(opened, OpenLog)
    assert (opened.log, opened.first_leader_epoch) == (("t", 1), 4)
    assert this.manager.by_log["t", 1] is not before


def test_listeners_are_called_once_the_leaders_log_is_open() -> None:
    this = leading()
    assert (this.partition.online, this.calls) == (True, ["leads in 3"])
    this.change(leader=1)
    this.change(leader=2, replicas=(1, 2), isr=(2,))
    assert this.calls == ["leads in 3", "leads in 4", "resigned"]
    assert this.partition.error_for_request(-1) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_request_finds_its_partition_or_gets_an_error_code() -> None:
    this = leading()
    find = this.manager.partition
    assert find("t", b"", 0, by_id=False) is find("", ID, 0, by_id=True) is this.partition
    assert find("u", b"", 0, by_id=False) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert find("", b"u" * 16, 0, by_id=True) == ErrorCode.UNKNOWN_TOPIC_ID
    assert find("t", b"", 1, by_id=False) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    this.change(replicas=(2,), isr=(2,), leader=2)
    assert find("t", b"", 0, by_id=False) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert this.taken() == [DeleteLog(LOG, ID)]


def test_appends_are_taken_once_and_complete_when_written() -> None:
    this = leading()
    slot = this.appended()
    [write] = this.manager.take_turn()
    assert (write.partition, this.manager.take_turn()) == (this.partition, [])
    later = this.appended()
    this.manager.written(this.partition, 1)
    assert (slot.is_answered, slot.error_code, later.is_answered) == (True, 0, False)


def test_a_failed_log_fails_all_that_waits_for_its_writes() -> None:
    this = leading()
    first = this.appended()
    this.manager.take_turn()
    second = this.appended()
    this.manager.write_failed(this.partition)
    for slot in (first, second):
        assert (slot.is_answered, slot.error_code) == (True, ErrorCode.KAFKA_STORAGE_ERROR)
    assert (this.manager.turn, this.partition.end, this.partition.online) == ([], 0, False)


def test_a_full_disk_undoes_an_append_and_those_after_it() -> None:
    this = leading()
    first = this.appended()
    [write] = this.manager.take_turn()
    second = this.appended()
    this.manager.undo(write)
    for slot in (first, second):
        assert (slot.is_answered, slot.error_code) == (True, ErrorCode.KAFKA_STORAGE_ERROR)
    assert (this.manager.turn, this.partition.end, this.partition.online) == ([], 0, True)


def test_v18_appends_waiting_for_a_flush_survive_a_full_disk() -> None:
    """The partition stays online: it is never half led."""
    this = leading()
    first = this.appended()
    this.manager.take_turn()
    second = this.appended()
    [write] = this.manager.take_turn()
    this.manager.undo(write)
    assert (second.is_answered, second.error_code) == (True, ErrorCode.KAFKA_STORAGE_ERROR)
    assert (first.is_answered, this.partition.end, this.partition.online) == (False, 1, True)
    this.manager.written(this.partition, 1)
    assert (first.is_answered, first.error_code) == (True, 0)


def test_appends_of_a_failed_request_are_undone() -> None:
    this = leading()
    slot = this.appended()
    this.manager.take_back([this.partition])
    assert (slot.is_answered, this.manager.turn, this.partition.online) == (True, [], True)
    earlier = this.appended()
    this.manager.take_turn()
    this.appended()
    this.manager.take_back([this.partition])
    assert (earlier.is_answered, this.partition.end, this.partition.online) == (False, 1, True)


def test_v7_acks_all_waits_for_replicas_up_to_its_timeout() -> None:
    this = leading((1, 2))
    first, second = this.appended(), this.appended()
    this.manager.take_turn()
    this.manager.written(this.partition, 2)
    assert [timeout_ms for _, timeout_ms in this.scheduled] == [TIMEOUT_MS, TIMEOUT_MS]
    this.scheduled[0][0].expire(NOW)
    assert (first.error_code, second.is_answered) == (ErrorCode.REQUEST_TIMED_OUT, False)
    this.change(isr=(1,))
    assert (second.is_answered, second.error_code) == (True, 0)
    this.scheduled[1][0].expire(NOW)


def test_records_are_deleted_once_the_log_start_offset_is_durable() -> None:
    this = leading()
    append(this.partition, 5, this.manager.turn)
    this.manager.take_turn()
    this.manager.written(this.partition, 5)
    slots = [Slot(), Slot()]
    for offset, slot in zip((2, 4), slots, strict=True):
        this.manager.delete_records(this.partition, offset, slot, slot, 0)
    assert this.taken() == [MoveLogStart(LOG, 2), MoveLogStart(LOG, 4)]
    assert (this.partition.start, this.partition.stored_start) == (4, 0)
    this.manager.handle(LogStartMoved(LOG, ID, 2, is_stored=True))
    assert ([slot.is_answered for slot in slots], slots[0].low_watermark) == ([True, False], 2)
    this.manager.handle(LogStartNotStored(LOG, ID))
    assert (slots[1].error_code, slots[1].low_watermark) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)


def test_a_failed_log_is_not_served_and_listeners_are_called() -> None:
    this = leading()
    this.manager.handle(LogFailed(LOG, b"u" * 16, "another topic's of that name, long gone"))
    assert this.partition.online
    this.manager.handle(LogFailed(LOG, ID, "the disk is gone"))
    assert (this.partition.online, this.calls[-1]) == (False, "log failed")


def test_an_exception_in_a_delayed_fetch_fails_only_that_fetch() -> None:
    this = leading()
    looked = []

    class Waiting:
        def __init__(self, error: Exception | None) -> None:
            self.slot = self.error = error

        def try_complete(self, partition: Partition) -> None:
            partition.unwatch(self)
            if self.error is not None:
                raise self.error
            looked.append(partition)

    error_of_ours = ZeroDivisionError("of ours")
    for error in (error_of_ours, None):
        this.partition.watch(Waiting(error))
    this.opened(3)
    assert (this.failures, looked) == ([(error_of_ours, error_of_ours)], [this.partition])


def test_a_snapshot_without_a_topic_deletes_its_log() -> None:
    this = leading()
    slot = this.appended()
    this.loader.install(Image.of([]))
    assert (slot.error_code, slot.base_offset) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert (this.taken(), this.manager.by_log, this.manager.turn) == ([DeleteLog(LOG, ID)], {}, [])
    assert this.calls[-1] == "resigned"


def test_an_exception_in_a_publisher_names_the_publisher() -> None:
    class Failing(MetadataPublisher):
        name = "failing publisher"

        def changed(self, _: Any) -> None:
            raise ZeroDivisionError("of ours")

    this = Replicas()
    this.loader.publishers.append(Failing())
    with pytest.raises(ReplayError, match=r"the failing publisher following TopicRecord") as caught:
        this.replay(*records())
    assert caught.value.record == records()[0]


def test_a_response_is_sent_with_its_last_result() -> None:
    slot = Slot()
    slot.waits = 2
    complete_one(slot)
    assert not slot.is_answered
    complete_one(slot)
    assert slot.is_answered


def test_v10_a_write_to_a_replica_that_moves_away_may_yet_be_committed() -> None:
    """C234: the other replicas may have it: the producer must not take it for refused."""
    this = leading((1, 2))
    slot = this.appended()
    this.manager.take_turn()
    this.change(replicas=(2,), isr=(2,), leader=2)
    assert (slot.is_answered, slot.error_code) == (True, ErrorCode.NOT_LEADER_OR_FOLLOWER)


@pytest.mark.parametrize("replicas", [(1, 2), (2, 1)], ids=["leader", "follower"])
def test_nothing_is_read_from_a_replica_that_was_removed(replicas: tuple[int, ...]) -> None:
    """A fetch that knows the partition would read the log of the next topic of this name."""
    this = leading(replicas)
    partition = this.partition
    assert partition.error_for_request(-1, reads_followers=True) == ErrorCode.NONE
    this.loader.install(Image.of([]))
    assert partition.error_for_request(-1, reads_followers=True) == ErrorCode.NOT_LEADER_OR_FOLLOWER
