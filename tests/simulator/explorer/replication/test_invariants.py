"""Each invariant of a replicated partition detects a handmade state that breaks it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.effects import TruncatePartition
from kraftlog_simulator.explorer.bounds import NODES
from kraftlog_simulator.explorer.invariants import Broken
from kraftlog_simulator.explorer.replication.bounds import A, B, Bound, C
from kraftlog_simulator.explorer.replication.broker import objects, step
from kraftlog_simulator.explorer.replication.cluster import BOUNDED, METADATA, Cluster
from kraftlog_simulator.explorer.replication.invariants import (
    History,
    check_shutdown,
    check_state,
    check_step,
)
from kraftlog_simulator.explorer.replication.metadata import (
    TOPIC_ID,
    Metadata,
    check_reassignment,
)
from kraftlog_simulator.explorer.replication.process import PendingProduce, record_of

if TYPE_CHECKING:
    from kraftlog.replication.partition import Partition
    from kraftlog.types import Uuid
    from kraftlog_simulator.explorer.replication.broker import Broker

BUDGET_SPENT = History((0,) * len(BOUNDED))


class HandmadeState:
    """A state of three brokers; A leads in epoch 1, and all logs are empty."""

    def __init__(self) -> None:
        cluster = Cluster(Bound("for tests"))
        first = cluster.first
        self.brokers: list[Broker] = [objects.copy(cluster.brokers[n]) for n in first[:NODES]]
        self.metadata: Metadata = objects.copy(cluster.metadata[first[METADATA]])

    def partition(self, broker_id: int) -> Partition:
        partition = self.brokers[broker_id].partition
        assert partition is not None
        return partition

    def write(self, broker_id: int, epochs: str, committed: int = 0) -> None:
        """Replace the log of a broker: a record for each digit, which is the record's epoch."""
        log = self.brokers[broker_id].log
        log.truncate(0)
        log.extend([batch(offset, int(epoch)) for offset, epoch in enumerate(epochs)])
        self.partition(broker_id).high_watermark = committed

    def change_partition(self, **changes: Any) -> None:
        state = self.metadata.controller.state
        key = TOPIC_ID, 0
        state.partitions[key] = state.partitions[key].replace(**changes)

    def check(self) -> History:
        history = BUDGET_SPENT
        for broker in self.brokers:
            history = history.with_broker(broker)
        check_state(self.brokers, self.metadata, history)
        return history

    def broken_invariant(self) -> str:
        """The name of the invariant that the state breaks."""
        with pytest.raises(Broken) as broken:
            self.check()
        return broken.value.invariant

    def invariant_broken_by_step(self, broker_id: int, old: Broker) -> str:
        with pytest.raises(Broken) as broken:
            check_step(old, self.brokers[broker_id])
        return broken.value.invariant


def batch(offset: int, epoch: int, topic_id: Uuid = TOPIC_ID) -> bytes:
    record = record_of(topic_id)
    return offset.to_bytes(8, "big") + record[8:12] + epoch.to_bytes(4, "big") + record[16:]


@pytest.fixture
def state() -> HandmadeState:
    return HandmadeState()


def test_equal_logs_break_no_invariant(state: HandmadeState) -> None:
    for broker_id in (A, B, C):
        state.write(broker_id, "11", committed=2)
    assert state.check().committed_of(TOPIC_ID) == state.brokers[A].log.batches


def test_s7_another_committed_record_is_detected(state: HandmadeState) -> None:
    state.write(A, "12", committed=2)
    state.write(B, "11", committed=2)
    assert state.broken_invariant() == "what is committed never changes"


def test_s7_a_follower_beyond_what_is_committed_is_detected(state: HandmadeState) -> None:
    state.write(A, "1", committed=0)
    state.write(B, "1", committed=1)
    assert state.broken_invariant() == "a follower serves only what is committed"


def test_s7_only_later_leaders_count_after_an_unclean_election(state: HandmadeState) -> None:
    state.write(A, "1", committed=1)
    history = BUDGET_SPENT.with_broker(state.brokers[A])
    assert len(history.committed_of(TOPIC_ID)) == 1
    after = history.with_unclean_election(TOPIC_ID, epoch=2)
    assert after.with_broker(state.brokers[A]).committed_of(TOPIC_ID) == ()
    state.partition(A).leader_epoch = 2
    counted = after.with_broker(state.brokers[A]).committed_of(TOPIC_ID)
    assert counted == state.brokers[A].log.batches


def test_s4_a_broker_that_lost_records_may_lack_committed_ones(state: HandmadeState) -> None:
    state.write(A, "1", committed=1)
    state.write(C, "1")
    assert state.broken_invariant() == "every member of the ISR has what is committed"
    state.brokers[B].lost_records = True
    state.check()


def test_s4_an_isr_member_without_a_committed_record_is_detected(state: HandmadeState) -> None:
    state.write(A, "1", committed=1)
    state.write(B, "1")
    assert state.broken_invariant() == "every member of the ISR has what is committed"
    state.change_partition(isr=(A, B))
    state.check()
    state.change_partition(elr=(C,))
    assert state.broken_invariant() == "every member of the ISR has what is committed"


