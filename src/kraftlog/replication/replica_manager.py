"""`ReplicaManager`: the replicas that this broker keeps, and what they lead.

It follows the image: logs are opened and deleted, partitions lead or resign. What requests append
goes on the flat list `turn`, which the host writes and empties once per turn of its loop, reporting
back by `written` or `write_failed`; then those who wait for it are told.

A broker that starts replays what it knew long ago: a topic that was deleted since, and another one
under its name, whose log is on this disk. So no log is touched before the broker has read that it
has come back (`take_up`): all that its earlier lives knew stands in front of that. What else lies
in the directory then is nobody's.
"""

from __future__ import annotations

from kraftlog.effects import (
    ConfigureLog,
    DeleteLog,
    LogOpened,
    LogStartMoved,
    LogStartNotStored,
    MarkStrays,
    MoveLogStart,
    OpenLog,
)
from kraftlog.errors import ErrorCode
from kraftlog.metadata.changes import PartitionChanged, TopicRemoved
from kraftlog.metadata.loader import MetadataPublisher
from kraftlog.replication.counts import BrokerTopicStats
from kraftlog.replication.delayed_produce import DelayedProduce, one_done
from kraftlog.replication.partition import Partition
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any, Protocol

    from kraftlog.effects import LogFailed
    from kraftlog.metadata.changes import Change
    from kraftlog.metadata.image import Image
    from kraftlog.metadata.loader import MetadataLoader
    from kraftlog.metadata.values import PartitionImage
    from kraftlog.replication.partition import Append
    from kraftlog.replication.topic_configs import TopicConfigs
    from kraftlog.types import DelayedResponse, LogName, Uuid

    class PartitionListener(Protocol):
        """Hears of every partition that is here, as Kafka's PartitionListener does."""

        def leads(self, partition: Partition) -> None:
            """This broker leads it, and the log is open. Told again where the epoch changes."""
            ...

        def leads_no_more(self, partition: Partition) -> None:
            """Another leads, or the partition is not here any more."""
            ...

        def log_failed(self, partition: Partition) -> None:
            """Its log can't be written any more."""
            ...


#: What it costs to tell a partition and its log new settings, in microseconds.
A_PARTITION_COSTS = 3


