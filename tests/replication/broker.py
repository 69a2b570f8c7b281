"""A broker with logs in memory: a replica manager, and the host that it needs."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, cast

from kraftlog.config.keys import BROKER
from kraftlog.config.layers import ConfigLayers
from kraftlog.effects import (
    DeleteLog,
    LogOpened,
    LogStartMoved,
    LogTruncated,
    MoveLogStart,
    OpenLog,
    SendRequest,
    TruncatePartition,
)
from kraftlog.errors import ErrorCode
from kraftlog.metadata.loader import MetadataLoader
from kraftlog.node.client_quotas import ClientQuotas
from kraftlog.node.fetch.handler import fetch_topics
from kraftlog.node.fetch_sessions import FINAL_EPOCH, NO_SESSION, FetchSessions
from kraftlog.records.header import read_header
from kraftlog.replication.fetcher import FetchConfig
from kraftlog.replication.replica_manager import ReplicaManager
from kraftlog.replication.replicating_node import ReplicatingNode
from kraftlog.replication.services import ReplicationConfig
from kraftlog.replication.topic_configs import TopicConfigs
from kraftlog.types import Now
from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.replication.memory_log import MemoryLog, MemoryLogs, make_batch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraftlog.replication.partition import Partition, PartitionAppend
    from tests.replication.cluster import Cluster

TOPIC_ID = b"t" * 16
LOG = "t", 0
LISTENER = "PLAINTEXT"
MAX_LAG_MS, MAX_WAIT_MS, TIMEOUT_MS = 10_000, 500, 30_000
TOPIC_RESOURCE = 2
MAX_RECORDS = 1 << 30
LATEST_FETCH_VERSION = APIS[ApiKey.FETCH].last


class PendingResponse:
    """A pending response to Produce or DeleteRecords."""

    def __init__(self) -> None:
        self.waits = 0
        self.response = self
        self.is_answered = False
        self.error_code = 0
        self.base_offset = self.low_watermark = 0

    def respond(self, _: Any) -> None:
        assert not self.is_answered, "a second response to the request"
        self.is_answered = True

    @property
    def outcome(self) -> int | None:
        """The error code of the response; None while it is pending."""
        return self.error_code if self.is_answered else None


class PendingFetch:
    """Stands in for a Fetch request's connection and for its pending response."""

    serves = 0
    listener_name = LISTENER
    takes_encoded = False

    def __init__(self, version: int) -> None:
        self.version = version
        self.connection = self
        self.response: Any = None
        self.waiter: Any = None

    def respond(self, response: Any) -> None:
        assert self.response is None, "a second response to the request"
        self.response = response

    def respond_in_steps(self, response: Any, _: int) -> Iterator[int]:
        self.respond(response)
        yield 1


class Sliced:
    """Stands in for the node's sliced work, and runs all slices at once."""

    def run(self, _: PendingFetch, steps: Iterator[int], __: Any = None) -> None:
        for _cost in steps:
            pass


class FetchInFlight:
    """A follower's Fetch request to its leader, and the response once there is one."""

    def __init__(self, follower: Broker, effect: SendRequest) -> None:
        self.follower, self.effect = follower, effect
        self.pending: PendingFetch | None = None

    @property
    def request(self) -> Any:
        return self.effect.request

    @property
    def response(self) -> Any:
        return None if self.pending is None else self.pending.response


