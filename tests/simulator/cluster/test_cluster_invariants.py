"""Each invariant of replication detects a state that breaks it.

A cluster runs without faults, and then its state is tampered with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.effects import DeleteLog
from kraftlog.wire.messages.fetch import PartitionData
from kraftlog_simulator.cluster.invariants import (
    CLUSTER_INVARIANTS,
    AcknowledgedIsKept,
    ClusterInvariant,
    EpochsGrow,
    ReplicaChange,
    SoundIsr,
)
from kraftlog_simulator.cluster.node import ReplicaSnapshot
from kraftlog_simulator.cluster.run import begin
from kraftlog_simulator.cluster.setting import ClusterSetting
from kraftlog_simulator.cluster.world import ClusterWorld
from kraftlog_simulator.setting import KAFKA_TIMES
from kraftlog_simulator.violation import Violation
from kraftlog_simulator.world import Goal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kraftlog.metadata.values import PartitionImage


#: The position of the leader epoch in a batch header.
EPOCH_POSITION = 12


class Scene:
    """A world of three brokers, with a partition that has some records."""

    def __init__(self, **settings: Any) -> None:
        setting = ClusterSetting(voters=3, raft=KAFKA_TIMES, **settings)
        self.world = world = ClusterWorld(5, setting)
        world.play(self.script())
        self.key = world.keys[0]
        self.leader = world.replicas[self.image.leader]
        self.log = self.leader.logs[self.key]
        self.committed = world.committed(self.key)
        self.partition: Any = self.leader.node.replica_manager.partitions[self.key]

    def script(self) -> Iterator[Goal]:
        yield from begin(self.world)
        key = self.world.keys[0]
        yield Goal("some records", lambda: len(self.world.committed(key).batches) > 5, 10_000)

    @property
    def image(self) -> PartitionImage:
        return self.world.image.partitions[self.world.keys[0]]

    def change_partition(self, **changes: Any) -> None:
        """Change the partition in the newest image, and show that to the invariants."""
        changed = self.image.replace(partition_epoch=self.image.partition_epoch + 1, **changes)
        self.world.image.partitions[self.key] = changed
        self.check_image()

    def check_image(self) -> None:
        for invariant in self.world.cluster_invariants:
            invariant.on_image(self.world.image)

    def check_replica(self, before: ReplicaSnapshot | None = None) -> None:
        """Show the invariants a change of the leader's replica."""
        change = ReplicaChange(self.leader, self.key, self.partition, before)
        for invariant in self.world.cluster_invariants:
            invariant.on_replica(change)

    def find(self, kind: type[ClusterInvariant]) -> ClusterInvariant:
        return next(i for i in self.world.cluster_invariants if type(i) is kind)

    def lose_batch(self) -> None:
        del self.log.batches[2], self.log.bases[2]


def a_new_leader_lacks_a_batch(scene: Scene) -> None:
    scene.committed.committed_in[2] = -1
    scene.lose_batch()
    scene.check_replica()


def a_new_leader_starts_late(scene: Scene) -> None:
    scene.log.start = scene.log.batches[2].base
    del scene.log.batches[:2], scene.log.bases[:2]
    scene.check_replica()


def a_new_leader_lacks_the_batch_that_it_starts_in(scene: Scene) -> None:
    """Clients have deleted the first record of the batch, but not the others."""
    batches = scene.log.batches
    lacking = next(i for i, batch in enumerate(batches) if batch.end - batch.base > 1)
    scene.committed.committed_in[lacking] = -1
    scene.committed.deleted_before = scene.log.start = batches[lacking].base + 1
    del batches[: lacking + 1], scene.log.bases[: lacking + 1]
    scene.check_replica()


def a_replica_that_lost_its_log_leads_again(scene: Scene) -> None:
    """Another broker has confirmed and kept the batch."""
    scene.world.kept.lose(scene.leader.id, scene.key)
    scene.committed.confirmed[7] = scene.committed.high_watermark
    scene.lose_batch()
    scene.check_replica()


def a_leader_commits_without_a_batch(scene: Scene) -> None:
    scene.lose_batch()
    scene.check_replica(ReplicaSnapshot(scene.partition.leader_epoch, True, True, 0, 0, 0))


