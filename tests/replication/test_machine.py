"""Any order of appends, fetches, crashes, elections and truncations on three replicas.

The brokers replay the metadata log at their own pace. Elections are clean: only members of the ISR
lead, and a broker that loses records in a crash leaves the ISR.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kraftlog.errors import ErrorCode
from kraftlog.logstate.epochs import EpochCache
from kraftlog.metadata.loader import MetadataLoader
from kraftlog.wire.messages import metadata_records as records
from tests.replication.broker import LOG, MAX_LAG_MS, MAX_WAIT_MS, TOPIC_ID
from tests.replication.cluster import Cluster

if TYPE_CHECKING:
    from kraftlog.metadata.values import PartitionImage
    from tests.replication.broker import Broker, PendingResponse
    from tests.replication.memory_log import MemoryLog

BROKERS = 1, 2, 3
BROKER = st.sampled_from(BROKERS)
ANY_INDEX = st.integers(0, 9)


class Controller:
    """Decides as Kafka's controller does; brokers learn of its decisions when they replay."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.loader = MetadataLoader()
        self.replayed = 0
        self.catch_up()

    def catch_up(self) -> None:
        metadata = self.cluster.metadata
        for _ in self.loader.replay_in_steps(metadata[self.replayed :]):
            pass
        self.replayed = len(metadata)

    @property
    def partition(self) -> PartitionImage:
        return self.loader.image.partitions[TOPIC_ID, 0]

    def commit(self, *changes: Any) -> None:
        self.cluster.commit(*changes, unseen_by=BROKERS)
        self.catch_up()

    def change(self, **fields: Any) -> None:
        self.commit(records.PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, **fields))

    def is_active(self, broker_id: int) -> bool:
        return self.loader.image.brokers[broker_id].active

    def fence(self, broker_id: int) -> None:
        """A fenced broker loses the leadership, and leaves the ISR unless it is the last member."""
        if self.is_active(broker_id):
            epoch = self.loader.image.brokers[broker_id].epoch
            self.commit(records.FenceBrokerRecord(id=broker_id, epoch=epoch))
        before = self.partition
        isr = tuple([member for member in before.isr if member != broker_id]) or before.isr
        fields: dict[str, Any] = {} if isr == before.isr else {"isr": isr}
        if before.leader == broker_id:
            fields["leader"] = next((member for member in isr if self.is_active(member)), -1)
        if fields:
            self.change(**fields)

    def unfence(self, broker_id: int) -> None:
        if not self.is_active(broker_id):
            epoch = self.loader.image.brokers[broker_id].epoch
            self.commit(records.UnfenceBrokerRecord(id=broker_id, epoch=epoch))
        self.elect_if_offline()

    def elect_if_offline(self) -> None:
        if self.partition.leader < 0:
            leader = next((member for member in self.partition.isr if self.is_active(member)), -1)
            if leader >= 0:
                self.change(leader=leader)

    def decide(self, broker_id: int) -> int:
        """Decide on the oldest AlterPartition of a broker; return the error code."""
        request, _ = self.cluster[broker_id].isr_requests[0]
        [proposed] = request.topics[0].partitions
        current = self.partition
        brokers = self.loader.image.brokers
        isr = tuple([member.broker_id for member in proposed.new_isr_with_epochs])
        if request.broker_epoch != brokers[broker_id].epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        if proposed.leader_epoch < current.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        assert (proposed.leader_epoch, broker_id) == (current.leader_epoch, current.leader)
        if proposed.partition_epoch < current.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        assert proposed.partition_epoch == current.partition_epoch
        for state in proposed.new_isr_with_epochs:
            broker = brokers[state.broker_id]
            if not broker.active or state.broker_epoch not in (-1, broker.epoch):
                return ErrorCode.INELIGIBLE_REPLICA
        assert broker_id in isr
        self.change(isr=isr)
        return ErrorCode.NONE


