"""`ReplicaManager` without a node: image changes, reports of the host, calls of listeners."""

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
from kraftlog.replication.delayed_produce import complete_wait
from kraftlog.replication.fetcher import FetchConfig
from kraftlog.replication.partition import Partition
from kraftlog.replication.replica_manager import ReplicaManager
from kraftlog.replication.replicating_node import ReplicatingNode
from kraftlog.replication.services import ReplicationConfig
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


class FakeResponse:
    """Stands in for a pending response: keeps the result, and whether it was sent."""

    def __init__(self) -> None:
        self.waits = 0
        self.response = self
        self.is_answered = False
        self.error_code = 0
        self.base_offset = self.low_watermark = 7

    def respond(self, _: Any) -> None:
        assert not self.is_answered, "a second response to the request"
        self.is_answered = True


class Logs:
    """A `LogReader` that knows the epochs and the end of the one log."""

    directories = ()

    def __init__(self) -> None:
        self.epochs = EpochCache()
        self.end = 0

    def latest_epoch(self, _: Any) -> int:
        return self.epochs.latest

    def end_of_epoch(self, _: Any, epoch: int) -> tuple[int, int]:
        return self.epochs.end_offset_for(min(epoch, self.epochs.latest), self.end)

    def producers(self, _: Any) -> None:
        return None


class BrokerHarness(ReplicatingNode):
    """A `ReplicaManager` of broker 1 with its effects, timers, requests and calls of listeners."""

    def __init__(self) -> None:
        self.effects: list[Any] = []
        self.scheduled: list[tuple[Any, int]] = []
        self.failures: list[tuple[Any, Exception]] = []
        self.calls: list[str] = []
        self.loader = MetadataLoader()
        configs = TopicConfigs(self.loader, self.config_layers)
        self.controller_requests: list[tuple[Any, ...]] = []
        self.now = NOW
        self.logs = cast("Any", Logs())
        self.manager = ReplicaManager(
            ReplicationConfig(LISTENER, lambda: MAX_LAG_MS, -1, FetchConfig(broker_id=1)),
            self.loader,
            configs,
            self,
        )
        self.loader.publishers += [configs, self.manager]
        self.manager.listeners.append(self)

    def config_layers(self) -> ConfigLayers:
        return ConfigLayers({})

    def emit(self, effect: Any) -> None:
        self.effects.append(effect)

    def send_fetch(self, effect: Any) -> None:
        self.effects.append(effect)

    def poll_by(self, due_ms: int) -> None:
        pass

    def wait_for_ms(self, operation: Any, timeout_ms: int) -> None:
        self.scheduled.append((operation, timeout_ms))

    def fail(self, pending: Any, error: Exception) -> None:
        self.failures.append((pending, error))

    def broker_epoch(self) -> int:
        return 11

    def is_registered(self) -> bool:
        return True

    def send_to_controller(self, *request: Any) -> None:
        self.controller_requests.append(request)

    # The listener --------------------------------------------------------------------------------

    def became_leader(self, partition: Partition) -> None:
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

    def take_effects(self) -> list[Any]:
        effects, self.effects[:] = self.effects[:], []
        return effects

    @property
    def partition(self) -> Partition:
        return self.manager.by_log[LOG]

    def open_log(self, end: int = 0) -> Partition:
        self.manager.handle(LogOpened(LOG, ID, 0, end))
        return self.partition

    def append_with_acks_all(self, timeout_ms: int = TIMEOUT_MS) -> FakeResponse:
        """Append a record with acks=all; return its pending response."""
        pending = FakeResponse()
        append(self.partition, 1, self.manager.turn)
        self.manager.wait_for(self.partition, self.partition.end, pending, pending, timeout_ms)
        return pending


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


def online_leader(replicas: tuple[int, ...] = (1,)) -> BrokerHarness:
    broker = BrokerHarness()
    broker.manager.open_logs()
    broker.replay(*records(replicas))
    broker.open_log()
    broker.take_effects()
    return broker