def a_follower_is_ahead_of_all_leaders(scene: Scene) -> None:
    scene.partition.leads = scene.partition.online = False
    scene.partition.high_watermark = scene.committed.high_watermark + 1
    scene.check_replica()


def acknowledged_before_committed(scene: Scene) -> None:
    producer = scene.world.producers[0]
    producer.acks = -1
    for invariant in scene.world.cluster_invariants:
        invariant.on_acknowledged(producer, scene.key, 1, scene.committed.high_watermark)


def read_before_committed(scene: Scene) -> None:
    for invariant in scene.world.cluster_invariants:
        invariant.on_polled(
            scene.world.consumers[0], scene.key, 0, 0, scene.committed.high_watermark + 1
        )


def a_member_lost_a_batch(scene: Scene) -> None:
    scene.lose_batch()
    scene.world.truncated(scene.leader, scene.key)


def a_member_that_lost_data_joins_without_it(scene: Scene) -> None:
    scene.world.lossy.add(scene.leader.id)
    scene.committed.confirmed.clear()
    scene.lose_batch()
    scene.world._forget_recovered()


def a_member_joins_without_a_batch(scene: Scene) -> None:
    scene.change_partition(isr=(), leader=-1, last_known_elr=(0,), leader_epoch=9)
    scene.lose_batch()
    scene.change_partition(isr=(scene.leader.id,))


def a_member_is_not_counted(scene: Scene) -> None:
    scene.change_partition(isr=(0, 1, 2), replicas=(0, 1, 2))
    scene.check_replica(ReplicaSnapshot(scene.partition.leader_epoch, True, True, 0, 0, 0))


def the_leader_is_not_in_the_isr(scene: Scene) -> None:
    scene.change_partition(isr=(), leader_epoch=9)


def a_broker_without_a_replica_is_in_the_isr(scene: Scene) -> None:
    scene.change_partition(isr=(0, 1, 2))


def a_fenced_broker_is_in_the_isr(scene: Scene) -> None:
    scene.change_partition(replicas=(0, 1, 2))  # a sole replica may lead while it is fenced
    brokers = scene.world.image.brokers
    brokers[scene.leader.id] = brokers[scene.leader.id].replace(fenced=True)
    scene.check_image()


def no_replica_may_lead(scene: Scene) -> None:
    scene.change_partition(isr=(), leader=-1, leader_epoch=9)


def the_leader_epoch_falls(scene: Scene) -> None:
    scene.change_partition(leader_epoch=scene.image.leader_epoch - 1)


def a_leader_change_in_the_same_epoch(scene: Scene) -> None:
    scene.change_partition(leader=-1)


def the_partition_epoch_stays(scene: Scene) -> None:
    epoch = scene.image.partition_epoch
    scene.change_partition(recovery=1)
    scene.world.image.partitions[scene.key] = scene.image.replace(partition_epoch=epoch, recovery=0)
    scene.check_image()


def a_broker_epoch_falls(scene: Scene) -> None:
    brokers = scene.world.image.brokers
    brokers[0] = brokers[0].replace(epoch=0)
    scene.check_image()


def a_replica_goes_back_to_an_older_epoch(scene: Scene) -> None:
    scene.check_replica(ReplicaSnapshot(scene.partition.leader_epoch + 1, False, False, 0, 0, 0))


def a_replica_returns_from_no_role_to_an_older_epoch(scene: Scene) -> None:
    """While another process has the id of the broker, the replica has no epoch."""
    epoch, no_role = scene.partition.leader_epoch, ReplicaSnapshot(-1, False, False, 0, 0, 0)
    scene.partition.leader_epoch = epoch + 1
    scene.find(EpochsGrow).on_replica(
        ReplicaChange(scene.leader, scene.key, scene.partition, no_role)
    )
    scene.partition.leader_epoch = epoch
    scene.find(EpochsGrow).on_replica(
        ReplicaChange(scene.leader, scene.key, scene.partition, no_role)
    )


def a_registered_broker_gives_up_a_role(scene: Scene) -> None:
    scene.partition.leads = scene.partition.online = False
    scene.partition.leader_epoch = -1
    scene.check_replica()


def two_lead_in_an_epoch(scene: Scene) -> None:
    scene.committed.leaders[scene.partition.leader_epoch] = 7, 1
    scene.check_replica()