def test_s6_a_common_batch_after_a_difference_is_detected(state: HandmadeState) -> None:
    state.write(A, "13")
    state.write(B, "23")
    assert state.broken_invariant() == "logs with a batch in common are the same up to it"


@pytest.mark.parametrize(
    "changes",
    [
        {"isr": (B, C)},
        {"isr": (A, B, 7)},
        {"isr": (), "leader": A},
        {"isr": (A, B), "leader": -1},
        {"isr": (), "leader": -1, "elr": ()},
    ],
)
def test_s2_an_unsound_isr_is_detected(state: HandmadeState, changes: dict[str, Any]) -> None:
    state.change_partition(**changes)
    assert state.broken_invariant() == "the ISR is sound"


def test_s2_a_fenced_broker_in_the_isr_is_detected(state: HandmadeState) -> None:
    brokers = state.metadata.controller.state.brokers
    brokers[B] = brokers[B].replace(fenced=True)
    assert state.broken_invariant() == "the ISR is sound"


def test_s8_a_leader_that_was_not_elected_is_detected(state: HandmadeState) -> None:
    state.metadata.elected[TOPIC_ID, 1] = B
    assert state.broken_invariant() == "one leader an epoch"


def test_s3_a_leader_that_does_not_count_the_isr_is_detected(state: HandmadeState) -> None:
    state.partition(A).isr = (A, B)
    assert state.broken_invariant() == "the leader counts the ISR"
    state.partition(A).propose_isr((A, B, C), (A, B, C))
    state.check()


def test_s8_a_decreasing_epoch_is_detected(state: HandmadeState) -> None:
    old = objects.copy(state.brokers[B])
    state.partition(B).leader_epoch = 0
    assert state.invariant_broken_by_step(B, old) == "epochs grow"
    state.partition(B).leader_epoch = 1
    state.partition(B).partition_epoch = -1
    assert state.invariant_broken_by_step(B, old) == "epochs grow"


def test_s7_a_falling_high_watermark_is_detected(state: HandmadeState) -> None:
    state.write(B, "1", committed=1)
    old = objects.copy(state.brokers[B])
    state.partition(B).high_watermark = 0
    assert state.invariant_broken_by_step(B, old) == "the high watermark never falls"
    check_step(old, state.brokers[B], may_lose=True)
    check_step(step(old, "crash", (1, 0)).broker, state.brokers[B])


def test_a_high_watermark_beyond_the_log_is_detected(state: HandmadeState) -> None:
    old = objects.copy(state.brokers[B])
    state.partition(B).high_watermark = 1
    assert state.invariant_broken_by_step(B, old) == "what is committed is in the log"


def test_s5_an_acknowledged_uncommitted_record_is_detected(state: HandmadeState) -> None:
    process = state.brokers[A].process
    assert process is not None
    process.produce()
    pending: Any = PendingProduce(process, 0)
    [waiting] = process.replica.acks
    pending.response = waiting[1].response
    with pytest.raises(Broken, match="only committed records are acknowledged: offset 0"):
        pending.respond(pending.response)


def test_a_leader_that_truncates_its_log_is_detected(state: HandmadeState) -> None:
    process = state.brokers[A].process
    assert process is not None
    process.effects.append(TruncatePartition(("t", 0), TOPIC_ID, 0))
    with pytest.raises(Broken, match="a leader truncates nothing: broker 0 at 0"):
        process.turn()


def test_s9_a_record_of_another_topic_of_the_same_name_is_detected(state: HandmadeState) -> None:
    old = objects.copy(state.brokers[B])
    state.brokers[B].log.extend([batch(0, 1, topic_id=b"o" * 16)])
    assert state.invariant_broken_by_step(B, old) == "a topic has only its own records"


def test_s9_a_log_of_a_deleted_topic_is_detected(state: HandmadeState) -> None:
    state.write(A, "1")
    state.metadata.delete()
    state.check()  # no broker knows it yet
    process = state.brokers[A].process
    assert process is not None
    process.replay(state.metadata.batches[-1])
    assert state.broken_invariant() == "a replica that is not assigned is deleted"
    process.turn()
    state.check()


def test_s10_a_reassignment_that_does_not_wait_is_detected(state: HandmadeState) -> None:
    state.change_partition(replicas=(A, B, C), isr=(A, B), adding=(C,), removing=(A,))
    partition = state.metadata.partition
    assert partition is not None
    complete = partition.replace(replicas=(B, C), isr=(B,), adding=(), removing=())
    with pytest.raises(Broken, match="C is not in the ISR"):
        check_reassignment(partition, complete)
    check_reassignment(partition, complete.replace(isr=(B, C)))
    check_reassignment(partition, partition.replace(replicas=(A, B), adding=(), removing=()))


def test_v3_a_broker_that_stops_too_early_is_detected(state: HandmadeState) -> None:
    first = state.metadata
    assert not first.shut_down(A, first.end - 1).should_shut_down
    everything = {B: len(first.batches), C: len(first.batches)}
    check_shutdown(A, first, first, everything)
    with pytest.raises(Broken, match="C has replayed 1 of 2 before A stops"):
        check_shutdown(A, first, first, {**everything, C: 1})
    with pytest.raises(Broken, match="B leads"):
        check_shutdown(B, first, first, everything)