def test_no_log_is_opened_before_the_registration_is_replayed() -> None:
    broker = BrokerHarness()
    other = b"o" * 16
    broker.replay(TopicRecord(name="t", topic_id=other), RemoveTopicRecord(topic_id=other))
    broker.replay(*records())
    assert (broker.take_effects(), broker.manager.partitions) == ([], {})
    broker.manager.open_logs()
    open_log, strays = broker.take_effects()
    assert (type(open_log), open_log.log, open_log.topic_id) == (OpenLog, LOG, ID)
    assert strays == MarkStrays(frozenset([LOG]), frozenset([other]))
    broker.manager.open_logs()
    assert broker.take_effects() == [], "once"


def removed(index: int) -> PartitionChangeRecord:
    return PartitionChangeRecord(partition_id=index, topic_id=ID, removed=True)


def partition_record(index: int, first_leader_epoch: int = 0) -> Any:
    _, record = records()
    return record.replace(
        partition_id=index, leader_epoch=first_leader_epoch, first_leader_epoch=first_leader_epoch
    )


def test_v11_logs_of_partitions_removed_meanwhile_are_deleted() -> None:
    broker = BrokerHarness()
    broker.replay(*records(), partition_record(1), removed(1))
    broker.manager.open_logs()
    assert broker.take_effects()[1:] == [
        MarkStrays(frozenset([LOG]), frozenset(), frozenset([(ID, 1)]))
    ]


def test_v11_a_partition_added_again_has_a_first_epoch() -> None:
    broker = online_leader()
    topic, first = records()
    broker.replay(partition_record(1))
    [open_log] = broker.take_effects()
    assert open_log.first_leader_epoch == 0
    broker.replay(removed(1))
    assert broker.take_effects() == [DeleteLog(("t", 1), ID)]
    code = broker.manager.partition("t", b"", 1, by_id=False)
    assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    broker.replay(partition_record(1, 4))
    [open_log] = broker.take_effects()
    assert (open_log.log, open_log.first_leader_epoch) == (("t", 1), 4)
    broker.loader.install(Image.of([topic, first, partition_record(1, 4)]))
    assert not [
        effect for effect in broker.take_effects() if isinstance(effect, OpenLog | DeleteLog)
    ], "the snapshot has the same partition"


def test_v11_a_partition_replaced_in_a_snapshot_loses_its_log() -> None:
    """V11: a snapshot shows the removal only by the higher first leader epoch."""
    broker = online_leader()
    topic, first = records()
    broker.replay(partition_record(1))
    [open_log] = broker.take_effects()
    before = broker.manager.by_log["t", 1]
    broker.loader.install(Image.of([topic, first, partition_record(1, 4)]))
    deleted, open_log = [
        effect for effect in broker.take_effects() if isinstance(effect, OpenLog | DeleteLog)
    ]
    assert deleted == DeleteLog(("t", 1), ID)
    assert isinstance(open_log, OpenLog)
    assert (open_log.log, open_log.first_leader_epoch) == (("t", 1), 4)
    assert broker.manager.by_log["t", 1] is not before


def test_listeners_are_called_once_the_leaders_log_is_open() -> None:
    broker = online_leader()
    assert (broker.partition.online, broker.calls) == (True, ["leads in 3"])
    broker.change(leader=1)
    broker.change(leader=2, replicas=(1, 2), isr=(2,))
    assert broker.calls == ["leads in 3", "leads in 4", "resigned"]
    assert broker.partition.error_for_request(-1) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_request_finds_its_partition_or_gets_an_error_code() -> None:
    broker = online_leader()
    find = broker.manager.partition
    assert find("t", b"", 0, by_id=False) is find("", ID, 0, by_id=True) is broker.partition
    assert find("u", b"", 0, by_id=False) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert find("", b"u" * 16, 0, by_id=True) == ErrorCode.UNKNOWN_TOPIC_ID
    assert find("t", b"", 1, by_id=False) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    broker.change(replicas=(2,), isr=(2,), leader=2)
    assert find("t", b"", 0, by_id=False) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert broker.take_effects() == [DeleteLog(LOG, ID)]


