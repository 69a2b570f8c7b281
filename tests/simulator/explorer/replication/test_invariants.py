"""Each invariant of a replicated partition detects a handmade state that breaks it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.effects import TruncatePartition
from kraftlog.simulator.explorer.bounds import NODES
from kraftlog.simulator.explorer.invariants import Broken
from kraftlog.simulator.explorer.replication.bounds import A, B, Bound, C
from kraftlog.simulator.explorer.replication.broker import objects, step
from kraftlog.simulator.explorer.replication.cluster import BOUNDED, METADATA, Cluster
from kraftlog.simulator.explorer.replication.invariants import (
    History,
    check_shutdown,
    check_state,
    check_step,
)
from kraftlog.simulator.explorer.replication.metadata import (
    TOPIC_ID,
    Metadata,
    check_reassignment,
)
from kraftlog.simulator.explorer.replication.process import ProduceSlot, record_of

if TYPE_CHECKING:
    from kraftlog.replication.partition import Partition
    from kraftlog.simulator.explorer.replication.broker import Broker
    from kraftlog.types import Uuid

BUDGET_SPENT = History((0,) * len(BOUNDED))


class Handmade:
    """A state of three brokers; A leads in epoch 1, and all logs are empty."""

    def __init__(self) -> None:
        cluster = Cluster(Bound("for tests"))
        first = cluster.first
        self.brokers: list[Broker] = [objects.copy(cluster.brokers[n]) for n in first[:NODES]]
        self.metadata: Metadata = objects.copy(cluster.metadata[first[METADATA]])

    def partition(self, broker_id: int) -> Partition:
        found = self.brokers[broker_id].partition
        assert found is not None
        return found

    def write(self, broker_id: int, epochs: str, committed: int = 0) -> None:
        """Replace the log of a broker: a record for each letter, which is its epoch."""
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
        with pytest.raises(Broken) as broken_invariant:
            self.check()
        return broken_invariant.value.invariant

    def invariant_broken_by_step(self, broker_id: int, old: Broker) -> str:
        with pytest.raises(Broken) as broken_invariant:
            check_step(old, self.brokers[broker_id])
        return broken_invariant.value.invariant


def batch(offset: int, epoch: int, topic_id: Uuid = TOPIC_ID) -> bytes:
    record = record_of(topic_id)
    return offset.to_bytes(8, "big") + record[8:12] + epoch.to_bytes(4, "big") + record[16:]


@pytest.fixture
def made() -> Handmade:
    return Handmade()


def test_equal_logs_break_no_invariant(made: Handmade) -> None:
    for broker_id in (A, B, C):
        made.write(broker_id, "11", committed=2)
    assert made.check().committed_of(TOPIC_ID) == made.brokers[A].log.batches


def test_s7_another_committed_record_is_detected(made: Handmade) -> None:
    made.write(A, "12", committed=2)
    made.write(B, "11", committed=2)
    assert made.broken_invariant() == "what is committed never changes"


def test_s7_a_follower_beyond_what_is_committed(made: Handmade) -> None:
    made.write(A, "1", committed=0)
    made.write(B, "1", committed=1)
    assert made.broken_invariant() == "a follower serves only what is committed"


def test_s7_only_later_leaders_count_after_an_unclean_election(made: Handmade) -> None:
    made.write(A, "1", committed=1)
    history = BUDGET_SPENT.with_broker(made.brokers[A])
    assert len(history.committed_of(TOPIC_ID)) == 1
    after = history.with_unclean_election(TOPIC_ID, epoch=2)
    assert after.with_broker(made.brokers[A]).committed_of(TOPIC_ID) == ()
    made.partition(A).leader_epoch = 2
    counted = after.with_broker(made.brokers[A]).committed_of(TOPIC_ID)
    assert counted == made.brokers[A].log.batches


def test_s4_a_broker_that_lost_records_counts_once_it_is_registered(made: Handmade) -> None:
    made.write(A, "1", committed=1)
    made.write(C, "1")
    assert made.broken_invariant() == "every member of the ISR has what is committed"
    made.brokers[B].lost_records = True
    made.check()


def test_s4_a_member_of_the_isr_without_a_committed_record(made: Handmade) -> None:
    made.write(A, "1", committed=1)
    made.write(B, "1")
    assert made.broken_invariant() == "every member of the ISR has what is committed"
    made.change_partition(isr=(A, B))
    made.check()
    made.change_partition(elr=(C,))
    assert made.broken_invariant() == "every member of the ISR has what is committed"


def test_s6_logs_with_a_common_batch_after_a_difference(made: Handmade) -> None:
    made.write(A, "13")
    made.write(B, "23")
    assert made.broken_invariant() == "logs with a batch in common are the same up to it"


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
def test_s2_an_unsound_isr_is_detected(made: Handmade, changes: dict[str, Any]) -> None:
    made.change_partition(**changes)
    assert made.broken_invariant() == "the ISR is sound"


def test_s2_a_fenced_broker_in_the_isr_is_detected(made: Handmade) -> None:
    brokers = made.metadata.controller.state.brokers
    brokers[B] = brokers[B].replace(fenced=True)
    assert made.broken_invariant() == "the ISR is sound"


def test_s8_a_leader_that_was_not_elected_is_detected(made: Handmade) -> None:
    made.metadata.elected[TOPIC_ID, 1] = B
    assert made.broken_invariant() == "one leader an epoch"


def test_s3_a_leader_that_does_not_count_the_isr(made: Handmade) -> None:
    made.partition(A).isr = (A, B)
    assert made.broken_invariant() == "the leader counts the ISR"
    made.partition(A).propose_isr((A, B, C), (A, B, C))
    made.check()


def test_s8_a_decreasing_epoch_is_detected(made: Handmade) -> None:
    old = objects.copy(made.brokers[B])
    made.partition(B).leader_epoch = 0
    assert made.invariant_broken_by_step(B, old) == "epochs grow"
    made.partition(B).leader_epoch = 1
    made.partition(B).partition_epoch = -1
    assert made.invariant_broken_by_step(B, old) == "epochs grow"


def test_s7_a_falling_high_watermark_is_detected(made: Handmade) -> None:
    made.write(B, "1", committed=1)
    old = objects.copy(made.brokers[B])
    made.partition(B).high_watermark = 0
    assert made.invariant_broken_by_step(B, old) == "the high watermark never falls"
    check_step(old, made.brokers[B], may_lose=True)
    check_step(step(old, "crash", (1, 0)).broker, made.brokers[B])


def test_a_high_watermark_beyond_the_log_is_detected(made: Handmade) -> None:
    old = objects.copy(made.brokers[B])
    made.partition(B).high_watermark = 1
    assert made.invariant_broken_by_step(B, old) == "what is committed is in the log"


def test_s5_an_acknowledged_record_that_is_not_committed(made: Handmade) -> None:
    process = made.brokers[A].process
    assert process is not None
    process.produce()
    slot: Any = ProduceSlot(process, 0)
    [waiting] = process.replica.acks
    slot.response = waiting[1].response
    with pytest.raises(Broken, match="only committed records are acknowledged: offset 0"):
        slot.respond(slot.response)


def test_a_leader_that_truncates_its_log_is_detected(made: Handmade) -> None:
    process = made.brokers[A].process
    assert process is not None
    process.effects.append(TruncatePartition(("t", 0), TOPIC_ID, 0))
    with pytest.raises(Broken, match="a leader truncates nothing: broker 0 at 0"):
        process.turn()


def test_s9_a_record_of_a_topic_of_the_same_name(made: Handmade) -> None:
    old = objects.copy(made.brokers[B])
    made.brokers[B].log.extend([batch(0, 1, topic_id=b"o" * 16)])
    assert made.invariant_broken_by_step(B, old) == "a topic has only its own records"


def test_s9_a_log_of_a_deleted_topic_is_detected(made: Handmade) -> None:
    made.write(A, "1")
    made.metadata.delete()
    made.check()  # no broker knows it yet
    process = made.brokers[A].process
    assert process is not None
    process.replay(made.metadata.batches[-1])
    assert made.broken_invariant() == "a replica that is not assigned is deleted"
    process.turn()
    made.check()


def test_s10_a_reassignment_that_does_not_wait(made: Handmade) -> None:
    made.change_partition(replicas=(A, B, C), isr=(A, B), adding=(C,), removing=(A,))
    partition = made.metadata.partition
    assert partition is not None
    complete = partition.replace(replicas=(B, C), isr=(B,), adding=(), removing=())
    with pytest.raises(Broken, match="C is not in the ISR"):
        check_reassignment(partition, complete)
    check_reassignment(partition, complete.replace(isr=(B, C)))
    check_reassignment(partition, partition.replace(replicas=(A, B), adding=(), removing=()))


def test_v3_a_broker_that_stops_too_early(made: Handmade) -> None:
    first = made.metadata
    assert not first.shut_down(A, first.end - 1).should_shut_down
    everything = {B: len(first.batches), C: len(first.batches)}
    check_shutdown(A, first, first, everything)
    with pytest.raises(Broken, match="C has replayed 1 of 2 before A stops"):
        check_shutdown(A, first, first, {**everything, C: 1})
    with pytest.raises(Broken, match="B leads"):
        check_shutdown(B, first, first, everything)