class Broker(ReplicatingNode):
    """A broker's replica manager, and the host that it needs."""

    logs: MemoryLogs  # type: ignore[assignment]  # it has what replication uses

    def __init__(self, cluster: Cluster, broker_id: int, epoch: int, logs: MemoryLogs) -> None:
        self.cluster = cluster
        self.id = broker_id
        self.epoch = epoch
        self.logs = logs
        self.effects: list[Any] = []
        self.delayed: list[tuple[int, Any]] = []
        #: When the replica manager asked to be polled (`poll_by`).
        self.poll_deadlines: list[int] = []
        self.isr_requests: list[tuple[Any, Any]] = []
        #: The AssignReplicasToDirs requests; none gets a response.
        self.directory_requests: list[Any] = []
        #: What the replica manager has logged.
        self.lines: list[str] = []
        #: How many records of the metadata log the broker has replayed.
        self.replayed = 0
        self.holds_writes = self.is_full = self.holds_truncations = False
        self.unwritten: list[tuple[MemoryLog, Partition, int]] = []
        self.untruncated: list[TruncatePartition] = []
        #: The offsets that the log was truncated to.
        self.truncations: list[int] = []
        self.loader = MetadataLoader()
        self.fetch_config = FetchConfig(
            broker_id=broker_id, partition_max_bytes=cluster.partition_max_bytes
        )
        configs = TopicConfigs(self.loader, self.config_layers)
        self.replica_manager = ReplicaManager(
            ReplicationConfig(
                LISTENER,
                lambda: MAX_LAG_MS,
                cluster.max_lag_bytes,
                self.fetch_config,
                selects_by_rack=bool(cluster.racks),
            ),
            self.loader,
            configs,
            self,
        )
        self.loader.publishers += [configs, self.replica_manager]
        # What the Fetch handler needs of a node.
        self.client_quotas = ClientQuotas(
            (11, 1000), (11, 1000), self.loader, lambda: self.now, self.wait_for_ms
        )
        self.fetch_sessions = FetchSessions(10, Random(broker_id))
        self.sliced = Sliced()
        self.max_fetch_bytes = 1 << 30
        self.needs_poll = False

    # The node, for the replica manager -----------------------------------------------------------

    def config_layers(self) -> ConfigLayers:
        return ConfigLayers({}, broker=self.image.config(BROKER, str(self.id)))

    def emit(self, effect: Any) -> None:
        self.effects.append(effect)

    def send_fetch(self, effect: Any) -> None:
        self.effects.append(effect)

    def poll_by(self, due_ms: int) -> None:
        self.poll_deadlines.append(due_ms)

    def wait_for_ms(self, operation: Any, timeout_ms: int) -> None:
        self.delayed.append((self.now.monotonic_ms + timeout_ms, operation))

    def fail(self, _: Any, error: Exception) -> None:
        raise error

    def broker_epoch(self) -> int:
        return self.epoch

    def is_registered(self) -> bool:
        broker = self.loader.image.brokers.get(self.id)
        return broker is not None and broker.epoch == self.epoch

    def send_to_controller(self, api_key: int, _: int, request: Any, on_done: Any, __: Now) -> None:
        if api_key == ApiKey.ASSIGN_REPLICAS_TO_DIRS:
            self.directory_requests.append(request)
            return
        assert api_key == ApiKey.ALTER_PARTITION
        self.isr_requests.append((request, on_done))

    # The node, for the Fetch handler -------------------------------------------------------------

    @property
    def now(self) -> Now:  # type: ignore[override]  # the cluster's
        return self.cluster.now

    @property
    def image(self) -> Any:
        return self.loader.image

    def wait(self, operation: Any, deadline_ms: int) -> None:
        self.delayed.append((deadline_ms, operation))

    # State that tests assert ---------------------------------------------------------------------

    @property
    def log(self) -> MemoryLog:
        return self.logs.by_name[LOG]

    @property
    def partition(self) -> Partition:
        return self.replica_manager.by_log[LOG]

    def serves(self) -> bool:
        """Whether it leads, and serves requests."""
        return self.partition.online

    @property
    def high_watermark(self) -> int:
        return self.partition.high_watermark

    @property
    def proposed(self) -> list[tuple[int, ...]]:
        """The ISRs proposed in AlterPartition requests without a response."""
        return [
            tuple([state.broker_id for state in part.new_isr_with_epochs])
            for request, _ in self.isr_requests
            for topic in request.topics
            for part in topic.partitions
        ]

    # Metadata ------------------------------------------------------------------------------------

    def replay(self, count: int = MAX_RECORDS) -> None:
        """Replay the metadata log, or its next records."""
        next_records = self.cluster.metadata[self.replayed : self.replayed + count]
        for _ in self.loader.replay_in_steps(next_records):
            pass
        self.replayed += len(next_records)

    # Clients -------------------------------------------------------------------------------------

    def produce(
        self,
        letters: str,
        producer: tuple[int, int, int] | None = None,
        timeout_ms: int = TIMEOUT_MS,
        partition: Partition | None = None,
    ) -> PendingResponse:
        """Append a batch for each letter, as Produce with acks=all does."""
        pending = PendingResponse()
        partition = partition or self.partition
        code = partition.error_for_request(-1)
        if not code and partition.lacks_replicas:
            code = ErrorCode.NOT_ENOUGH_REPLICAS
        if code:
            pending.error_code, pending.is_answered = code, True
            return pending
        pending.base_offset = partition.end
        for letter in letters:
            batch = make_batch(letter, producer=producer)
            partition.append(read_header(batch), memoryview(batch), self.replica_manager.turn)
            producer = None if producer is None else (*producer[:2], producer[2] + 1)
        self.replica_manager.wait_for(partition, partition.end, pending, pending, timeout_ms)
        return pending

    def consume(self, offset: int, leader_epoch: int = -1) -> tuple[int, str, int]:
        """Fetch as a consumer: error code, records and high watermark."""
        [data] = self.fetch(offset, leader_epoch).response.responses[0].partitions
        return data.error_code, str(MemoryLog.of(data.records)), data.high_watermark

    def fetch(
        self,
        offset: int,
        leader_epoch: int = -1,
        rack: str = "",
        max_wait_ms: int = 0,
        version: int = LATEST_FETCH_VERSION,
        session: tuple[int, int] = (NO_SESSION, FINAL_EPOCH),
    ) -> PendingFetch:
        """A Fetch request of a consumer, and its response unless it waits."""
        pending = PendingFetch(version)
        part = FetchPartition(
            partition=0,
            fetch_offset=offset,
            current_leader_epoch=leader_epoch,
            partition_max_bytes=1 << 20,
        )
        topic = FetchTopic(topic="t", topic_id=self.partition.topic_id, partitions=[part])
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            session_id=session[0],
            session_epoch=session[1],
            rack_id=rack,
            topics=[topic],
        )
        fetch_topics(cast("Any", self), cast("Any", pending), request, self.now)
        return pending

    def delete_records(self, offset: int, timeout_ms: int = TIMEOUT_MS) -> PendingResponse:
        pending = PendingResponse()
        manager = self.replica_manager
        manager.delete_records(self.partition, offset, pending, pending, timeout_ms)
        return pending

    # The host ------------------------------------------------------------------------------------

    def turn(self) -> bool:
        """Write appends and carry out effects; return whether there was anything to do."""
        manager = self.replica_manager
        had_work = False
        while True:
            appends = manager.take_turn()
            for append in appends:
                self._write(append)
            manager.send_requests(self.now)
            effects, self.effects[:] = self.effects[:], []
            if not (appends or effects):
                return had_work
            had_work = True
            for effect in effects:
                self._carry_out(effect)

    def _write(self, append: PartitionAppend) -> None:
        partition = append.partition
        if append not in partition.unwritten:
            return  # it follows an append that has failed
        if self.is_full:
            self.replica_manager.undo(append)
            return
        log = self.logs.by_name[partition.log]
        end = log.append(append)
        if self.holds_writes:
            self.unwritten.append((log, partition, end))
        else:
            self.replica_manager.written(partition, end)

    def write(self) -> None:
        """Report the writes that waited for a flush, as with `flush.messages`."""
        self.holds_writes = False
        held, self.unwritten = self.unwritten, []
        for log, partition, end in held:
            if self.logs.by_name.get(partition.log) is log:
                self.replica_manager.written(partition, end)

    def truncate(self) -> None:
        """Carry out the truncations that were held back."""
        self.holds_truncations = False
        held, self.untruncated = self.untruncated, []
        for effect in held:
            self._truncate(effect)

    def _truncate(self, effect: TruncatePartition) -> None:
        if self.holds_truncations:
            self.untruncated.append(effect)
            return
        log = self.logs.by_name.get(effect.log)
        if log is None or self.logs.topic_ids[effect.log] != effect.topic_id:
            return
        self.truncations.append(effect.offset)
        if effect.restarts:
            log.restart(effect.offset)
        else:
            log.truncate(effect.offset)
        self.replica_manager.handle(LogTruncated(effect.log, effect.topic_id, log.start, log.end))

    def _carry_out(self, effect: Any) -> None:
        if isinstance(effect, OpenLog):
            self._open(effect)
        elif isinstance(effect, TruncatePartition):
            self._truncate(effect)
        elif isinstance(effect, SendRequest):
            self.cluster.flights.append(FetchInFlight(self, effect))
        elif isinstance(effect, MoveLogStart):
            self.logs.by_name[effect.log].move_start(effect.offset)
            moved = LogStartMoved(effect.log, self.logs.topic_ids[effect.log], effect.offset, True)
            self.replica_manager.handle(moved)
        elif isinstance(effect, DeleteLog):
            if self.logs.topic_ids.get(effect.log) == effect.topic_id:
                del self.logs.by_name[effect.log], self.logs.topic_ids[effect.log]
        elif line := getattr(effect, "line", ""):
            self.lines.append(line)

    def _open(self, effect: OpenLog) -> None:
        if self.logs.topic_ids.get(effect.log, effect.topic_id) != effect.topic_id:
            del self.logs.by_name[effect.log]  # the log of a deleted topic of this name
        log = self.logs.by_name.setdefault(effect.log, MemoryLog())
        self.logs.topic_ids[effect.log] = effect.topic_id
        stored = self.logs.high_watermarks.get(effect.log, 0)
        self.replica_manager.handle(
            LogOpened(effect.log, effect.topic_id, log.start, log.end, log.producers, stored)
        )

    def expire(self) -> None:
        """Expire the delayed operations that are due, and poll."""
        now_ms = self.now.monotonic_ms
        due = [operation for due_ms, operation in self.delayed if due_ms <= now_ms]
        self.delayed = [delayed for delayed in self.delayed if delayed[0] > now_ms]
        for operation in due:
            operation.expire(self.now)
        self.replica_manager.poll(self.now)

    def receive(self, report: Any) -> None:
        """Receive the outcome of a request of this follower."""
        self.replica_manager.fetchers.handle(report, self.now)
