"""`Process`: the host of a broker's real `ReplicaManager`, and of its Produce and Fetch handlers.

Time stands still, and everything that can be done at once is done at once: appends are written,
logs truncated and deleted, requests sent and repeated. What time would cause is an event of its
own: for example, that a follower has not caught up for too long.
"""

from __future__ import annotations

from functools import cache

from kraftlog.config.layers import ConfigLayers
from kraftlog.effects import (
    ConfigureLog,
    DeleteLog,
    LogComplete,
    LogLine,
    LogOpened,
    LogTruncated,
    MarkStrays,
    OpenLog,
    RequestFailed,
    ResponseReceived,
    SendRequest,
    TruncatePartition,
)
from kraftlog.errors import ErrorCode
from kraftlog.metadata.loader import MetadataLoader
from kraftlog.node.fetch.handler import fetch_topics
from kraftlog.node.fetch_sessions import FetchSessions
from kraftlog.node.produce import handler as produce
from kraftlog.records.builder import BatchBuilder
from kraftlog.replication.fetcher import FetchConfig
from kraftlog.replication.followers import LONG_AGO_MS
from kraftlog.replication.replica_manager import ReplicaManager
from kraftlog.replication.replicating_node import ReplicatingNode
from kraftlog.replication.services import ReplicationConfig
from kraftlog.replication.topic_configs import TopicConfigs
from kraftlog.types import NULL_UUID, Now
from kraftlog.value import TYPE_CHECKING, Value
from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kraftlog_simulator.explorer.invariants import Broken
from kraftlog_simulator.explorer.replication.metadata import LISTENER, TOPIC, ConstantBits

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from kraftlog.metadata.image import Image
    from kraftlog.replication.partition import Partition
    from kraftlog.types import Uuid
    from kraftlog.wire.messages.fetch import FetchRequest, FetchResponse
    from kraftlog.wire.schema import Message
    from kraftlog_simulator.explorer.replication.log import Log

#: The time of all events, and a time after every backoff.
NOW, AFTER_BACKOFF = Now(1_000_000, 1_000_000), Now(1_002_000, 1_002_000)
MAX_LAG_MS = 10_000
ACKS_ALL = -1
#: The versions of the requests.
FETCH_VERSION, PRODUCE_VERSION = [APIS[key].last for key in (ApiKey.FETCH, ApiKey.PRODUCE)]
#: The name of the partition's log.
LOG = TOPIC, 0


@cache
def record_of(topic_id: Uuid) -> bytes:
    """A batch with one record; its topic, offset and epoch distinguish it from others."""
    builder = BatchBuilder()
    builder.append(NOW.wall_ms, None, topic_id)
    return bytes(builder.build())


class FetchMessage(Value):
    """A Fetch of a follower; `is_awaited`: the sender still waits for the response."""

    follower: int
    leader: int
    request: FetchRequest
    is_awaited: bool = True


class FetchResponseMessage(Value):
    """The response to a Fetch."""

    follower: int
    leader: int
    response: FetchResponse


class Pending:
    """A pending response, and the connection that it belongs to."""

    serves = 0
    listener_name = LISTENER

    def __init__(self, process: Process, version: int) -> None:
        self.process = process
        self.version = version
        self.connection = self
        self.waiter: Any = None
        self.waits = 0
        self.response: Any = None


class PendingProduce(Pending):
    def respond(self, response: Any) -> None:
        self.process.produced(response.responses[0].partition_responses[0])


class PendingFetch(Pending):
    def __init__(self, process: Process, sent: FetchMessage) -> None:
        super().__init__(process, FETCH_VERSION)
        self.sent = sent

    def respond(self, response: Any) -> None:
        self.process.fetched(self.sent, response)


class NoQuotas:
    is_active = False