def the_high_watermark_falls(scene: Scene) -> None:
    mark = scene.partition.high_watermark
    old = ReplicaSnapshot(scene.partition.leader_epoch, True, True, mark + 1, mark, 0)
    scene.check_replica(old)


def the_high_watermark_is_beyond_the_end(scene: Scene) -> None:
    scene.partition.high_watermark = scene.partition.written_end + 1
    scene.committed.high_watermark = scene.partition.high_watermark
    scene.check_replica(ReplicaSnapshot(scene.partition.leader_epoch, True, True, 0, 0, 0))


def a_reassignment_completes_too_early(scene: Scene) -> None:
    leader = scene.leader.id
    others = tuple(sorted({0, 1, 2} - {leader}))
    scene.world.least_min_insync = 2
    moving = scene.image.replace(replicas=(0, 1, 2), isr=(0, 1, 2), adding=others)
    scene.world.partition_replayed(moving, moving.replace(adding=(), isr=(leader,)))


def a_replica_has_records_of_a_removed_partition(scene: Scene) -> None:
    scene.partition.first_leader_epoch = scene.log.first_epoch = 7
    scene.check_replica()


def more_is_deleted_than_requested(scene: Scene) -> None:
    scene.world.deleter.requested[scene.partition.topic, scene.partition.index] = 2
    scene.partition.start = 3
    scene.check_replica()


def an_added_partition_has_an_epoch_of_the_removed_one(scene: Scene) -> None:
    epoch = scene.image.leader_epoch
    scene.change_partition(leader_epoch=epoch + 1, first_leader_epoch=epoch + 1)
    scene.change_partition(leader_epoch=epoch + 2, first_leader_epoch=epoch)


def the_epoch_cache_is_wrong(scene: Scene) -> None:
    scene.log.batches[-1] = scene.log.batches[-1].replace(epoch=7)
    scene.check_replica()


TAMPERINGS: dict[Callable[[Scene], None], str] = {
    a_new_leader_lacks_a_batch: "what is acknowledged is kept",
    a_new_leader_starts_late: "what is acknowledged is kept",
    a_new_leader_lacks_the_batch_that_it_starts_in: "what is acknowledged is kept",
    a_replica_that_lost_its_log_leads_again: "what is acknowledged is kept",
    a_leader_commits_without_a_batch: "committed is kept",
    a_follower_is_ahead_of_all_leaders: "committed is kept",
    acknowledged_before_committed: "committed is kept",
    read_before_committed: "committed is kept",
    a_member_lost_a_batch: "what is acknowledged is kept",
    a_member_that_lost_data_joins_without_it: "every ISR member has what is committed",
    a_member_joins_without_a_batch: "every ISR member has what is committed",
    a_member_is_not_counted: "the leader counts the ISR",
    the_leader_is_not_in_the_isr: "sound ISR",
    a_broker_without_a_replica_is_in_the_isr: "sound ISR",
    a_fenced_broker_is_in_the_isr: "sound ISR",
    no_replica_may_lead: "sound ISR",
    the_leader_epoch_falls: "replication epochs grow",
    a_leader_change_in_the_same_epoch: "replication epochs grow",
    the_partition_epoch_stays: "replication epochs grow",
    a_broker_epoch_falls: "replication epochs grow",
    a_replica_goes_back_to_an_older_epoch: "replication epochs grow",
    a_replica_returns_from_no_role_to_an_older_epoch: "replication epochs grow",
    a_registered_broker_gives_up_a_role: "replication epochs grow",
    two_lead_in_an_epoch: "replication epochs grow",
    the_high_watermark_falls: "partition high watermark grows",
    the_high_watermark_is_beyond_the_end: "partition high watermark grows",
    a_reassignment_completes_too_early: "reassignment is safe",
    a_replica_has_records_of_a_removed_partition: "records of removed partitions are gone",
    an_added_partition_has_an_epoch_of_the_removed_one: "replication epochs grow",
    more_is_deleted_than_requested: "only what clients name is deleted",
    the_epoch_cache_is_wrong: "epoch cache matches the log",
}


