"""The group coordinators of this broker, one for each `__consumer_offsets` partition it leads.

Each is a `GroupShard`: it is loaded from the log of its partition, and appends to it.
"""

from __future__ import annotations

from kraftlog.effects import LogLine, LogUnreadable, ReadLog
from kraftlog.errors import CorruptBatchError, ErrorCode, InternalError, ProtocolError
from kraftlog.groups.config import GroupConfig
from kraftlog.groups.consumer.cluster_metadata import ClusterMetadata
from kraftlog.groups.messages import GroupResponse, WriteFailed, WriteRecords, Written
from kraftlog.groups.shard import GroupShard, partition_of
from kraftlog.metadata.changes import (
    PartitionChanged,
    TopicCreated,
    TopicPublished,
    TopicRemoved,
)
from kraftlog.metadata.loader import MetadataPublisher
from kraftlog.node.coordinators.group_log import batch_of, replay
from kraftlog.part import Part
from kraftlog.records.header import read_header
from kraftlog.replication.partition import UNTIL_COMMITTED
from kraftlog.types import uuid_text
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, Protocol

    from kraftlog.effects import LogRead
    from kraftlog.metadata.changes import Change
    from kraftlog.metadata.image import Image
    from kraftlog.metadata.values import TopicImage
    from kraftlog.node.config import NodeConfig
    from kraftlog.node.quorum.driver import QuorumDriver
    from kraftlog.replication.partition import Partition
    from kraftlog.replication.replica_manager import ReplicaManager
    from kraftlog.types import Now

    class BrokerNode(Protocol):
        """The node of the coordinators, which creates them: this module cannot import it."""

        needs_poll: bool

        @property
        def config(self) -> NodeConfig: ...
        @property
        def image(self) -> Image: ...
        @property
        def now(self) -> Now: ...
        @property
        def quorum(self) -> QuorumDriver: ...
        @property
        def replica_manager(self) -> ReplicaManager: ...
        def emit(self, effect: Any) -> None: ...


TOPIC = "__consumer_offsets"
#: For a damaged log; the log of a failed disk may be intact once the disk is back.
REMEDY = (
    "to discard the offsets of its groups, stop the node, remove the folder of this partition "
    "and start the node"
)


class CoordinatorWrite:
    """A write of the coordinator that waits for its commit, like a produce response."""

    __slots__ = ("base_offset", "error_code", "on_done", "response", "waits")

    def __init__(self, base_offset: int, on_done: Callable[[int, int], None]) -> None:
        """`on_done` gets the error code and the base offset."""
        #: The number of outcomes that it waits for: see `DelayedResponse`.
        self.waits = 0
        self.response: Any = None
        self.error_code = int(ErrorCode.NONE)
        self.base_offset = base_offset
        self.on_done = on_done

    def respond(self, _: Any) -> None:
        self.on_done(self.error_code, self.base_offset)


class ShardContext:
    """A shard with its partition and the offset up to which it is loaded."""

    __slots__ = ("is_offline", "load_end", "loaded_to", "partition", "shard")

    def __init__(self, partition: Partition, shard: GroupShard) -> None:
        self.partition = partition
        self.shard = shard
        self.loaded_to = partition.start
        #: The end of the log when this broker was elected: a former leader may have committed all
        #: of it.
        self.load_end = partition.written_end
        #: Whether its groups have no coordinator, because its log can't be replayed or written.
        self.is_offline = False


class DelayedLoad:
    """Calls `on_done` when the high watermark reaches an offset, or the partition goes offline."""

    #: It has no response: interface of delayed fetches.
    pending = None

    def __init__(self, partition: Partition, offset: int, on_done: Callable[[], None]) -> None:
        self._offset = offset
        self._on_done = on_done
        partition.watch(self)

    def try_complete(self, partition: Partition) -> None:
        if partition.high_watermark >= self._offset or not partition.online:
            partition.unwatch(self)
            self._on_done()

    def role_changed(self, partition: Partition) -> None:
        self.try_complete(partition)