class ReplicaManager(MetadataPublisher):
    """Finds partitions, and carries out what the image, the host and time have for them.

    `schedule(waiter, timeout_ms)` has `waiter.expire` called when its time is over; `fail(slot,
    error)` is what a mistake of ours costs whoever waits.
    """

    name = "replica manager"

    def __init__(
        self,
        broker_id: int,
        metadata: MetadataLoader,
        topic_configs: TopicConfigs,
        emit: Callable[[Any], None],
        schedule: Callable[[Any, int], None],
        fail: Callable[[Any, Exception], None],
    ) -> None:
        self._broker_id = broker_id
        self._metadata = metadata
        self._topic_configs = topic_configs
        self._emit = emit
        self._schedule = schedule
        self._fail = fail
        self.listeners: list[PartitionListener] = []
        self.partitions: dict[tuple[Uuid, int], Partition] = {}
        self.by_log: dict[LogName, Partition] = {}
        #: What the requests of this turn append, a partition at a time.
        self.turn: list[Append] = []
        self.topic_stats = BrokerTopicStats()
        #: Whether this life of the broker was read of in the log: no partition is taken up before.
        self.has_arrived = False
        #: Topics of which the log says that they were deleted before.
        self._deleted_meanwhile: set[Uuid] = set()

    def partition(self, topic: str, topic_id: Uuid, index: int, by_id: bool) -> Partition | int:
        """The partition a request names, by name or id; else the code of what is wrong."""
        image = self._metadata.image
        if not by_id:
            found = image.topic_ids.get(topic)
            if found is None:
                return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            topic_id = found
        elif topic_id not in image.topics:
            return ErrorCode.UNKNOWN_TOPIC_ID
        partition = self.partitions.get((topic_id, index))
        if partition is not None:
            return partition
        if (topic_id, index) in image.partitions:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    # The turn's appends --------------------------------------------------------------------------

    def take_turn(self) -> list[Append]:
        """What the host has to write now; each ends in `written` or `write_failed`."""
        taken, self.turn = self.turn, []
        for append in taken:
            append.partition.handed_over()
        return taken

    def written(self, partition: Partition, end: int) -> None:
        for _, slot, _, _ in partition.written(end):
            one_done(slot)
        if partition.just_written:
            self._wait_for_replicas(partition)
        self._wake(partition)

    def write_failed(self, partition: Partition, *, stays_online: bool = False) -> None:
        """Nobody is told that what could not be written was. A full disk is no reason to go."""
        if partition.pending is not None:
            self.turn.remove(partition.pending)  # it follows upon offsets that are not real
        partition.failed(stays_online=stays_online)
        self._drop_waiting(partition, ErrorCode.KAFKA_STORAGE_ERROR)

    def take_back(self, partitions: Iterable[Partition]) -> None:
        """Have them end where they are written: what else this turn has sent to them is refused."""
        for partition in partitions:
            pending = partition.pending
            if pending is not None:
                # Were there others that wait to be durable, their offsets would be given once more.
                is_alone = partition.unwritten[0] is pending
                self.write_failed(partition, stays_online=is_alone)

    # Who waits -----------------------------------------------------------------------------------

    def wait_for(
        self, partition: Partition, offset: int, slot: DelayedResponse, result: Any, timeout_ms: int
    ) -> None:
        """Tell the slot once all before the offset is written, or on every replica in sync."""
        slot.waits += 1
        partition.wait_for(offset, slot, result, timeout_ms)
        if partition.just_written:
            self._wait_for_replicas(partition)

    def _wait_for_replicas(self, partition: Partition) -> None:
        """What was just written, and must be elsewhere too, has from now on the time it said."""
        for offset, slot, result, timeout_ms in partition.take_just_written():
            waiting = DelayedProduce(partition, offset, slot, result)
            self._schedule(waiting, timeout_ms)

    def delete_records(
        self, partition: Partition, offset: int, slot: DelayedResponse, result: Any
    ) -> None:
        """Have the log begin at an offset; the slot is told once that is durable."""
        slot.waits += 1
        partition.delete_records(offset, slot, result)
        self._emit(MoveLogStart(partition.log, offset))

    def _drop_waiting(self, partition: Partition, code: int) -> None:
        """Who waits for this partition is told that it waits in vain."""
        for slot, result in partition.take_waiting():
            result.error_code = code
            result.base_offset = -1
            one_done(slot)
        self._drop_deletions(partition, code)
        self._wake(partition)

    def _drop_deletions(self, partition: Partition, code: int) -> None:
        for _, slot, result in partition.take_deletions():
            result.error_code = code
            result.low_watermark = -1
            one_done(slot)

    def _wake(self, partition: Partition) -> None:
        """Fetches that wait look again."""
        if partition.fetches:
            for fetch in list(partition.fetches):
                try:
                    fetch.try_again(partition)
                except Exception as error:
                    self._fail(fetch.slot, error)

    # What became of logs -------------------------------------------------------------------------

    def handle(self, message: LogOpened | LogStartMoved | LogStartNotStored | LogFailed) -> None:
        """A report about the log of a partition, unless that has gone meanwhile."""
        partition = self.partitions.get((message.topic_id, message.log[1]))
        if partition is None:
            return
        if isinstance(message, LogOpened):
            partition.opened(message.start, message.end, message.producers)
            self._wake(partition)
            if partition.online:
                for listener in self.listeners:
                    listener.leads(partition)
        elif isinstance(message, LogStartMoved):
            self._start_moved(partition, message)
        elif isinstance(message, LogStartNotStored):
            self._drop_deletions(partition, ErrorCode.KAFKA_STORAGE_ERROR)
        else:
            self.write_failed(partition)
            for listener in self.listeners:
                listener.log_failed(partition)

    @staticmethod
    def _start_moved(partition: Partition, moved: LogStartMoved) -> None:
        if not moved.is_stored:
            partition.start_moved(moved.start)
            return
        for _, slot, result in partition.start_stored(moved.start):
            result.low_watermark = partition.stored_start
            one_done(slot)

    # What the image says -------------------------------------------------------------------------

    def changed(self, change: Change) -> None:
        """Become what the image says of this broker."""
        if isinstance(change, PartitionChanged):
            if not self.has_arrived:
                return
            if change.after is not None:
                self._follow(change.after)
                return
            assert change.before is not None, "a change is from something or to something"
            partition = self.partitions.get(change.before.key)
            if partition is not None:
                self.forget(partition)
        elif isinstance(change, TopicRemoved):
            self._topic_removed(change.topic.id, change.topic.name)

    def reloaded(self, before: Image) -> None:
        """What is gone goes first: its name may be that of another topic by now."""
        image = self._metadata.image
        for topic in before.topics.values():
            if topic.id not in image.topics:
                self._topic_removed(topic.id, topic.name)
        for partition in list(self.partitions.values()):
            if (partition.topic_id, partition.index) not in image.partitions:
                self.forget(partition)
        if self.has_arrived:
            self._follow_all()

    def take_up(self) -> None:
        """Take up all logs once this life of the broker is in the log; leave the others alone."""
        if self.has_arrived:
            return
        self.has_arrived = True
        self._follow_all()
        self._emit(MarkStrays(frozenset(self.by_log), frozenset(self._deleted_meanwhile)))
        self._deleted_meanwhile.clear()

    def _follow_all(self) -> None:
        for image in list(self._metadata.image.partitions.values()):
            self._follow(image)

    def _topic_removed(self, topic_id: Uuid, name: str) -> None:
        if not self.has_arrived:
            self._deleted_meanwhile.add(topic_id)
        self.topic_stats.forget_topic(name)

    def _follow(self, image: PartitionImage) -> None:
        """Open the replica, lead, resign, or have nothing to do with it any more."""
        is_here = self._broker_id in image.replicas
        partition = self.partitions.get(image.key)
        if partition is None:
            if not is_here:
                return
            partition = self._open(image)
        elif not is_here:
            self.forget(partition)
            return
        if partition.replicas_changed(len(image.replicas), len(image.isr)):
            self._high_watermark_moved(partition)
        if image.leader == self._broker_id:
            partition.lead(image.leader_epoch)
            if partition.online:
                for listener in self.listeners:
                    listener.leads(partition)
        elif partition.leader_epoch != image.leader_epoch:
            for listener in self.listeners:
                listener.leads_no_more(partition)
            self._drop_waiting(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            partition.resign(image.leader_epoch)

    def _open(self, image: PartitionImage) -> Partition:
        topic = self._metadata.image.topic(image.topic_id).name
        log = topic, image.index
        settings = self._topic_configs.of(topic)
        counts = self.topic_stats.of_topic(topic)
        partition = Partition(
            topic, image.topic_id, image.index, log, settings.append_config, counts
        )
        self.partitions[image.key] = self.by_log[log] = partition
        self._emit(OpenLog(log, image.topic_id, settings.config))
        return partition

    def _high_watermark_moved(self, partition: Partition) -> None:
        """Whose batches every replica in sync has is told so; or that too few of those are left."""
        for one in partition.take_replicated():
            if partition.lacks_replicas:
                one.result.error_code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            one_done(one.slot)
        self._wake(partition)

    def forget(self, partition: Partition) -> None:
        """Have nothing more to do with a partition: its log goes, too."""
        del self.partitions[partition.topic_id, partition.index]
        del self.by_log[partition.log]
        for listener in self.listeners:
            listener.leads_no_more(partition)
        if partition.pending is not None:
            self.turn.remove(partition.pending)
        partition.resign(partition.leader_epoch)
        self._drop_waiting(partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self._emit(DeleteLog(partition.log, partition.topic_id))

    # Settings of topics --------------------------------------------------------------------------

    def published(self) -> Iterator[int]:
        """Tell the partitions and logs of the topics whose settings are others now."""
        is_everything, topics = self._topic_configs.take_changed()
        found = list(self.partitions.values()) if is_everything else self._of_topics(topics)
        for partition in found:
            settings = self._topic_configs.of(partition.topic)
            if partition.append_config is not settings.append_config:
                partition.configure(settings.append_config)
                self._emit(ConfigureLog(partition.log, settings.config))
            yield A_PARTITION_COSTS

    def _of_topics(self, topics: Sequence[str]) -> Iterator[Partition]:
        for name in topics:
            topic = self._metadata.image.topic_named(name)
            for index in range(topic.partition_count if topic is not None else 0):
                found = self.partitions.get((topic.id, index)) if topic is not None else None
                if found is not None:
                    yield found