class ReplicationMachine(RuleBasedStateMachine):
    """Three replicas, and what has been committed and acknowledged so far."""

    @initialize(min_isr=st.sampled_from([1, 2]))
    def start(self, min_isr: int) -> None:
        self.cluster = Cluster(dict.fromkeys(BROKERS, ""), min_isr=min_isr)
        self.controller = Controller(self.cluster)
        self.record_count = 0
        self.committed: dict[int, tuple[int, bytes]] = {}
        self.produced: list[tuple[PendingResponse, str]] = []
        #: The highest offset that DeleteRecords has named.
        self.deleted = 0

    def broker(self, broker_id: int) -> Broker | None:
        return self.cluster.brokers.get(broker_id)

    # Clients

    @rule(broker_id=BROKER, count=st.integers(1, 3))
    def produce(self, broker_id: int, count: int) -> None:
        broker = self.broker(broker_id)
        if broker is not None and LOG in broker.replica_manager.by_log:
            letters = "".join([chr(0x100 + self.record_count + i) for i in range(count)])
            self.record_count += count
            self.produced.append((broker.produce(letters), letters))

    @rule(broker_id=BROKER, fraction=st.floats(0, 1))
    def delete_records(self, broker_id: int, fraction: float) -> None:
        broker = self.broker(broker_id)
        if broker is not None and broker.serves():
            start, limit = broker.partition.start, broker.high_watermark
            offset = start + int((limit - start) * fraction)
            self.deleted = max(self.deleted, offset)
            broker.delete_records(offset)

    # Brokers

    @rule(broker_id=BROKER)
    def turn(self, broker_id: int) -> None:
        broker = self.broker(broker_id)
        if broker is not None:
            broker.turn()

    @rule(broker_id=BROKER, count=st.sampled_from([1, 1, 2, 100]))
    def replay(self, broker_id: int, count: int) -> None:
        broker = self.broker(broker_id)
        if broker is not None:
            broker.replay(count)

    @rule(broker_id=BROKER)
    def hold_writes(self, broker_id: int) -> None:
        broker = self.broker(broker_id)
        if broker is not None and not broker.is_full:
            broker.holds_writes = True

    @rule(broker_id=BROKER)
    def hold_truncations(self, broker_id: int) -> None:
        broker = self.broker(broker_id)
        if broker is not None:
            broker.holds_truncations = True

    @rule(broker_id=BROKER, full=st.booleans())
    def fill_disk(self, broker_id: int, full: bool) -> None:
        """Fill or free the disk, once all appends are flushed: else the log would go offline."""
        broker = self.broker(broker_id)
        if broker is not None:
            broker.write()
            broker.is_full = full

    @rule(broker_id=BROKER)
    def write_and_truncate(self, broker_id: int) -> None:
        broker = self.broker(broker_id)
        if broker is not None:
            broker.write()
            broker.truncate()

    @rule(broker_id=BROKER, is_checkpoint_old=st.booleans())
    def kill(self, broker_id: int, is_checkpoint_old: bool) -> None:
        """The process ends; its log stays, but the high watermark in its checkpoint may be old."""
        broker = self.broker(broker_id)
        if broker is not None and len(self.cluster.brokers) > 1:
            stored = self.cluster.disks[broker_id].high_watermarks
            stored[LOG] = min(
                stored[LOG] if is_checkpoint_old else broker.high_watermark, broker.log.end
            )
            self.cluster.crash(broker_id)

    @rule(broker_id=BROKER, lost=st.integers(0, 5))
    def lose_power(self, broker_id: int, lost: int) -> None:
        """The last records of the log are lost, and the controller knows of the crash."""
        broker = self.broker(broker_id)
        isr = self.controller.partition.isr
        if broker is not None and len(self.cluster.brokers) > 1 and isr != (broker_id,):
            log = broker.log
            self.cluster.crash(broker_id, keeps=max(log.end - lost, log.start))
            self.controller.fence(broker_id)

    @rule(broker_id=BROKER)
    def restart(self, broker_id: int) -> None:
        if self.broker(broker_id) is None:
            self.controller.fence(broker_id)
            self.cluster.register(broker_id, unseen_by=BROKERS)
            self.controller.catch_up()
            self.controller.elect_if_offline()
            self.cluster.start(broker_id)

    # The network and time

    @rule(index=ANY_INDEX)
    def serve(self, index: int) -> None:
        waiting = [flight for flight in self.cluster.flights if flight.pending is None]
        if waiting:
            self.cluster.serve(waiting[index % len(waiting)])

    @rule(index=ANY_INDEX)
    def complete(self, index: int) -> None:
        responses = [flight for flight in self.cluster.flights if flight.response is not None]
        if responses:
            self.cluster.complete(responses[index % len(responses)])

    @rule(index=ANY_INDEX)
    def lose(self, index: int) -> None:
        if self.cluster.flights:
            self.cluster.lose(self.cluster.flights[index % len(self.cluster.flights)])

    @rule(broker_id=BROKER)
    def isolate(self, broker_id: int) -> None:
        self.cluster.isolate(broker_id)

    @rule()
    def heal(self) -> None:
        self.cluster.heal()

    @rule(ms=st.sampled_from([10, MAX_WAIT_MS, MAX_LAG_MS // 2, MAX_LAG_MS + 1]))
    def advance(self, ms: int) -> None:
        self.cluster.advance(ms)

    @rule()
    def settle(self) -> None:
        self.cluster.settle()

    # The controller

    @rule(broker_id=BROKER)
    def fence(self, broker_id: int) -> None:
        self.controller.fence(broker_id)

    @rule(broker_id=BROKER)
    def unfence(self, broker_id: int) -> None:
        if self.broker(broker_id) is not None:
            self.controller.unfence(broker_id)

    @rule(broker_id=BROKER)
    def elect(self, broker_id: int) -> None:
        if broker_id in self.controller.partition.isr and self.controller.is_active(broker_id):
            self.controller.change(leader=broker_id)

    @rule(broker_id=BROKER, responds=st.sampled_from([True, True, False]))
    def decide(self, broker_id: int, responds: bool) -> None:
        broker = self.broker(broker_id)
        if broker is not None and broker.isr_requests:
            code = self.controller.decide(broker_id)
            if not responds:
                self.cluster.lose_response(broker_id)
            elif code == ErrorCode.STALE_BROKER_EPOCH:
                self.cluster.respond(broker_id, top_level=code)
            else:
                self.cluster.respond(broker_id, code)

    # Invariants

    def committed_records_never_change(self) -> None:
        """Records below any high watermark are the same on all brokers, and never change."""
        for broker in self.cluster.brokers.values():
            assert broker.high_watermark <= broker.partition.end
            below = broker.log.records(before=broker.high_watermark)
            for offset, record in below.items():
                if offset >= self.deleted:
                    assert self.committed.setdefault(offset, record) == record

    @invariant()
    def in_sync_replicas_have_all_committed_records(self) -> None:
        """S1, S4: each of them can lead without losing anything."""
        self.committed_records_never_change()
        for broker_id in self.controller.partition.isr:
            records_of_replica = self.cluster.disks[broker_id].by_name[LOG].records()
            for offset, record in self.committed.items():
                if offset >= self.deleted:
                    assert records_of_replica.get(offset) == record, (
                        f"broker {broker_id} at offset {offset}"
                    )

    @invariant()
    def acknowledged_records_are_committed(self) -> None:
        self.committed_records_never_change()
        for pending, letters in self.produced:
            if pending.outcome == ErrorCode.NONE:
                for offset, letter in enumerate(letters, pending.base_offset):
                    if offset >= self.deleted:
                        assert self.committed[offset][1] == letter.encode()

    @invariant()
    def latest_epoch_is_that_of_the_records(self) -> None:
        for disk in self.cluster.disks.values():
            log = disk.by_name[LOG]
            assert log.epochs.entries()[-1:] == rebuilt_epochs(log)[-1:]

    @invariant()
    def nothing_below_a_high_watermark_is_truncated(self) -> None:
        for broker in self.cluster.brokers.values():
            assert not [line for line in broker.lines if "committed records are lost" in line]

    def teardown(self) -> None:
        """After the faults all replicas are equal and in sync, and the leader serves producers."""
        cluster, controller = self.cluster, self.controller
        cluster.heal()
        for broker_id in BROKERS:
            self.restart(broker_id)
            self.unfence(broker_id)
            self.fill_disk(broker_id, full=False)
            self.write_and_truncate(broker_id)
        for _ in range(20):
            for broker_id in BROKERS:
                self.replay(broker_id, 10_000)
                while cluster[broker_id].isr_requests:
                    self.decide(broker_id, responds=True)
                    self.replay(broker_id, 10_000)
            cluster.pass_ms(1_000)
            self.committed_records_never_change()
            self.in_sync_replicas_have_all_committed_records()
        assert sorted(controller.partition.isr) == list(BROKERS)
        pending = cluster[controller.partition.leader].produce("z")
        cluster.settle()
        cluster.pass_ms(MAX_WAIT_MS)
        assert pending.outcome == ErrorCode.NONE
        logs = [disk.by_name[LOG] for disk in cluster.disks.values()]
        for log in logs:  # a killed leader may not have announced its log start
            log.move_start(max(other.start for other in logs))
        first, *others = [log.records() for log in logs]
        assert others == [first, first]
        assert len({broker.high_watermark for broker in cluster.brokers.values()}) == 1


def rebuilt_epochs(log: MemoryLog) -> list[tuple[int, int]]:
    """The epochs of a log as a scan finds them."""
    cache = EpochCache()
    for header, _ in log.batches:
        cache.assign(header.leader_epoch, max(header.base_offset, log.start))
    return cache.entries()


TestReplication = ReplicationMachine.TestCase
TestReplication.settings = settings(
    max_examples=30, stateful_step_count=60, deadline=None, report_multiple_bugs=False
)
