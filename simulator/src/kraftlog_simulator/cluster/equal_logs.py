"""Compares the logs of a partition's replicas, as their files have them, at every quiet moment."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.cluster.invariants import ClusterInvariant, ReplicaChange
from kraftlog_simulator.nodes.equal_logs import first_difference, stored_bytes, without_deleted

if TYPE_CHECKING:
    from kraftlog.metadata.image import Image
    from kraftlog.metadata.values import PartitionImage, PartitionKey
    from kraftlog.replication.partition import Partition
    from kraftlog.storage.log import Log
    from kraftlog_simulator.cluster.node import ClusterNode
    from kraftlog_simulator.cluster.world import ClusterWorld


class LogsAreEqual(ClusterInvariant):
    """V6, S1: replicas of a partition that have the same end, in the same epoch, have the same log.

    A moment is quiet for a partition if all its brokers that run have the replica, none truncates
    it or has yet to write to it, all have the same leader epoch and log end, and the last record is
    of the same epoch or everything is committed by all replicas. (Otherwise a follower may still
    have to notice, at its first fetch, that its log diverges.) Then all batches are compared,
    committed or not, in the ISR or not.
    """

    name = "logs are equal"

    def __init__(self, world: ClusterWorld) -> None:
        super().__init__(world)
        #: By partition: ends and processes at the last comparison, which is not repeated.
        self._compared: dict[PartitionKey, object] = {}

    def on_replica(self, change: ReplicaChange) -> None:
        image = self.world.image.partitions.get(change.key)
        if image is not None:
            self._compare_if_quiet(change.key, image)

    def on_image(self, image: Image) -> None:
        for key, partition in image.partitions.items():
            self._compare_if_quiet(key, partition)

    def _compare_if_quiet(self, key: PartitionKey, image: PartitionImage) -> None:
        replicas = self._quiet_replicas(key, image)
        if len(replicas) < 2:
            return
        _, partition, _ = replicas[0]
        now = (
            partition.first_leader_epoch,
            partition.leader_epoch,
            partition.end,
            [(node.id, node.incarnation, partition.start) for node, partition, _ in replicas],
        )
        if self._compared.get(key) == now:
            return
        self._compared[key] = now
        self.world.saw("logs of a partition compared")
        start = max([partition.start for _, partition, _ in replicas])
        difference = first_difference(
            [
                (node, without_deleted(stored_bytes(node.files, log), start))
                for node, _, log in replicas
            ]
        )
        if difference is not None:
            self.fail(f"{partition.topic}-{partition.index}: {difference}")

    def _quiet_replicas(
        self, key: PartitionKey, image: PartitionImage
    ) -> list[tuple[ClusterNode, Partition, Log]]:
        """The running replicas of a partition, if nothing is on its way between them; else none."""
        replicas = []
        first = None
        for broker in image.replicas:
            node = self.world.replicas[broker]
            if node.core is None:
                continue
            partition = node.node.replica_manager.partitions.get(key)
            if partition is None or not partition.is_open or partition.is_truncating:
                return []
            state = partition.first_leader_epoch, partition.leader_epoch, partition.end
            first = first or state
            if state != first or partition.end != partition.written_end:
                return []
            log = node.runner.logs.get(partition.log)
            if log is None or log.topic_id != partition.topic_id or log.clean_offset:
                return []  # it is being replaced, or was compacted, each replica's in its own time
            if log.end_offset != partition.end:
                return []
            replicas.append((node, partition, log))
        last_epochs = {log.epochs.latest for _, _, log in replicas}
        return replicas if len(last_epochs) < 2 or _is_committed(image, replicas) else []


def _is_committed(
    image: PartitionImage, replicas: list[tuple[ClusterNode, Partition, Log]]
) -> bool:
    """Whether the leader counts all replicas, and has everything committed."""
    return {*image.isr} == {*image.replicas} and any(
        partition.online
        and partition.high_watermark == partition.end
        and partition.partition_epoch == image.partition_epoch
        for _, partition, _ in replicas
    )