class GroupCoordinators(Part, MetadataPublisher):
    """Finds the shard of a group and carries out the effects of shards."""

    name = "group coordinators"

    def __init__(self, broker: BrokerNode) -> None:
        self._broker = broker
        settings = broker.config.settings
        self._config = GroupConfig(
            min_session_timeout_ms=settings.group_min_session_timeout_ms,
            max_session_timeout_ms=settings.group_max_session_timeout_ms,
            initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
            max_size=settings.group_max_size,
            consumer_session_timeout_ms=settings.group_consumer_session_timeout_ms,
            consumer_session_limits_ms=(
                settings.group_consumer_min_session_timeout_ms,
                settings.group_consumer_max_session_timeout_ms,
            ),
            consumer_heartbeat_limits_ms=(
                settings.group_consumer_min_heartbeat_interval_ms,
                settings.group_consumer_max_heartbeat_interval_ms,
            ),
            consumer_assignment_limits_ms=(
                settings.group_consumer_min_assignment_interval_ms,
                settings.group_consumer_max_assignment_interval_ms,
            ),
            consumer_heartbeat_interval_ms=settings.group_consumer_heartbeat_interval_ms,
            consumer_max_size=settings.group_consumer_max_size,
            consumer_assignment_interval_ms=settings.group_consumer_assignment_interval_ms,
            consumer_assignors=tuple(settings.group_consumer_assignors),
            own_assignors=broker.config.own_assignors,
            regex_refresh_interval_ms=settings.group_consumer_regex_refresh_interval_ms,
            consumer_migration_policy=settings.group_consumer_migration_policy.lower(),
            offset_metadata_max_bytes=settings.offset_metadata_max_bytes,
            offsets_retention_ms=settings.offsets_retention_minutes * 60_000,
            offsets_retention_check_interval_ms=settings.offsets_retention_check_interval_ms,
            offsets_commit_timeout_ms=settings.offsets_commit_timeout_ms,
        )
        self._cluster_metadata = ClusterMetadata(
            lambda: broker.image, lambda: broker.quorum.applied
        )
        self._shards: dict[int, ShardContext] = {}
        #: The shards that requests have used since the last `settle`.
        self._used: dict[int, ShardContext] = {}
        #: No shard is due before this time. There are many turns and fifty shards, so it is updated
        #: for each used shard, and computed over all shards only when it is reached.
        self._due_ms: int | None = None
        #: Lines logged since the topic was last available.
        self._reported: set[str] = set()

    # Shards --------------------------------------------------------------------------------------

    @property
    def partition_count(self) -> int:
        """The number of partitions of the offsets topic; 0 while it does not exist."""
        topic = self._broker.image.topic_named(TOPIC)
        return 0 if topic is None else topic.partition_count

    def shard_of(self, group_id: str) -> GroupShard | int:
        """The shard of a group, or the error code."""
        count = self.partition_count
        if not count:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        index = partition_of(group_id, count)
        context = self._shards.get(index)
        if context is None:
            partition = self._broker.replica_manager.by_log.get((TOPIC, index))
            if partition is not None and partition.leads and not partition.is_open:
                return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return ErrorCode.NOT_COORDINATOR
        if context.is_offline:
            return ErrorCode.NOT_COORDINATOR
        if not context.shard.is_loaded:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        self._used[index] = context
        return context.shard

    def context_of(self, index: int) -> ShardContext | None:
        """The shard of a partition, loaded or not."""
        return self._shards.get(index)

    def shards(self) -> Iterator[GroupShard]:
        """All shards of this broker; some may still be loading."""
        for context in self._shards.values():
            if not context.is_offline:
                yield context.shard

    def report(self, line: str) -> None:
        """Log a line about the offsets topic once: clients repeat their requests."""
        if line not in self._reported:
            self._reported.add(line)
            self._broker.emit(LogLine(line))

    # Changes of partitions -----------------------------------------------------------------------

    def became_leader(self, partition: Partition) -> None:
        """This broker leads the partition, and its log is open: load its groups."""
        context = self._shards.get(partition.index)
        if partition.topic != TOPIC or (context is not None and not context.is_offline):
            return
        self._reported.clear()
        context = ShardContext(partition, self._new_shard())
        self._shards[partition.index] = context
        self._continue_loading(context, self._broker.now)

    def resigned(self, partition: Partition) -> None:
        context = self._shards.get(partition.index) if partition.topic == TOPIC else None
        if context is not None:
            del self._shards[partition.index]
            self._unload(context, self._broker.now)

    def log_failed(self, partition: Partition) -> None:
        """The partition's log failed: its coordinator is offline."""
        context = self._shards.get(partition.index) if partition.topic == TOPIC else None
        if context is not None:
            self._take_offline(context, "the log has failed", self._broker.now)

    def _take_damaged_log_offline(self, context: ShardContext, why: str, now: Now) -> None:
        """Take the coordinator of a damaged log offline; the log line says how to repair that."""
        self._take_offline(context, why, now, remedy=f" ({REMEDY})")

    def _take_offline(self, context: ShardContext, why: str, now: Now, *, remedy: str = "") -> None:
        """Take the coordinator offline until this broker becomes the partition's leader again."""
        if context.is_offline:
            return
        topic, index = context.partition.log
        self._broker.emit(
            LogLine(f"{topic}-{index}: the group coordinator is offline{remedy}: {why}")
        )
        context.is_offline = True
        self._unload(context, now)

    def _unload(self, context: ShardContext, now: Now) -> None:
        """Unload a shard; requests that wait are answered with NOT_COORDINATOR."""
        try:
            context.shard.unload(now)
            self._carry_out(context, now)
        except Exception as error:
            context.shard.is_loaded = False
            self._broker.emit(LogLine(str(InternalError("unloading groups", error))))

    def changed(self, change: Change) -> None:
        if isinstance(change, (TopicCreated, TopicPublished, TopicRemoved)):
            self._cluster_metadata.changed(change.topic.id)
        elif isinstance(change, PartitionChanged):
            before, after = change.before, change.after
            changed = after or before
            assert changed is not None, "a change has a state before it or after it"
            if before is None or after is None or before.replicas != after.replicas:
                self._cluster_metadata.changed(changed.topic_id, is_new=before is None)
        if isinstance(change, TopicRemoved):
            self._forget_offsets(change.topic, 0)
        elif isinstance(change, PartitionChanged) and change.after is None:
            assert change.before is not None, "a change has a state before it or after it"
            topic = self._broker.image.topics.get(change.before.topic_id)
            # The first removed partition, whose index is the new count, stands for the later ones.
            if topic is not None and topic.partition_count == change.before.index:
                self._forget_offsets(topic, topic.partition_count)

    def reloaded(self, before: Image) -> None:
        self._cluster_metadata.reloaded()
        for topic in before.topics.values():
            current = self._broker.image.topics.get(topic.id)
            count = 0 if current is None else current.partition_count
            if count < topic.partition_count:
                self._forget_offsets(topic, count)

    def _forget_offsets(self, topic: TopicImage, first: int) -> None:
        """Delete the offsets of the topic's partitions from `first` on."""
        for context in list(self._shards.values()):
            if context.shard.has_offsets_of(topic.name):
                self._attempt(
                    context,
                    "deleting the offsets of deleted partitions",
                    self._delete_offsets,
                    context,
                    topic,
                    first,
                    self._broker.now,
                )

    def _delete_offsets(
        self, context: ShardContext, topic: TopicImage, first: int, now: Now
    ) -> None:
        context.shard.delete_offsets_of_partitions(topic.name, topic.id, first, now)
        self._carry_out(context, now)

    def _new_shard(self) -> GroupShard:
        return GroupShard(self._config, self._new_member_id, self._cluster_metadata)

    def _new_member_id(self, prefix: str) -> str:
        return f"{prefix}-{uuid_text(self._broker.config.new_id())}"

    # Loading -------------------------------------------------------------------------------------

    def _continue_loading(self, context: ShardContext, now: Now) -> None:
        """Load the next part of the log, or finish once all of it is committed."""
        partition = context.partition
        if context.loaded_to < context.load_end:
            self._broker.emit(ReadLog(partition.log, context.loaded_to, context.load_end))
        elif partition.high_watermark < context.load_end:
            DelayedLoad(partition, context.load_end, lambda: self._committed(context))
        else:
            context.shard.finish_loading(now)
            self._carry_out(context, now)

    def _committed(self, context: ShardContext) -> None:
        """Finish loading, unless the shard has since been unloaded."""
        if self._shards.get(context.partition.index) is context and not context.is_offline:
            self._broker.needs_poll = True
            now = self._broker.now
            self._attempt(context, "loading groups", self._continue_loading, context, now)

    def read(self, report: LogRead | LogUnreadable, now: Now) -> None:
        """Replay a part of the log of one partition.

        If that fails, the offsets of its groups are unknown and its coordinator goes offline; other
        partitions are not affected.
        """
        context = self._shards.get(report.log[1])
        if context is None or context.is_offline or context.shard.is_loaded:
            return
        if context.loaded_to != report.offset:
            return
        if isinstance(report, LogUnreadable):
            self._take_damaged_log_offline(context, f"offset {report.offset}: {report.reason}", now)
            return
        try:
            next_offset = replay(context.shard, memoryview(report.data), now)
            # Without batches, the rest of the log is a gap left by compaction.
            context.loaded_to = next_offset or context.load_end
            self._continue_loading(context, now)
        except (CorruptBatchError, ProtocolError) as error:
            self._take_damaged_log_offline(context, f"from offset {report.offset} on: {error}", now)
        except Exception as error:
            internal_error = InternalError(f"replaying from offset {report.offset} on", error)
            self._take_damaged_log_offline(context, str(internal_error), now)

    # Internal errors -----------------------------------------------------------------------------

    def reload_used_shards(self, now: Now) -> None:
        """Reload the shards that a failed request used: the log has the true state."""
        used, self._used = self._used, {}
        for context in used.values():
            self._reload(context, now)

    def _attempt(
        self, context: ShardContext, what: str, step: Callable[..., None], *arguments: Any
    ) -> None:
        """Run a timer or callback of a shard; reload the shard if it raises."""
        try:
            step(*arguments)
        except Exception as error:
            self._broker.emit(LogLine(str(InternalError(what, error))))
            self._reload(context, self._broker.now)

    def _reload(self, context: ShardContext, now: Now) -> None:
        """Unload a shard and load it again once its pending writes have completed.

        Requests that wait are answered with NOT_COORDINATOR.
        """
        partition = context.partition
        if self._shards.get(partition.index) is not context or context.is_offline:
            return
        for effect in context.shard.take_effects():
            if isinstance(effect, GroupResponse):
                effect.pending.respond(effect.response)
        self._unload(context, now)
        reloaded = ShardContext(partition, self._new_shard())
        self._shards[partition.index] = reloaded

        def load(_: int, __: int) -> None:
            self._broker.needs_poll = True
            if self._shards.get(partition.index) is reloaded and not reloaded.is_offline:
                reloaded.load_end = partition.written_end
                self._continue_loading(reloaded, self._broker.now)

        if partition.high_watermark >= partition.end:
            load(0, 0)
        else:
            write = CoordinatorWrite(partition.end, load)
            self._wait_for(partition, write)

    def _wait_for(self, partition: Partition, write: CoordinatorWrite) -> None:
        """Wait without a timeout, as a batch in the log may still be committed at any time.

        The shard has a time limit of its own for responses (`offsets.commit.timeout.ms`).
        """
        self._broker.replica_manager.wait_for(
            partition, partition.end, write, write, UNTIL_COMMITTED
        )

    # Effects of shards ---------------------------------------------------------------------------

    def settle(self, now: Now) -> None:
        """Carry out the effects of a request in its shards."""
        used, self._used = self._used, {}
        for context in used.values():
            self._carry_out(context, now)

    def _carry_out(self, context: ShardContext, now: Now) -> None:
        while shard_effects := context.shard.take_effects():
            for effect in shard_effects:
                if isinstance(effect, GroupResponse):
                    effect.pending.respond(effect.response)
                else:
                    self._write(context, effect, now)
        due_ms = context.shard.deadline()
        if due_ms is not None and (self._due_ms is None or due_ms < self._due_ms):
            self._due_ms = due_ms

    def _write(self, context: ShardContext, effect: WriteRecords, now: Now) -> None:
        partition, shard = context.partition, context.shard
        if not partition.online:
            shard.handle(WriteFailed(effect.token, ErrorCode.NOT_LEADER_OR_FOLLOWER), now)
            return
        if partition.lacks_replicas:
            shard.handle(WriteFailed(effect.token, ErrorCode.NOT_ENOUGH_REPLICAS), now)
            return
        batch = batch_of(effect.records, now)
        rules = partition.append_config.rules
        if len(batch) > min(rules.max_batch_size, rules.segment_size):
            shard.handle(WriteFailed(effect.token, ErrorCode.MESSAGE_TOO_LARGE), now)
            return
        base = partition.append(
            read_header(batch), memoryview(batch), self._broker.replica_manager.turn
        )

        def done(error: int, base_offset: int) -> None:
            self._broker.needs_poll = True
            token, now = effect.token, self._broker.now
            outcome = WriteFailed(token, error) if error else Written(token, base_offset)

            def complete() -> None:
                shard.handle(outcome, now)
                self._carry_out(context, now)

            self._attempt(context, "handling the outcome of a group write", complete)

        write = CoordinatorWrite(base, done)
        self._wait_for(partition, write)

    # Timers --------------------------------------------------------------------------------------

    def poll(self, now: Now) -> None:
        if self._due_ms is None or self._due_ms > now.monotonic_ms:
            return
        self._due_ms = None
        for context in list(self._shards.values()):
            self._attempt(context, "running group timers", self._run_timers, context, now)

    def _run_timers(self, context: ShardContext, now: Now) -> None:
        due_ms = context.shard.deadline()
        if due_ms is not None and due_ms <= now.monotonic_ms:
            context.shard.poll(now)
        self._carry_out(context, now)

    def deadline(self) -> int | None:
        """When `poll` is due next, in monotonic milliseconds; may be too early."""
        return self._due_ms