def test_s8_a_replica_has_no_epoch_while_another_process_has_its_id() -> None:
    """Only while it has: see `a_registered_broker_gives_up_a_role`."""
    scene = Scene()
    brokers = scene.leader.node.image.brokers
    brokers[scene.leader.id] = brokers[scene.leader.id].replace(incarnation_id=bytes(16))
    before = ReplicaSnapshot(scene.partition.leader_epoch, True, True, 0, 0, 0)
    scene.partition.leads = scene.partition.online = False
    scene.partition.leader_epoch = -1
    change = ReplicaChange(scene.leader, scene.key, scene.partition, before)
    scene.find(EpochsGrow).on_replica(change)


def test_v11_a_consumer_notices_records_of_another_partition() -> None:
    """The consumer's position and epoch belong to the partition that was removed."""
    scene = Scene()
    [consumer] = scene.world.consumers
    position, epoch = consumer.positions[scene.key], consumer.epochs[scene.key]
    assert position > 0
    with pytest.raises(Violation, match="lost its position"):
        scene.world.check_must_restart(consumer, scene.key, position, epoch)
    scene.world.committed(scene.key, epoch + 1)
    scene.world.check_must_restart(consumer, scene.key, position, epoch)
    batch = scene.log.batches[-1]
    data = bytearray(batch.data)
    data[EPOCH_POSITION : EPOCH_POSITION + 4] = (epoch + 1).to_bytes(4, "big")
    response = PartitionData(
        partition_index=0,
        error_code=0,
        high_watermark=batch.end,
        aborted_transactions=None,
        records=bytes(data),
    )
    with pytest.raises(Violation, match="they are of different partitions"):
        consumer._take_records(scene.key, batch.base, response)


@pytest.mark.parametrize("tamper", TAMPERINGS, ids=lambda tamper: tamper.__name__)
def test_s1_to_s10_an_invariant_detects_its_violation(tamper: Callable[[Scene], None]) -> None:
    scene = Scene()
    with pytest.raises(Violation) as violation:
        tamper(scene)
    assert violation.value.invariant == TAMPERINGS[tamper]


def test_s1_to_s10_every_invariant_has_a_case() -> None:
    names = {invariant.name for invariant in CLUSTER_INVARIANTS}
    assert names == set(TAMPERINGS.values())


def test_v19_a_record_that_no_replica_kept_may_be_lost() -> None:
    """What clients saw of the partition is not judged any more, but later records are."""
    scene = Scene()
    scene.world.kept.lose(scene.leader.id, scene.key)
    end = scene.log.batches[2].base
    scene.lose_batch()
    scene.check_replica()
    assert scene.world.has_lost_records(scene.key)
    assert scene.committed.high_watermark == scene.partition.high_watermark > end
    assert scene.committed.confirmed == {scene.leader.id: scene.committed.high_watermark}
    scene.committed.committed_in[-1] = -1
    del scene.log.batches[-1], scene.log.bases[-1]
    with pytest.raises(Violation, match="confirmed and kept"):
        scene.check_replica()


def test_v19_a_requested_unclean_election_may_lose_records() -> None:
    scene = Scene()
    scene.world.kept.unclean.add(scene.key)
    scene.committed.committed_in[2] = -1
    scene.lose_batch()
    scene.check_replica()
    assert scene.world.has_lost_records(scene.key)


def test_v19_a_later_process_in_the_isr_keeps_its_log() -> None:
    scene = Scene()
    kept, leader, brokers = scene.world.kept, scene.leader, scene.world.image.brokers
    other = (leader.id + 1) % 3
    isr = leader.id, other
    kept.lose(leader.id, scene.key)
    for number, is_kept in enumerate((False, True)):
        scene.change_partition(isr=(other,), leader=other, replicas=isr, leader_epoch=9 + number)
        registration = brokers[leader.id]
        brokers[leader.id] = registration.replace(epoch=registration.epoch + number)
        scene.change_partition(isr=isr)
        assert kept.has_kept(leader.id, scene.key) == is_kept
        assert (leader.id in scene.committed.confirmed) == is_kept


@pytest.mark.parametrize("is_added_again", [False, True])
def test_v19_a_leader_counts_a_removed_replica(is_added_again: bool) -> None:
    """It does until it replays the removal; the replica may delete its log, and begin another."""
    scene = Scene()
    leader, committed = scene.leader.id, scene.committed
    removed = (leader + 1) % 3
    others = tuple({*range(3)} - {removed})
    scene.change_partition(replicas=(0, 1, 2), isr=(0, 1, 2))
    scene.change_partition(replicas=others, isr=others)
    if is_added_again:
        scene.change_partition(replicas=(0, 1, 2))
    scene.partition.isr = (0, 1, 2)
    committed.high_watermark -= 1
    scene.check_replica()
    assert committed.high_watermark == scene.partition.high_watermark
    assert {*committed.confirmed} == {*others}


