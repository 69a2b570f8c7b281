"""`ReplicaManager`: the partitions that this broker hosts.

It follows the metadata image: it opens and deletes logs, and partitions become leader or resign.
Appends of requests go to the flat list `turn`. The host writes and empties it once per turn of its
loop, then calls `written`, `write_failed` or `undo`, which completes the waiting requests.

A starting broker replays old metadata, but its disk may have the log of a topic created since. So
it touches no log before it has replayed its own registration (`open_logs`), which follows all
metadata that its earlier processes replayed. Logs that the image then lacks are strays.
"""

from __future__ import annotations

from kraftlog.effects import (
    DeleteLog,
    LogFailed,
    LogOpened,
    LogPlaced,
    LogPostponed,
    LogStartMoved,
    LogStartNotStored,
    LogTruncated,
    MarkStrays,
    MoveLogStart,
    OpenLog,
)
from kraftlog.errors import ErrorCode
from kraftlog.metadata.changes import BrokerChanged, ConfigChanged, PartitionChanged, TopicRemoved
from kraftlog.metadata.loader import MetadataPublisher
from kraftlog.part import Part
from kraftlog.replication.counts import BrokerTopicStats
from kraftlog.replication.delayed_deletions import DelayedDeletions
from kraftlog.replication.delayed_fetches import DelayedFetches
from kraftlog.replication.delayed_produce import DelayedProduce, complete_wait
from kraftlog.replication.directory_assignments import DirectoryAssignments, open_directories
from kraftlog.replication.in_sync_replicas import InSyncReplicas
from kraftlog.replication.lost_replicas import LostReplicas
from kraftlog.replication.partition import UNTIL_COMMITTED, Partition
from kraftlog.replication.partition_settings import PartitionSettings
from kraftlog.replication.quotas import ReplicationQuotas
from kraftlog.replication.replica_fetchers import CHANNEL_PREFIX, ReplicaFetchers
from kraftlog.steps import free_if_empty
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from kraftlog.effects import ConnectionRefused, LogReport
    from kraftlog.metadata.changes import Change
    from kraftlog.metadata.image import Image
    from kraftlog.metadata.loader import MetadataLoader
    from kraftlog.metadata.values import BrokerImage, PartitionImage
    from kraftlog.replication.partition import PartitionAppend
    from kraftlog.replication.replicating_node import ReplicatingNode
    from kraftlog.replication.services import PartitionListener, ReplicationConfig
    from kraftlog.replication.topic_configs import TopicConfigs
    from kraftlog.types import DelayedResponse, LogName, Now, Uuid


#: The leader epoch of a partition without a role.
NO_EPOCH = -1
#: The reports that end the wait for a log to open.
_ENDS_OPENING = frozenset((LogOpened, LogFailed, LogPostponed))