class Process(ReplicatingNode):
    """One process of a broker; it has the attributes of a `Node` that the handlers use."""

    logs: Log  # type: ignore[assignment]  # it has what replication uses
    max_fetch_bytes = 1 << 30
    now = NOW
    #: No client is throttled, and everyone may do everything.
    client_quotas = NoQuotas
    authorizer = None

    def __init__(self, broker_id: int, epoch: int, logs: Log, *, has_slow_disk: bool) -> None:
        self.id = broker_id
        self.epoch = epoch
        self.logs = logs
        self.effects: list[Any] = []
        #: The fetches that wait for data, by follower.
        self.parked: dict[int, PendingFetch] = {}
        #: By leader whose response it waits for: the topic, offset and leader epoch of its fetch.
        self.waits_for: dict[int, tuple[Uuid, int, int]] = {}
        #: The channels and numbers of those fetches.
        self._sent: dict[int, tuple[str, int]] = {}
        #: The AlterPartition request that has no response yet, if any, and the response's callback.
        self.isr_request: Message | None = None
        self._on_isr_response: Any = None
        #: How many batches of the metadata log are replayed.
        self.replayed = 0
        self.messages: list[FetchMessage | FetchResponseMessage] = []
        self.has_slow_disk = has_slow_disk
        #: Truncations still to be done, and the writes still to be reported, with their ends.
        self.truncations: list[TruncatePartition] = []
        self.unreported: list[tuple[Partition, int]] = []
        #: No fetch session is kept: each fetch names its position.
        self.fetch_sessions = FetchSessions(0, ConstantBits())
        self.loader = MetadataLoader()
        configs = TopicConfigs(self.loader, self.config_layers)
        self.replica_manager = ReplicaManager(
            ReplicationConfig(LISTENER, _max_lag_ms, -1, FetchConfig(broker_id)),
            self.loader,
            configs,
            self,
        )
        self.loader.publishers += [configs, self.replica_manager]

    def config_layers(self) -> ConfigLayers:
        return ConfigLayers({})

    def broker_epoch(self) -> int:
        return self.epoch

    def is_registered(self) -> bool:
        broker = self.image.brokers.get(self.id)
        return broker is not None and broker.epoch == self.epoch

    def emit(self, effect: Any) -> None:
        self.effects.append(effect)

    def send_fetch(self, effect: Any) -> None:
        self.effects.append(effect)

    def poll_by(self, due_ms: int) -> None:
        pass  # the explorer fires timers by name

    def wait_for_ms(self, operation: Any, timeout_ms: int) -> None:
        pass  # time stands still

    def fail(self, _: Any, error: Exception) -> None:
        raise error

    def send_to_controller(
        self, api_key: int, _: int, request: Message, on_done: Any, __: Now
    ) -> None:
        assert api_key == ApiKey.ALTER_PARTITION
        assert self.isr_request is None, "one is in flight at a time"
        self.isr_request, self._on_isr_response = request, on_done

    @property
    def image(self) -> Image:
        return self.loader.image

    @property
    def partition(self) -> Partition | None:
        """The broker's replica by the metadata that it has replayed; None: it has none."""
        return self.replica_manager.by_log.get(LOG)

    @property
    def replica(self) -> Partition:
        """The broker's replica, in events that need one."""
        partition = self.partition
        assert partition is not None, "the event is about its replica"
        return partition

    def would_use_response_of(self, leader: int) -> bool:
        """Whether the response of a leader would be used: the replica has not changed since."""
        partition = self.partition
        return partition is not None and self.waits_for.get(leader) == (
            partition.topic_id,
            partition.end,
            partition.leader_epoch,
        )

    def wait(self, _operation: Any, _deadline_ms: int) -> None:
        """Do nothing: a fetch is parked until `expire` ends it."""

    # Events --------------------------------------------------------------------------------------

    def start(self, metadata: Sequence[Sequence[Message]]) -> None:
        """Replay all metadata, up to the registration of this process."""
        for batch in metadata:
            self.replay(batch)
        self.replica_manager.open_logs()
        self.turn()

    def replay(self, batch: Sequence[Message]) -> None:
        for _ in self.loader.replay_in_steps(batch):
            pass
        self.replayed += 1

    def produce(self) -> None:
        topic_id = self.replica.topic_id
        records = memoryview(bytearray(record_of(topic_id)))
        data = PartitionProduceData(index=0, records=records)
        topic = TopicProduceData(topic_id=topic_id, partition_data=[data])
        request = ProduceRequest(acks=ACKS_ALL, timeout_ms=1, topic_data=[topic])
        pending: Any = PendingProduce(self, PRODUCE_VERSION)
        produce.handle(self, pending, request, NOW)  # type: ignore[arg-type]  # see the class

    def receive_fetch(self, sent: FetchMessage) -> None:
        """Handle a Fetch; it is not parked if the follower no longer waits for the response."""
        pending: Any = PendingFetch(self, sent)
        fetch_topics(self, pending, sent.request, NOW)  # type: ignore[arg-type]  # see the class
        if pending.waiter is None:
            return
        if sent.is_awaited:
            self.parked[sent.follower] = pending
        else:
            pending.waiter.cancel()

    def forget(self, follower: int) -> None:
        """A follower no longer waits for the response to its fetch."""
        pending = self.parked.pop(follower, None)
        if pending is not None:
            pending.waiter.cancel()

    def expire(self, follower: int) -> None:
        """A fetch has waited for its max.wait.ms."""
        self.parked[follower].waiter.expire(NOW)

    def receive_response(self, message: FetchResponseMessage) -> None:
        """The response to a Fetch of this follower arrives."""
        leader = message.leader
        del self.waits_for[leader]
        channel, number = self._sent.pop(leader)
        report = ResponseReceived(channel, leader, number, message.response)
        self.replica_manager.fetchers.handle(report, NOW)

    def fetch_failed(self, leader: int) -> None:
        del self.waits_for[leader]
        channel, number = self._sent.pop(leader)
        self.replica_manager.fetchers.handle(RequestFailed(channel, leader, number), NOW)

    def lags(self, follower: int) -> None:
        """A follower has not caught up for replica.lag.time.max.ms."""
        followers = self.replica.followers
        assert followers is not None, "only a leader has lagging followers"
        followers.by_broker[follower].caught_up_ms = LONG_AGO_MS

    def write(self) -> None:
        """Report the oldest write as done."""
        self.replica_manager.written(*self.unreported.pop(0))

    def truncate(self) -> None:
        """Do the oldest truncation."""
        effect = self.truncations.pop(0)
        self.logs.truncate(effect.offset)
        end = self.logs.end
        self.replica_manager.handle(LogTruncated(effect.log, effect.topic_id, 0, end))

    def receive_isr_response(self, response: Message | None) -> None:
        """The response to the AlterPartition arrives, or is lost (None)."""
        on_done, self.isr_request, self._on_isr_response = self._on_isr_response, None, None
        on_done(response, NOW)

    # Outcomes ------------------------------------------------------------------------------------

    def produced(self, partition_response: Any) -> None:
        """A produce request gets its response: records must be committed to be acknowledged."""
        base_offset = partition_response.base_offset
        if partition_response.error_code == ErrorCode.NONE and (
            base_offset >= self.replica.high_watermark
        ):
            raise Broken("only committed records are acknowledged", f"offset {base_offset}")

    def fetched(self, sent: FetchMessage, response: FetchResponse) -> None:
        if sent.is_awaited:
            self.parked.pop(sent.follower, None)
            self.messages.append(FetchResponseMessage(sent.follower, self.id, response))

    def turn(self) -> None:
        """Carry out effects until there are none."""
        manager = self.replica_manager
        while True:
            appends = manager.take_turn()
            for append in appends:
                self.logs.append(append)
                self.unreported.append((append.partition, append.end))
            while self.unreported and not self.has_slow_disk:
                self.write()
            manager.in_sync_replicas.check_soon()
            manager.poll(AFTER_BACKOFF)
            manager.send_requests(AFTER_BACKOFF)
            effects, self.effects = self.effects, []
            for effect in effects:
                self._carry_out(effect)
            if not (appends or effects):
                return

    def _carry_out(self, effect: Any) -> None:
        manager, log = self.replica_manager, self.logs
        if isinstance(effect, SendRequest):
            [topic] = effect.request.topics
            [partition] = topic.partitions
            position = topic.topic_id, partition.fetch_offset, partition.current_leader_epoch
            self.waits_for[effect.peer] = position
            self._sent[effect.peer] = effect.channel, effect.number
            self.messages.append(FetchMessage(self.id, effect.peer, effect.request))
        elif isinstance(effect, TruncatePartition):
            assert not effect.restarts, "log starts never change here"
            if self.replica.leads:
                raise Broken("a leader truncates nothing", f"broker {self.id} at {effect.offset}")
            self.truncations.append(effect)
            if not self.has_slow_disk:
                self.truncate()
        elif isinstance(effect, OpenLog):
            if log.topic_id != effect.topic_id:
                log.begin(effect.topic_id)
            stored = log.stored_high_watermark
            manager.handle(LogOpened(effect.log, effect.topic_id, 0, log.end, None, stored))
        elif isinstance(effect, DeleteLog):
            log.begin(NULL_UUID)
            self.truncations.clear()
            self.unreported.clear()
        elif isinstance(effect, MarkStrays):
            if LOG not in effect.logs:
                log.begin(NULL_UUID)
        else:
            assert isinstance(effect, LogLine | ConfigureLog | LogComplete), effect


def _max_lag_ms() -> int:
    return MAX_LAG_MS