def test_v19_a_replica_removed_and_added_within_one_image_began_again() -> None:
    """A reassignment ends, and the next one brings the replica back, before the image is seen."""
    scene = Scene()
    removed = (scene.leader.id + 1) % 3
    others = tuple({*range(3)} - {removed})
    scene.change_partition(replicas=(0, 1, 2), isr=(0, 1, 2))
    assert removed in scene.committed.confirmed
    full = scene.image
    without = full.replace(replicas=others, isr=others, partition_epoch=full.partition_epoch + 1)
    again = without.replace(replicas=(0, 1, 2), partition_epoch=full.partition_epoch + 2)
    invariant = scene.find(AcknowledgedIsKept)
    invariant.on_partition(full, without)
    invariant.on_partition(without, again)
    scene.world.image.partitions[scene.key] = again
    scene.check_image()
    assert {*scene.committed.confirmed} == {*others}
    scene.change_partition(isr=(0, 1, 2))
    assert removed in scene.committed.confirmed


def test_v21_eligible_replicas_may_become_a_fenced_isr() -> None:
    """All of them, until the next leader; of a partition that had none of them it is found."""
    scene = Scene()
    brokers, full = scene.world.image.brokers, scene.image
    for broker in (0, 1):
        brokers[broker] = brokers[broker].replace(fenced=True)
    alone = full.replace(replicas=(0, 1), isr=(), elr=(0, 1), leader=-1, leader_epoch=8)
    restored = alone.replace(isr=(0, 1), elr=(), partition_epoch=alone.partition_epoch + 1)
    invariant = scene.find(SoundIsr)
    invariant.on_partition(alone, restored)
    scene.world.image.partitions[scene.key] = restored
    invariant.on_image(scene.world.image)
    scene.world.image.partitions[scene.key] = restored.replace(leader_epoch=9)
    with pytest.raises(Violation, match=r"\[0, 1\] are fenced"):
        invariant.on_image(scene.world.image)


def test_v19_a_crash_may_bring_back_what_was_deleted() -> None:
    """A follower may have other records there, of a leader whose records nobody kept."""
    scene = Scene()
    scene.committed.deleted_before = scene.log.batches[2].base
    scene.committed.confirmed[scene.leader.id] = scene.committed.high_watermark
    scene.log.batches[0] = scene.log.batches[0].replace(epoch=99)
    scene.find(AcknowledgedIsKept).on_truncated(scene.leader, scene.key)
    scene.committed.deleted_before = 0
    with pytest.raises(Violation, match="truncated or deleted the acknowledged batch"):
        scene.find(AcknowledgedIsKept).on_truncated(scene.leader, scene.key)


def test_v11_records_committed_in_the_turn_of_a_removal_are_read() -> None:
    """Their acknowledgement may arrive after the removal, and after the log is deleted."""
    scene = Scene()
    node, log = scene.leader, scene.log
    unread = log.batches[-1]
    del log.batches[-1], log.bases[-1]
    log.read_position = log.read_position[0], log.read_position[1] - len(unread.data)
    node.node._effects.append(DeleteLog(scene.partition.log, scene.partition.topic_id))
    node.node.take_effects()
    assert log.batches[-1] == unread


@pytest.mark.parametrize("is_requested", [True, False])
def test_v19_records_deleted_in_the_turn_of_a_move_are_not_missed(is_requested: bool) -> None:
    """A copy takes the log's place in the turn in which its start moves; it must have all else."""
    scene = Scene()
    node, key = scene.leader, scene.key
    log: Any = node.runner.logs.get(scene.partition.log)
    log.move_start(scene.log.batches[2].base)
    scene.log.log = None
    node.seen[key] = node.seen[key]._replace(written_end=0)
    if is_requested:
        scene.world.deleter.requested[scene.partition.log] = log.start_offset
        scene.partition.start_moved(log.start_offset)
        node._report_turn()
    else:
        with pytest.raises(Violation, match="truncated or deleted the acknowledged batch"):
            node._report_turn()
