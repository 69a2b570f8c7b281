"""V24: the event that fulfils what a produce or fetch request waits for answers it.

After each turn of a broker, unless it is in the midst of a replay, nothing that it knows may fulfil
a request that still waits. So a wait ends with the fetch, the response of
the controller or the record that ends it, not with the next request nor with a periodic check.
"""

from __future__ import annotations

from kraftlog.node.fetch.delayed import DelayedFetch
from kraftlog.replication.followers import UNKNOWN
from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.cluster.invariants import ClusterInvariant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraftlog.metadata.values import PartitionImage, PartitionKey
    from kraftlog.replication.followers import Follower
    from kraftlog.replication.partition import Partition
    from kraftlog.wire.messages.fetch import FetchPartition
    from kraftlog_simulator.cluster.node import ClusterNode


class ProduceIsAnswered(ClusterInvariant):
    """V24: a batch with acks=all is answered once every replica that counts has confirmed it.

    The committed ISR counts, a proposed ISR that is not outdated, and an unfenced follower that may
    be about to join. As time alone ends that, the follower counts until the leader has next checked
    who lags. If the ISR is smaller than min.insync.replicas, the batch fails instead.
    """

    name = "no batch waits for further traffic"

    def on_settled_turn(self, node: ClusterNode) -> None:
        for key, partition in node.node.replica_manager.partitions.items():
            if partition.online and partition.awaiting_isr:
                image = node.node.image.partitions.get(key)
                if image is not None and leads(node, partition, image):
                    self._check(node, partition, image)

    def _check(self, node: ClusterNode, partition: Partition, image: PartitionImage) -> None:
        offset = partition.awaiting_isr[0].offset
        what = f"{node}: a batch of {partition.topic}-{partition.index}"
        self.world.saw("batch waits for the ISR")
        least = min(partition.append_config.min_insync_replicas, len(image.replicas))
        if len(image.isr) < least:
            if any(delayed.may_fail for delayed in partition.awaiting_isr):
                self.fail(f"{what} waits, although the ISR {image.isr} is smaller than {least}")
            return
        if not any(self._awaited(node, partition, image, offset)):
            self.fail(
                f"{what} waits for offset {offset}, which every replica that counts has confirmed: "
                f"ISR {image.isr}, proposed {partition.proposed}"
            )

    def _awaited(
        self, node: ClusterNode, partition: Partition, image: PartitionImage, offset: int
    ) -> Iterator[bool]:
        """Whether each follower is waited for."""
        members, proposed = {*image.isr}, partition.proposed
        if proposed is not None and proposed.partition_epoch == image.partition_epoch:
            members.update(proposed.isr)
        followers = partition.followers.by_broker if partition.followers is not None else {}
        for broker in image.replicas:
            if broker != node.id:
                follower = followers.get(broker)
                end = -1 if follower is None else follower.end
                yield end < offset and (
                    broker in members or (follower is not None and self._may_join(node, follower))
                )

    def _may_join(self, node: ClusterNode, follower: Follower) -> bool:
        """Whether a follower outside the ISR is unfenced, and caught up lately."""
        broker = node.node.image.brokers.get(follower.broker_id)
        lag_ms = self.world.setting.lag_ms
        return (
            broker is not None
            and broker.active
            and follower.broker_epoch in (UNKNOWN, broker.epoch)
            and node.node.now.monotonic_ms - follower.caught_up_ms <= lag_ms + lag_ms // 2
        )


class FetchIsAnswered(ClusterInvariant):
    """V24: a delayed fetch is answered once there is a record to read, or an error to report.

    A truncated or restarted log of a follower may lack the position of a consumer.

    Consumers read up to the high watermark, followers up to what the leader has written.
    """

    name = "no fetch waits for further traffic"

    def on_settled_turn(self, node: ClusterNode) -> None:
        node.delayed = [operation for operation in node.delayed if not operation.done]
        for fetch in node.delayed:
            if isinstance(fetch, DelayedFetch) and fetch.request.min_bytes <= 1:
                for key, requested in _requested(fetch):
                    self._check(node, fetch, key, requested)

    def _check(
        self, node: ClusterNode, fetch: DelayedFetch, key: PartitionKey, requested: FetchPartition
    ) -> None:
        partition = node.node.replica_manager.partitions.get(key)
        reader = (
            f"broker {fetch.reading.reader.follower[0]}" if fetch.is_by_follower else "a consumer"
        )
        if partition is None:
            self.fail(f"{node}: a fetch by {reader} waits for partition {key}, which it has not")
        is_throttled = fetch.is_by_follower and fetch.reading.throttle is not None
        awaits_its_log = partition.leads and partition.is_open and not partition.online
        if is_throttled or awaits_its_log:  # the end of either wakes the fetch
            return
        name = f"{partition.topic}-{partition.index}"
        what = f"{node}: a fetch of {name} by {reader} waits at"
        self.world.saw("fetch waits")
        code = partition.error_for_request(
            requested.current_leader_epoch, reads_followers=fetch.reading.reader.reads_followers
        )
        if code:
            self.fail(f"{what} {requested.fetch_offset}, although it has the error {code}")
        if not partition.start <= requested.fetch_offset <= partition.end:
            self.fail(
                f"{what} {requested.fetch_offset}, although the log has the offsets from "
                f"{partition.start} to {partition.end}"
            )
        limit = partition.written_end if fetch.is_by_follower else partition.high_watermark
        if requested.fetch_offset < limit:
            self.fail(f"{what} {requested.fetch_offset}, although it can read up to {limit}")


def _requested(fetch: DelayedFetch) -> Iterator[tuple[PartitionKey, FetchPartition]]:
    """The partitions that a delayed fetch waits for: those of its session, if it has one."""
    if fetch.session is None:
        for topic in fetch.request.topics:
            for part in topic.partitions:
                yield (topic.topic_id, part.partition), part
        return
    for session_topic in fetch.session.topics.values():
        for index, entry in session_topic.by_index.items():
            yield (session_topic.topic_id, index), entry.request


def leads(node: ClusterNode, partition: Partition, image: PartitionImage) -> bool:
    """Whether a broker leads a partition, by the metadata that it has replayed."""
    return image.leader == node.id and image.leader_epoch == partition.leader_epoch