def test_appends_are_taken_once_and_complete_when_written() -> None:
    broker = online_leader()
    pending = broker.append_with_acks_all()
    [write] = broker.manager.take_turn()
    assert (write.partition, broker.manager.take_turn()) == (broker.partition, [])
    later = broker.append_with_acks_all()
    broker.manager.written(broker.partition, 1)
    assert (pending.is_answered, pending.error_code, later.is_answered) == (True, 0, False)


def test_a_failed_log_fails_all_that_waits_for_its_writes() -> None:
    broker = online_leader()
    first = broker.append_with_acks_all()
    broker.manager.take_turn()
    second = broker.append_with_acks_all()
    broker.manager.write_failed(broker.partition)
    for pending in (first, second):
        assert (pending.is_answered, pending.error_code) == (True, ErrorCode.KAFKA_STORAGE_ERROR)
    assert (
        broker.manager.turn,
        broker.partition.end,
        broker.partition.online,
    ) == ([], 0, False)


def test_a_full_disk_undoes_an_append_and_those_after_it() -> None:
    broker = online_leader()
    first = broker.append_with_acks_all()
    [write] = broker.manager.take_turn()
    second = broker.append_with_acks_all()
    broker.manager.undo(write)
    for pending in (first, second):
        assert (pending.is_answered, pending.error_code) == (True, ErrorCode.KAFKA_STORAGE_ERROR)
    assert (
        broker.manager.turn,
        broker.partition.end,
        broker.partition.online,
    ) == ([], 0, True)


def test_v18_appends_waiting_for_a_flush_survive_a_full_disk() -> None:
    """The partition stays online, and the first append completes once it is flushed."""
    broker = online_leader()
    first = broker.append_with_acks_all()
    broker.manager.take_turn()
    second = broker.append_with_acks_all()
    [write] = broker.manager.take_turn()
    broker.manager.undo(write)
    assert (second.is_answered, second.error_code) == (True, ErrorCode.KAFKA_STORAGE_ERROR)
    assert (first.is_answered, broker.partition.end, broker.partition.online) == (
        False,
        1,
        True,
    )
    broker.manager.written(broker.partition, 1)
    assert (first.is_answered, first.error_code) == (True, 0)


def test_appends_of_a_failed_request_are_undone() -> None:
    broker = online_leader()
    pending = broker.append_with_acks_all()
    broker.manager.take_back([broker.partition])
    assert (pending.is_answered, broker.manager.turn, broker.partition.online) == (
        True,
        [],
        True,
    )
    earlier = broker.append_with_acks_all()
    broker.manager.take_turn()
    broker.append_with_acks_all()
    broker.manager.take_back([broker.partition])
    assert (
        earlier.is_answered,
        broker.partition.end,
        broker.partition.online,
    ) == (False, 1, True)


def test_v7_acks_all_waits_for_replicas_up_to_its_timeout() -> None:
    broker = online_leader((1, 2))
    first, second = broker.append_with_acks_all(), broker.append_with_acks_all()
    broker.manager.take_turn()
    broker.manager.written(broker.partition, 2)
    assert [timeout_ms for _, timeout_ms in broker.scheduled] == [TIMEOUT_MS, TIMEOUT_MS]
    broker.scheduled[0][0].expire(NOW)
    assert (first.error_code, second.is_answered) == (ErrorCode.REQUEST_TIMED_OUT, False)
    broker.change(isr=(1,))
    assert (second.is_answered, second.error_code) == (True, 0)
    broker.scheduled[1][0].expire(NOW)


