"""Several brokers' replica managers with logs in memory, and the requests between them.

The product's Fetch handler serves the followers. The controller is scripted: it keeps the
AlterPartition requests until `accept` or `respond`. Nothing happens by itself: `settle` runs
everything that can happen without time passing, `pass_ms` lets time pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from kraftlog.effects import (
    RequestFailed,
    ResponseReceived,
    SendRequest,
)
from kraftlog.node.fetch.handler import fetch_topics
from kraftlog.types import Now
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages import metadata_records as records
from kraftlog.wire.messages.alter_partition import (
    AlterPartitionResponse,
    PartitionResult,
    TopicResult,
)
from tests.replication.broker import (
    LISTENER,
    LOG,
    TOPIC_ID,
    TOPIC_RESOURCE,
    Broker,
    FetchInFlight,
    PendingFetch,
)
from tests.replication.memory_log import MemoryLog, MemoryLogs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Cluster:
    """Brokers 1 to n with one partition; `logs` are their logs, as texts (see `memory_log`)."""

    def __init__(
        self,
        logs: dict[int, str],
        *,
        leader: int = 1,
        epoch: int = 1,
        isr: tuple[int, ...] | None = None,
        min_isr: int = 1,
        high_watermarks: dict[int, int] | None = None,
        starts: dict[int, int] | None = None,
        max_lag_bytes: int = -1,
        racks: dict[int, str] | None = None,
        partition_max_bytes: int = 1 << 20,
    ) -> None:
        self.partition_max_bytes = partition_max_bytes
        self.max_lag_bytes = max_lag_bytes
        #: The brokers' racks by id; with racks, leaders name the nearest replica to consumers.
        self.racks = racks or {}
        self.now = Now(1_000_000, 1_000_000)
        self.metadata: list[Any] = []
        self.flights: list[FetchInFlight] = []
        self.broken_links: set[frozenset[int]] = set()
        self.brokers: dict[int, Broker] = {}
        self.disks: dict[int, MemoryLogs] = {}
        for broker_id, text in logs.items():
            disk = self.disks[broker_id] = MemoryLogs()
            disk.by_name[LOG] = MemoryLog(text, (starts or {}).get(broker_id, 0))
            disk.topic_ids[LOG] = TOPIC_ID
            disk.high_watermarks[LOG] = (high_watermarks or {}).get(broker_id, 0)
            self.metadata.append(self._registration(broker_id))
        self.metadata += topic_records(TOPIC_ID, tuple(logs), isr or tuple(logs), leader, epoch)
        self.metadata.append(
            records.ConfigRecord(
                resource_type=TOPIC_RESOURCE,
                resource_name="t",
                name="min.insync.replicas",
                value=str(min_isr),
            )
        )
        for broker_id in logs:
            self.start(broker_id)

    def __getitem__(self, broker_id: int) -> Broker:
        return self.brokers[broker_id]

    # Metadata ------------------------------------------------------------------------------------

    def _registration(self, broker_id: int, log_dirs: Sequence[bytes] = ()) -> Any:
        return records.RegisterBrokerRecord(
            broker_id=broker_id,
            incarnation_id=len(self.metadata).to_bytes(16, "big"),
            broker_epoch=100 + len(self.metadata),
            end_points=[
                records.BrokerEndpoint(
                    name=LISTENER, host=f"host-{broker_id}", port=9092, security_protocol=0
                )
            ],
            features=(),
            fenced=False,
            rack=self.racks.get(broker_id),
            log_dirs=log_dirs,
        )

    def commit(self, *changes: Any, unseen_by: Iterable[int] = ()) -> None:
        """Append records to the metadata log; all running brokers but `unseen_by` replay it."""
        self.metadata += changes
        for broker in self.brokers.values():
            if broker.id not in unseen_by:
                broker.replay()

    def elect(self, leader: int, isr: tuple[int, ...], unseen_by: Iterable[int] = ()) -> None:
        change = records.PartitionChangeRecord(
            partition_id=0, topic_id=TOPIC_ID, leader=leader, isr=isr
        )
        self.commit(change, unseen_by=unseen_by)

    def set_isr(self, isr: tuple[int, ...], unseen_by: Iterable[int] = ()) -> None:
        change = records.PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, isr=isr)
        self.commit(change, unseen_by=unseen_by)

    def reassign(self, replicas: tuple[int, ...], isr: tuple[int, ...]) -> None:
        change = records.PartitionChangeRecord(
            partition_id=0, topic_id=TOPIC_ID, replicas=replicas, isr=isr
        )
        self.commit(change)

    def delete_topic(self, topic_id: bytes, unseen_by: Iterable[int] = ()) -> None:
        self.commit(records.RemoveTopicRecord(topic_id=topic_id), unseen_by=unseen_by)
        self.run_turns()

    def fence(self, broker_id: int) -> None:
        self.commit(records.FenceBrokerRecord(id=broker_id, epoch=self._epoch_of(broker_id)))

    def fence_out(self, broker_id: int) -> None:
        """Fence a broker, and remove it from the ISR."""
        self.fence(broker_id)
        isr = next(iter(self.brokers.values())).partition.isr
        self.set_isr(tuple([member for member in isr if member != broker_id]))

    def unfence(self, broker_id: int) -> None:
        self.commit(records.UnfenceBrokerRecord(id=broker_id, epoch=self._epoch_of(broker_id)))

    def _epoch_of(self, broker_id: int) -> int:
        epochs = [
            record.broker_epoch
            for record in self.metadata
            if isinstance(record, records.RegisterBrokerRecord) and record.broker_id == broker_id
        ]
        return int(epochs[-1])

    # The controller ------------------------------------------------------------------------------

    def respond(
        self,
        broker_id: int,
        error_code: int = 0,
        top_level: int = 0,
        *,
        names_partitions: bool = True,
    ) -> None:
        """Respond to the oldest AlterPartition of a broker, without any change of the metadata."""
        request, on_done = self[broker_id].isr_requests.pop(0)
        results = [
            TopicResult(
                topic_id=topic.topic_id,
                partitions=[
                    PartitionResult(
                        partition_index=part.partition_index,
                        error_code=error_code,
                        leader_id=broker_id,
                        leader_epoch=part.leader_epoch,
                        isr=[state.broker_id for state in part.new_isr_with_epochs],
                        partition_epoch=part.partition_epoch + 1,
                    )
                    for part in topic.partitions
                ],
            )
            for topic in (request.topics if names_partitions else ())
        ]
        on_done(AlterPartitionResponse(error_code=top_level, topics=results), self.now)

    def lose_response(self, broker_id: int) -> None:
        """Let the oldest AlterPartition of a broker end without a response."""
        _, on_done = self[broker_id].isr_requests.pop(0)
        on_done(None, self.now)

    def accept(self, broker_id: int, unseen_by: Iterable[int] = ()) -> None:
        """Commit the oldest ISR proposal of a broker, and respond to it."""
        isr = self[broker_id].proposed[0]
        self.set_isr(isr, unseen_by)
        self.respond(broker_id)

    # Processes and time --------------------------------------------------------------------------

    def start(self, broker_id: int) -> None:
        epoch = self._epoch_of(broker_id)
        broker = self.brokers[broker_id] = Broker(self, broker_id, epoch, self.disks[broker_id])
        broker.replay()
        broker.replica_manager.open_logs()
        broker.turn()

    def crash(self, broker_id: int, keeps: int | None = None) -> None:
        """Kill a process; its log keeps the records below `keeps`, or all."""
        broker = self.brokers.pop(broker_id)
        if keeps is not None:
            broker.log.truncate(keeps)
        for flight in self.flights[:]:
            if broker_id in (flight.follower.id, flight.effect.peer):
                self.lose(flight)

    def register(
        self, broker_id: int, unseen_by: Iterable[int] = (), log_dirs: Sequence[bytes] = ()
    ) -> None:
        """Register another process of a broker."""
        self.commit(self._registration(broker_id, log_dirs), unseen_by=unseen_by)

    def restart(self, broker_id: int) -> None:
        self.register(broker_id)
        self.start(broker_id)

    def pass_ms(self, ms: int) -> None:
        """Let time pass, and settle."""
        self.advance(ms)
        self.settle()

    def advance(self, ms: int) -> None:
        """Let time pass and timers expire; no request is served."""
        self.now = Now(self.now.monotonic_ms + ms, self.now.wall_ms + ms)
        for broker in self.brokers.values():
            broker.expire()

    # The network ---------------------------------------------------------------------------------

    def isolate(self, broker_id: int) -> None:
        """Cut a broker off from the others; the requests in flight between them are lost."""
        for other in self.disks:
            if other != broker_id:
                self.broken_links.add(frozenset((broker_id, other)))
        for flight in self.flights[:]:
            if broker_id in (flight.follower.id, flight.effect.peer):
                self.lose(flight)

    def fail(self, broker_id: int) -> None:
        """Isolate a broker, and have the controller fence it: it leaves the ISR at once."""
        self.isolate(broker_id)
        self.fence_out(broker_id)

    def heal(self) -> None:
        self.broken_links.clear()

    def flight(self, follower: int) -> FetchInFlight:
        """The Fetch request in flight of a follower, which has exactly one."""
        [flight] = [flight for flight in self.flights if flight.follower.id == follower]
        return flight

    def serve(self, flight: FetchInFlight) -> None:
        """Let a request arrive at the leader; it is lost if there is no connection."""
        leader = self.brokers.get(flight.effect.peer)
        if leader is None or frozenset((leader.id, flight.follower.id)) in self.broken_links:
            self.lose(flight)
            return
        pending = flight.pending = PendingFetch(flight.effect.version)
        assert flight.effect.api_key == ApiKey.FETCH
        node = cast("Any", leader)
        steps = fetch_topics(node, cast("Any", pending), flight.request, self.now)
        if steps is not None:
            node.sliced.run(pending, steps)

    def serve_late(self, effect: SendRequest) -> int:
        """Let a request of a killed broker arrive; return the error code of the response."""
        pending = PendingFetch(effect.version)
        leader = cast("Any", self[effect.peer])
        effect.request.max_wait_ms = 0
        fetch_topics(leader, cast("Any", pending), effect.request, self.now)
        response = pending.response
        if response.error_code or not response.responses:
            return int(response.error_code)
        return int(response.responses[0].partitions[0].error_code)

    def complete(self, flight: FetchInFlight) -> None:
        """Let the response arrive at the follower."""
        self.flights.remove(flight)
        sent = flight.effect
        response = ResponseReceived(sent.channel, sent.peer, sent.number, flight.response)
        flight.follower.receive(response)

    def lose(self, flight: FetchInFlight) -> None:
        """Break the connection: the request fails at the follower, and the leader forgets it."""
        self.flights.remove(flight)
        if flight.pending is not None and flight.pending.waiter is not None:
            flight.pending.waiter.cancel()
        if self.brokers.get(flight.follower.id) is flight.follower:
            sent = flight.effect
            flight.follower.receive(RequestFailed(sent.channel, sent.peer, sent.number))

    def run_turns(self) -> bool:
        had_work = False
        for broker in list(self.brokers.values()):
            had_work |= broker.turn()
        return had_work

    def settle(self) -> None:
        """Run all that can happen without time passing."""
        for _ in range(1000):
            had_work = self.run_turns()
            for flight in self.flights[:]:
                if flight.pending is None:
                    self.serve(flight)
                    had_work = True
                elif flight.response is not None:
                    self.complete(flight)
                    had_work = True
            if not had_work:
                return
        raise AssertionError("the brokers never become idle")

    def logs(self) -> list[str]:
        """The logs of all brokers as text, in the order of their ids."""
        return [str(self.disks[broker_id].by_name[LOG]) for broker_id in sorted(self.disks)]


def topic_records(
    topic_id: bytes, replicas: tuple[int, ...], isr: tuple[int, ...], leader: int, epoch: int
) -> list[Any]:
    """The records of a topic `t` with one partition."""
    return [
        records.TopicRecord(name="t", topic_id=topic_id),
        records.PartitionRecord(
            partition_id=0,
            topic_id=topic_id,
            replicas=replicas,
            isr=isr,
            removing_replicas=(),
            adding_replicas=(),
            leader=leader,
            leader_epoch=epoch,
            partition_epoch=0,
            directories=(b"d" * 16,) * len(replicas),
        ),
    ]