class ReplicaManager(Part, MetadataPublisher):
    """Finds partitions, and applies image changes and the host's reports to them."""

    task = "replicating partitions"
    name = "replica manager"

    def __init__(
        self,
        config: ReplicationConfig,
        metadata: MetadataLoader,
        topic_configs: TopicConfigs,
        node: ReplicatingNode,
    ) -> None:
        self._broker_id = config.fetch.broker_id
        self._listener = config.listener
        self._metadata = metadata
        self._topic_configs = topic_configs
        self._node = node
        self._emit = node.emit
        self.listeners: list[PartitionListener] = []
        self.partitions: dict[tuple[Uuid, int], Partition] = {}
        self.by_log: dict[LogName, Partition] = {}
        self._settings = PartitionSettings(metadata, topic_configs, self.partitions, node.emit)
        #: The appends of this turn, each to one partition.
        self.turn: list[PartitionAppend] = []
        self.topic_stats = BrokerTopicStats()
        #: Whether the broker has replayed its registration: no log is touched before.
        self.is_registered = False
        #: Whether the replicas of earlier processes are open; later ones begin with this process.
        self._has_opened_logs = False
        #: Topics whose deletion was replayed before this broker's registration.
        self._deleted_before_registration: set[Uuid] = set()
        #: Partitions with a log that is to be opened.
        self._unopened: set[tuple[Uuid, int]] = set()
        #: Whether partitions may lead and follow: this process is registered under the broker's id.
        self._has_roles = False
        #: How often high watermarks have moved; `LogMaintenance` stores them if any has (V15).
        self.high_watermark_moves = 0
        self.selects_by_rack = config.selects_by_rack
        self.delayed_fetches = DelayedFetches(node, wakes_followers=config.selects_by_rack)
        self.quotas = ReplicationQuotas(config, node, topic_configs)
        self.deletions = DelayedDeletions(node, metadata)
        self.in_sync_replicas = InSyncReplicas(
            config, node, metadata, self.deletions, self._high_watermark_moved
        )
        self.directory_assignments = DirectoryAssignments(self._broker_id, node)
        self.lost_replicas = LostReplicas(
            self._broker_id, metadata, self.directory_assignments, node.emit
        )
        self.fetchers = ReplicaFetchers(config.fetch, node, self)

    @property
    def has_opened_logs(self) -> bool:
        """Whether all logs are open, have failed or lack disk space, and losses are known (V5)."""
        return self.is_registered and not self._unopened and self.lost_replicas.are_reported

    def address_of(self, broker_id: int) -> tuple[str, int] | None:
        """The inter-broker endpoint of a registered broker, or None."""
        broker = self._metadata.image.brokers.get(broker_id)
        endpoint = None if broker is None else broker.endpoint(self._listener)
        return None if endpoint is None else (endpoint.host, endpoint.port)

    def partition(self, topic: str, topic_id: Uuid, index: int, by_id: bool) -> Partition | int:
        """The partition that a request names by topic name or id; else an error code."""
        image = self._metadata.image
        if not by_id:
            named_id = image.topic_ids.get(topic)
            if named_id is None:
                return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            topic_id = named_id
        elif topic_id not in image.topics:
            return ErrorCode.UNKNOWN_TOPIC_ID
        partition = self.partitions.get((topic_id, index))
        if partition is not None:
            return partition
        if (topic_id, index) in image.partitions:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    # The turn's appends --------------------------------------------------------------------------

    def take_turn(self) -> list[PartitionAppend]:
        """Take the appends to write; the host then calls `written`, `write_failed` or `undo`."""
        taken = self.turn[:]
        self.turn.clear()
        for append in taken:
            append.partition.passed_to_host()
        return taken

    def written(self, partition: Partition, end: int) -> None:
        former_end, former_bytes = partition.written_end, partition.written_bytes
        for _, pending, _, _ in partition.written(end):
            complete_wait(pending)
        if not partition.leads:
            self.high_watermark_moves += 1
            self.fetchers.written(partition)
            return
        if not partition.online:
            self._serve(partition)
        self.in_sync_replicas.written(partition, former_end, former_bytes)
        if partition.just_written:
            self._wait_for_replicas(partition)
        self.delayed_fetches.written(partition)
        if partition.commits_at_once and partition.followers is not None:
            self.high_watermark_moves += 1  # the last in-sync replica: soon stored (V19)

    def write_failed(self, partition: Partition) -> None:
        """The log has failed: fail all requests that wait for the partition."""
        partition.leave_turn(self.turn)  # later appends follow offsets that were not written
        partition.failed()
        self.fetchers.stop(partition)
        self._drop_waiting(partition, ErrorCode.KAFKA_STORAGE_ERROR)

    def undo(self, append: PartitionAppend) -> None:
        """Discard an append that was not written: the disk is full, or its request has failed.

        The partition stays online, and earlier appends keep their offsets.
        """
        partition = append.partition
        partition.leave_turn(self.turn)
        for pending, result in partition.undo(append):
            self._fail_produce(pending, result, ErrorCode.KAFKA_STORAGE_ERROR)
        self.fetchers.write_failed(partition, self._node.now)

    def take_back(self, partitions: Iterable[Partition]) -> None:
        """Discard this turn's appends to the partitions; fail the requests that wait for them."""
        for partition in partitions:
            if partition.open_append is not None:
                self.undo(partition.open_append)

    # Delayed operations --------------------------------------------------------------------------

    def wait_for(
        self,
        partition: Partition,
        offset: int,
        pending: DelayedResponse,
        result: Any,
        timeout_ms: int,
    ) -> None:
        """Have the response wait until everything before the offset is written or committed."""
        pending.waits += 1
        partition.wait_for(offset, pending, result, timeout_ms)
        if partition.just_written:
            self._wait_for_replicas(partition)

    def _wait_for_replicas(self, partition: Partition) -> None:
        """Have written batches wait for the other in-sync replicas; their timeouts start."""
        for offset, pending, result, timeout_ms in partition.take_just_written():
            may_fail = timeout_ms != UNTIL_COMMITTED
            waiting = DelayedProduce(partition, offset, pending, result, may_fail=may_fail)
            if may_fail:
                self._node.wait_for_ms(waiting, timeout_ms)
        if partition.lacks_replicas:
            self._high_watermark_moved(partition)

    def delete_records(
        self,
        partition: Partition,
        offset: int,
        pending: DelayedResponse,
        result: Any,
        timeout_ms: int,
    ) -> None:
        """Advance the log start; the response waits until all unfenced replicas have it."""
        self.deletions.add(partition, offset, pending, result, timeout_ms)
        if offset > partition.stored_start:
            partition.start_moved(offset)
            self._emit(MoveLogStart(partition.log, offset))
        else:
            self.deletions.check(partition)

    def _drop_waiting(self, partition: Partition, code: int) -> None:
        """Fail everything that waits for this partition."""
        for pending, result in partition.take_waiting():
            self._fail_produce(pending, result, code)
        self.deletions.fail(partition, code)
        self.delayed_fetches.role_changed(partition)

    @staticmethod
    def _fail_produce(pending: DelayedResponse, result: Any, code: int) -> None:
        result.error_code = code
        result.base_offset = -1
        complete_wait(pending)

    # Replication ---------------------------------------------------------------------------------

    @property
    def has_work(self) -> bool:
        """Whether delayed fetches can complete, or fetches and ISR changes can be sent."""
        return (
            self.delayed_fetches.has_work
            or self.in_sync_replicas.changes.is_due
            or self.fetchers.has_work(self._node.now)
        )

    def send_requests(self, now: Now) -> None:
        """After a turn's writes: complete delayed fetches, then send fetches and ISR changes."""
        self.delayed_fetches.complete()
        self.fetchers.send(now)
        if self.in_sync_replicas.changes.is_due:
            self.in_sync_replicas.changes.poll(now)

    def poll(self, now: Now) -> None:
        self.fetchers.poll(now)
        self.in_sync_replicas.poll(now)
        self.directory_assignments.poll(now)

    def postpone(self, now: Now) -> None:
        """`poll` has raised: try again later."""
        self.in_sync_replicas.postpone(now)
        self.directory_assignments.postpone(now)

    def deadline(self) -> int | None:
        parts = (self.fetchers, self.in_sync_replicas, self.directory_assignments)
        return min([due for part in parts if (due := part.deadline()) is not None], default=None)

    def peer_down(self, report: ConnectionRefused, now: Now) -> None:
        if self.is_own_channel(report.channel):
            self.fetchers.leader_is_down(report.peer, now)

    @staticmethod
    def is_own_channel(channel: str) -> bool:
        """Whether a response on this channel is to a follower's fetch."""
        return channel.startswith(CHANNEL_PREFIX)

    # Reports about logs --------------------------------------------------------------------------

    def handle(self, message: LogReport) -> None:
        """Apply a report about a log, unless its partition has since been removed."""
        key = message.topic_id, message.log[1]
        partition = self.partitions.get(key)
        if partition is None:
            return
        kind = type(message)  # faster than isinstance: a node may start with very many logs
        if kind in _ENDS_OPENING:
            self._unopened.discard(key)
            free_if_empty(self._unopened)
        if kind is LogPostponed:
            return
        if isinstance(message, LogPlaced):
            self.lost_replicas.placed(partition, message.directory)
        elif isinstance(message, LogOpened):
            self.lost_replicas.opened(partition, message)
            offsets = message.start, message.end, message.producers, message.high_watermark
            partition.opened(
                *offsets,
                may_serve=self.lost_replicas.may_lead(partition),
                producers_known_from=self._metadata.image.next_producer_id,
            )
            self._log_is_ready(partition)
        elif isinstance(message, LogTruncated):
            self._truncated(partition, message)
        elif isinstance(message, LogStartMoved):
            self._start_moved(partition, message)
        elif isinstance(message, LogStartNotStored):
            self.deletions.fail(partition, ErrorCode.KAFKA_STORAGE_ERROR)
        else:
            self.write_failed(partition)
            self.lost_replicas.failed(partition, self._node.logs.directories)
            for listener in self.listeners:
                listener.log_failed(partition)

    def _truncated(self, partition: Partition, message: LogTruncated) -> None:
        if not partition.is_truncating:
            return  # removed and assigned again in between: the new log is not open yet
        partition.truncated(message.start, message.end)
        if self.fetchers.is_following(partition):
            self.fetchers.truncated(partition, self._node.now)
            # Consumers may wait beyond its end now, or before its start (V24).
            self.delayed_fetches.role_changed(partition)
            return
        if partition.leads:  # elected meanwhile
            partition.set_producers(self._node.logs.producers(partition.log))
        self._log_is_ready(partition)

    def _log_is_ready(self, partition: Partition) -> None:
        if partition.leads:
            self._serve(partition)
        elif partition.leader >= 0 and self._has_roles:
            self.fetchers.follow(partition, partition.leader)

    def _serve(self, partition: Partition) -> None:
        """Serve requests for a led partition, unless its log is not ready yet."""
        partition.serve()
        if partition.online:
            self.lost_replicas.caught_up(partition)
            self.in_sync_replicas.lead(partition)
            self.delayed_fetches.end_waits_of(partition.replicas)
            self.delayed_fetches.role_changed(partition)
            for listener in self.listeners:
                listener.became_leader(partition)

    def _start_moved(self, partition: Partition, moved: LogStartMoved) -> None:
        if moved.is_stored:
            partition.start_stored(moved.start)
            self.deletions.check(partition)
        else:
            partition.start_moved(moved.start)
        self.delayed_fetches.start_moved(partition, wakes_followers=partition in self.deletions)

    # Metadata changes ----------------------------------------------------------------------------

    def changed(self, change: Change) -> None:
        """Apply a change of the image."""
        if isinstance(change, PartitionChanged):
            if not self.is_registered:
                return
            if change.after is not None:
                self._apply_changed(change.after)
                return
            assert change.before is not None, "a change has a state before it or after it"
            partition = self.partitions.get(change.before.key)
            if partition is not None:
                self.forget(partition)
        elif isinstance(change, TopicRemoved):
            self._topic_removed(change.topic.id, change.topic.name)
        elif isinstance(change, ConfigChanged):
            for partition in self._settings.held_by(change):
                self.in_sync_replicas.hold(partition)
        elif isinstance(change, BrokerChanged):
            self._broker_changed(change.before, change.after)
            self._check_registration()

    def reloaded(self, before: Image) -> None:
        """Remove deleted partitions first: a new topic may have the same name."""
        image = self._metadata.image
        for topic in before.topics.values():
            if topic.id not in image.topics:
                self._topic_removed(topic.id, topic.name)
        for partition in list(self.partitions.values()):
            if (partition.topic_id, partition.index) not in image.partitions:
                self.forget(partition)
        for partition in self.partitions.values():
            self.in_sync_replicas.hold(partition)
        if self.is_registered:
            self._apply_all()
        for broker_id in sorted(before.brokers.keys() | image.brokers.keys()):
            self._broker_changed(before.brokers.get(broker_id), image.brokers.get(broker_id))
        self._check_registration()

    def _apply_changed(self, image: PartitionImage) -> None:
        """Apply a changed partition; its commits wait for the end of the batch (V20)."""
        partition = self.partitions.get(image.key)
        if partition is not None:
            self.in_sync_replicas.hold(partition)
        self._apply_partition(image)

    def _broker_changed(self, before: BrokerImage | None, after: BrokerImage | None) -> None:
        if after is not None:
            is_new = before is None or before.epoch != after.epoch
            if is_new and after.id == self._broker_id:  # another process may have reported its own
                for key, directory in open_directories(self.partitions, self._node.logs):
                    self.lost_replicas.check(self.partitions[key], directory)
            self.fetchers.broker_changed(after.id, self._node.now, is_new_process=is_new)
        self.in_sync_replicas.broker_changed(after)
        self.deletions.check_all()

    def _check_registration(self) -> None:
        """Lead and follow only while the image has this process under the broker's id.

        Otherwise two processes with one id would both lead.
        """
        if not self.is_registered or self._node.is_registered() == self._has_roles:
            return
        self._has_roles = not self._has_roles
        if self._has_roles:
            self._apply_all()
            return
        for partition in self.partitions.values():
            self._resign(partition, NO_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def open_logs(self) -> None:
        """Open the logs of all replicas, once this broker is registered; other logs are strays."""
        if self.is_registered:
            return
        self.is_registered = self._has_roles = True
        self._apply_all()
        self._has_opened_logs = True
        removed = frozenset(self._metadata.image.removed)
        self._emit(
            MarkStrays(
                frozenset(self.by_log), frozenset(self._deleted_before_registration), removed
            )
        )
        self._deleted_before_registration.clear()

    def _apply_all(self) -> None:
        for image in list(self._metadata.image.partitions.values()):
            self._apply_partition(image)

    def _topic_removed(self, topic_id: Uuid, name: str) -> None:
        if not self.is_registered:
            self._deleted_before_registration.add(topic_id)
        self.topic_stats.forget_topic(name)

    def _apply_partition(self, image: PartitionImage) -> None:
        """Open, lead, follow or remove the replica, as the image says."""
        is_replica = self._broker_id in image.replicas
        partition = self.partitions.get(image.key)
        if partition is not None and not (
            is_replica and partition.first_leader_epoch == image.first_leader_epoch
        ):
            self.forget(partition)  # reassigned, or removed and added again (V11)
            partition = None
        if not is_replica:
            return
        if partition is None:
            partition = self._open(image)
        partition.assign(image)
        self.directory_assignments.replayed(image.key, image.directory(self._broker_id))
        if not self._has_roles:
            return
        if image.leader == self._broker_id:
            self._lead(partition, image)
        else:
            self._follow(partition, image)

    def _lead(self, partition: Partition, image: PartitionImage) -> None:
        """Become leader: stop fetching first, then accept requests (V6)."""
        if partition.leads and partition.leader_epoch == image.leader_epoch:
            if partition.online:
                self.in_sync_replicas.replicas_changed(partition)
            return
        self.fetchers.stop(partition)
        if not partition.leads:
            partition.drop_pending(self.turn)
            if partition.is_open:
                partition.set_producers(self._node.logs.producers(partition.log))
        partition.lead(image.leader_epoch, may_serve=self.lost_replicas.may_lead(partition))
        if partition.is_open:
            self._serve(partition)
        elif partition in self.lost_replicas.without_log:
            self.lost_replicas.elected(partition, self._node.logs.directories)

    def _follow(self, partition: Partition, image: PartitionImage) -> None:
        """Stop leading, if this broker did, and fetch from the new leader if there is one (V6)."""
        if partition.leader_epoch == image.leader_epoch:
            return
        self._resign(partition, image.leader_epoch, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if partition.is_open and not partition.is_truncating and image.leader >= 0:
            self.fetchers.follow(partition, image.leader)

    def _resign(self, partition: Partition, leader_epoch: int, code: int) -> None:
        """Stop leading or following a partition; fail the requests that wait for it."""
        self.fetchers.stop(partition)
        for listener in self.listeners:
            listener.resigned(partition)
        self.in_sync_replicas.resign(partition)
        if partition.leads:
            partition.drop_pending(self.turn)
        partition.resign(leader_epoch)
        self._drop_waiting(partition, code)

    def _open(self, image: PartitionImage) -> Partition:
        topic = self._metadata.image.topic(image.topic_id).name
        log = topic, image.index
        settings = self._topic_configs.of(topic)
        counts = self.topic_stats.of_topic(topic)
        partition = Partition(
            topic, image.topic_id, image.index, log, settings.append_config, counts
        )
        self.partitions[image.key] = self.by_log[log] = partition
        self._unopened.add(image.key)
        directory = image.directory(self._broker_id)
        self._emit(
            OpenLog(
                log,
                image.topic_id,
                settings.config,
                image.first_leader_epoch,
                directory,
                is_new=self._has_opened_logs,
            )
        )
        return partition

    def _high_watermark_moved(self, partition: Partition) -> None:
        """Complete the batches that are committed, and fail the others if the ISR is too small."""
        self.high_watermark_moves += 1
        if partition.awaiting_isr:
            for delayed in partition.take_replicated():
                complete_wait(delayed.pending)
            if partition.lacks_replicas:
                for delayed in partition.take_unreplicated():
                    delayed.result.error_code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
                    complete_wait(delayed.pending)
        self.delayed_fetches.committed(partition)

    def forget(self, partition: Partition) -> None:
        """Remove a partition and delete its log."""
        del self.partitions[partition.topic_id, partition.index]
        self._unopened.discard((partition.topic_id, partition.index))
        del self.by_log[partition.log]
        partition.drop_pending(self.turn)
        # If the partition exists on other brokers, its waiting batches may still be committed.
        exists = (partition.topic_id, partition.index) in self._metadata.image.partitions
        moved, deleted = ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        self._resign(partition, partition.leader_epoch, moved if exists else deleted)
        partition.removed()
        self.delayed_fetches.removed(partition)
        self.lost_replicas.forget(partition)
        self._emit(DeleteLog(partition.log, partition.topic_id))

    def published(self) -> Iterator[int]:
        """A batch is replayed: apply its settings, then decide what is committed (V20)."""
        have_changed, partitions = self._settings.take_changed()
        if have_changed:
            self.quotas.configs_changed()
            yield from self._settings.configure(partitions)
        yield from self.in_sync_replicas.published()