def test_records_are_deleted_once_the_log_start_offset_is_durable() -> None:
    broker = online_leader()
    append(broker.partition, 5, broker.manager.turn)
    broker.manager.take_turn()
    broker.manager.written(broker.partition, 5)
    responses = [FakeResponse(), FakeResponse()]
    for offset, pending in zip((2, 4), responses, strict=True):
        broker.manager.delete_records(broker.partition, offset, pending, pending, 0)
    assert broker.take_effects() == [MoveLogStart(LOG, 2), MoveLogStart(LOG, 4)]
    assert (broker.partition.start, broker.partition.stored_start) == (4, 0)
    broker.manager.handle(LogStartMoved(LOG, ID, 2, is_stored=True))
    assert ([pending.is_answered for pending in responses], responses[0].low_watermark) == (
        [True, False],
        2,
    )
    broker.manager.handle(LogStartNotStored(LOG, ID))
    assert (responses[1].error_code, responses[1].low_watermark) == (
        ErrorCode.KAFKA_STORAGE_ERROR,
        -1,
    )


def test_a_failed_log_is_not_served_and_listeners_are_called() -> None:
    broker = online_leader()
    broker.manager.handle(LogFailed(LOG, b"u" * 16, "the log of a deleted topic of that name"))
    assert broker.partition.online
    broker.manager.handle(LogFailed(LOG, ID, "the disk is gone"))
    assert (broker.partition.online, broker.calls[-1]) == (False, "log failed")


def test_an_exception_in_a_delayed_fetch_fails_only_that_fetch() -> None:
    broker = online_leader()
    completed = []

    class WaitingFetch:
        def __init__(self, error: Exception | None) -> None:
            self.pending = self.error = error

        def try_complete(self, partition: Partition) -> None:
            partition.unwatch(self)
            if self.error is not None:
                raise self.error
            completed.append(partition)

        def role_changed(self, partition: Partition) -> None:
            self.try_complete(partition)

    error_of_ours = ZeroDivisionError("of ours")
    for error in (error_of_ours, None):
        broker.partition.watch(WaitingFetch(error))
    broker.open_log(3)
    assert (broker.failures, completed) == (
        [(error_of_ours, error_of_ours)],
        [broker.partition],
    )


def test_a_snapshot_without_a_topic_deletes_its_log() -> None:
    broker = online_leader()
    pending = broker.append_with_acks_all()
    broker.loader.install(Image.of([]))
    assert (pending.error_code, pending.base_offset) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert (
        broker.take_effects(),
        broker.manager.by_log,
        broker.manager.turn,
    ) == ([DeleteLog(LOG, ID)], {}, [])
    assert broker.calls[-1] == "resigned"


def test_an_exception_in_a_publisher_names_the_publisher() -> None:
    class Failing(MetadataPublisher):
        name = "failing publisher"

        def changed(self, _: Any) -> None:
            raise ZeroDivisionError("of ours")

    broker = BrokerHarness()
    broker.loader.publishers.append(Failing())
    with pytest.raises(ReplayError, match=r"the failing publisher following TopicRecord") as caught:
        broker.replay(*records())
    assert caught.value.record == records()[0]


def test_a_response_is_sent_with_its_last_result() -> None:
    pending = FakeResponse()
    pending.waits = 2
    complete_wait(pending)
    assert not pending.is_answered
    complete_wait(pending)
    assert pending.is_answered


def test_v10_pending_write_to_a_replica_that_moves_away_gets_not_leader() -> None:
    """C234: other replicas may have the record, so the error must not say that it is refused."""
    broker = online_leader((1, 2))
    pending = broker.append_with_acks_all()
    broker.manager.take_turn()
    broker.change(replicas=(2,), isr=(2,), leader=2)
    assert (pending.is_answered, pending.error_code) == (True, ErrorCode.NOT_LEADER_OR_FOLLOWER)


@pytest.mark.parametrize("replicas", [(1, 2), (2, 1)], ids=["leader", "follower"])
def test_nothing_is_read_from_a_replica_that_was_removed(replicas: tuple[int, ...]) -> None:
    """A waiting fetch that refers to it would read the log of the next topic of this name."""
    broker = online_leader(replicas)
    partition = broker.partition
    assert partition.error_for_request(-1, reads_followers=True) == ErrorCode.NONE
    broker.loader.install(Image.of([]))
    assert partition.error_for_request(-1, reads_followers=True) == ErrorCode.NOT_LEADER_OR_FOLLOWER
