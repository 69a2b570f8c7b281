"""One partition's life on the broker that leads it.

Offsets are assigned when a batch is taken on, become real when the host has written it (`written`)
and visible to readers when the high watermark passes them. While this replica is the only one in
sync the high watermark is what is written.

What is known of producers goes with the offsets: it counts a batch when that is taken on, and
goes back where the write of it fails. The log keeps a copy of its own, never ahead of the file.
"""

from __future__ import annotations

from collections import deque

from kraftlog.errors import ErrorCode
from kraftlog.logstate.producers import ProducerState
from kraftlog.records.header import stamp_whole
from kraftlog.replication.append_config import DEFAULT_APPEND_CONFIG
from kraftlog.replication.counts import TopicCounts
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.logstate.producers import ProducerEntry, RetainedBatch
    from kraftlog.records.header import BatchHeader
    from kraftlog.replication.append_config import AppendConfig
    from kraftlog.replication.delayed_produce import DelayedProduce
    from kraftlog.types import DelayedResponse, LogName, Uuid

    #: The offset needed, a slot, what that is told, how many milliseconds it waits for replicas.
    Ack = tuple[int, DelayedResponse, Any, int]

#: What a producer waits for.
ACKS_NONE, ACKS_LEADER, ACKS_ALL = 0, 1, -1
#: The patience of who waits for no other replica.
WRITTEN_IS_ENOUGH = -1


class Append:
    """Batches that one turn adds to one partition: written by a single call.

    It says of them what the log must know, so that nobody goes through them a second time.
    """

    __slots__ = (
        "base",
        "buffers",
        "end",
        "epoch",
        "idempotent",
        "max_timestamp",
        "max_timestamp_offset",
        "partition",
        "producers_before",
        "size",
    )

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.buffers: list[memoryview] = []
        self.base = self.end = partition.end
        self.epoch = partition.leader_epoch
        self.size = 0
        #: The largest timestamp, and the last offset of its batch.
        self.max_timestamp = self.max_timestamp_offset = -1
        #: The headers of those whose producer numbers them.
        self.idempotent: list[BatchHeader] = []
        #: What was known of the producers that have a part in it; None: nothing.
        self.producers_before: dict[int, ProducerEntry | None] = {}


class Partition:
    """The leader's side. Nobody else writes its fields: whatever changes it is a method.

    The one exception are `acks`, to which the fast path of Produce adds by itself.
    """

    __slots__ = (
        "acks",
        "append_config",
        "awaiting_isr",
        "counts",
        "deletions",
        "end",
        "fetches",
        "high_watermark",
        "in_sync",
        "index",
        "is_open",
        "just_written",
        "leader_epoch",
        "leads",
        "log",
        "online",
        "pending",
        "producers",
        "replica_count",
        "start",
        "stored_start",
        "topic",
        "topic_id",
        "unwritten",
        "written_bytes",
        "written_end",
    )

    def __init__(
        self,
        topic: str,
        topic_id: Uuid,
        index: int,
        log: LogName,
        append_config: AppendConfig = DEFAULT_APPEND_CONFIG,
        counts: TopicCounts | None = None,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.log = log
        self.leader_epoch = -1
        self.leads = False
        self.is_open = False
        #: Whether requests are served: this broker leads, and the log can be written.
        self.online = False
        #: Where readers may begin, and where the log begins whatever happens.
        self.start = self.stored_start = 0
        #: The next offset to assign, and the one up to which the host has written.
        self.end = 0
        self.written_end = 0
        #: How much has been written since the log was opened.
        self.written_bytes = 0
        self.high_watermark = 0
        #: What this turn has taken on and the host has not been given yet.
        self.pending: Append | None = None
        #: What the host has not reported as written yet, oldest first.
        self.unwritten: list[Append] = []
        #: As of `end`; None until a producer numbers its batches.
        self.producers: ProducerState | None = None
        #: What the topic's settings ask of writes; replaced when they change.
        self.append_config = append_config
        self.replica_count = self.in_sync = 1
        #: Shared with the topic's other partitions.
        self.counts = TopicCounts() if counts is None else counts
        #: Who waits for a write, oldest first.
        self.acks: deque[Ack] = deque()
        #: Whose batch is written and must be in every replica in sync: fresh ones, and the others.
        self.just_written: list[Ack] = []
        self.awaiting_isr: list[DelayedProduce] = []
        #: Who waits for the log to begin durably at an offset: (offset, slot, what it is told).
        self.deletions: list[tuple[int, DelayedResponse, Any]] = []
        #: Fetches that wait for the high watermark to move.
        self.fetches: dict[Any, None] = {}

    def opened(self, start: int, end: int, producers: ProducerState | None = None) -> None:
        """The log is there, with these offsets and what it knows of producers."""
        self.start = self.stored_start = start
        self.producers = producers
        self.end = self.written_end = self.high_watermark = end
        if producers is not None:
            producers.high_watermark_moved(end)
        self.is_open = True
        self.online = self.leads

    def lead(self, leader_epoch: int) -> None:
        """This broker leads; once the log is open, requests are served."""
        self.leader_epoch = leader_epoch
        self.leads = True
        self.online = self.is_open

    def resign(self, leader_epoch: int) -> None:
        """Another leads in this epoch, or nobody."""
        self.leader_epoch = leader_epoch
        self.leads = self.online = False

    def replicas_changed(self, replica_count: int, in_sync: int) -> bool:
        """Whether the high watermark has moved: once no other replica is in sync, nobody has to be
        waited for."""
        self.replica_count, self.in_sync = replica_count, in_sync
        if in_sync > 1 or self.high_watermark >= self.written_end:
            return False
        self.high_watermark = self.written_end
        return True

    def configure(self, append_config: AppendConfig) -> None:
        """The topic has other settings."""
        self.append_config = append_config

    def append(self, header: BatchHeader, batch: memoryview, turn: list[Append]) -> int:
        """Take on a valid batch: give it its offsets, in place. Returns its base offset."""
        header.base_offset = base = self.end
        header.leader_epoch = self.leader_epoch
        self.add(batch, header.last_offset_delta, header.max_timestamp, turn)
        if header.producer_id >= 0:
            assert self.pending is not None, "the batch has just been added to it"
            self._note_producer(header, self.pending)
        return base

    def add(self, batch: memoryview, delta: int, max_timestamp: int, turn: list[Append]) -> None:
        """As `append`, of a batch that no producer has numbered: these numbers are enough."""
        base = self.end
        stamp_whole(batch, base, self.leader_epoch)
        pending = self.pending
        if pending is None:
            pending = self.pending = Append(self)
            turn.append(pending)
            self.unwritten.append(pending)
        pending.buffers.append(batch)
        pending.size += len(batch)
        if max_timestamp > pending.max_timestamp:
            pending.max_timestamp, pending.max_timestamp_offset = max_timestamp, base + delta
        self.end = pending.end = base + delta + 1

    def _note_producer(self, header: BatchHeader, pending: Append) -> None:
        producers = self.producers
        if producers is None:
            producers = self.producers = ProducerState()
        producer_id = header.producer_id
        pending.idempotent.append(header)
        pending.producers_before.setdefault(producer_id, producers.entries.get(producer_id))
        producers.apply(header)

    def check_producer(self, header: BatchHeader) -> int:
        """What a producer gets for a batch that it has numbered: see `ProducerState.check`."""
        return ErrorCode.NONE if self.producers is None else self.producers.check(header)

    def duplicate_of(self, header: BatchHeader) -> RetainedBatch:
        """The batch that this one, which `check_producer` calls a duplicate, repeats."""
        found = None if self.producers is None else self.producers.duplicate_of(header)
        assert found is not None, "a duplicate is one of something"
        return found

    @property
    def lacks_replicas(self) -> bool:
        """Whether fewer are in sync than acks of all ask for; never more than there can be."""
        return self.in_sync < min(self.append_config.min_insync_replicas, self.replica_count)

    def is_reached(self, offset: int, timeout_ms: int) -> bool:
        """Whether all before this offset is as safe as is asked for."""
        if timeout_ms == WRITTEN_IS_ENOUGH:
            return offset <= self.written_end
        return offset <= self.high_watermark

    def wait_for(self, offset: int, slot: DelayedResponse, result: Any, timeout_ms: int) -> None:
        """Release this one in its turn, though younger ones may wait already."""
        if offset <= self.written_end:
            self.just_written.append((offset, slot, result, timeout_ms))
            return
        place = len(self.acks)
        while place and self.acks[place - 1][0] > offset:
            place -= 1
        self.acks.insert(place, (offset, slot, result, timeout_ms))

    def take_just_written(self) -> list[Ack]:
        """Those whose batch is written, and who have not been told for how long they wait."""
        just_written, self.just_written = self.just_written, []
        return just_written

    def wait_for_isr(self, waiting: DelayedProduce) -> None:
        """Its batch is written here, and has to be on every replica in sync."""
        self.awaiting_isr.append(waiting)

    def wait_no_more(self, waiting: DelayedProduce) -> None:
        """Its time is over."""
        self.awaiting_isr.remove(waiting)

    def take_replicated(self) -> list[DelayedProduce]:
        """Those whose batch every replica in sync has."""
        waiting, self.awaiting_isr = self.awaiting_isr, []
        replicated = []
        for one in waiting:
            if one.offset > self.high_watermark:
                self.awaiting_isr.append(one)
            else:
                one.done = True
                replicated.append(one)
        return replicated

    def watch(self, fetch: Any) -> None:
        """Have a fetch look again when the high watermark moves."""
        self.fetches[fetch] = None

    def watch_no_more(self, fetch: Any) -> None:
        self.fetches.pop(fetch, None)

    def start_moved(self, start: int) -> None:
        """The log begins later, but an earlier start may come back after a crash."""
        self.start = max(self.start, start)

    def delete_records(self, offset: int, slot: DelayedResponse, result: Any) -> None:
        """Nobody reads before the offset from now on; the slot waits until that is durable."""
        self.start_moved(offset)
        self.deletions.append((offset, slot, result))

    def start_stored(self, start: int) -> list[tuple[int, DelayedResponse, Any]]:
        """What is before `start` is gone from the log for good; gives those who waited for it."""
        self.start_moved(start)
        self.stored_start = max(self.stored_start, start)
        done = [waiting for waiting in self.deletions if waiting[0] <= start]
        if done:
            self.deletions = [waiting for waiting in self.deletions if waiting[0] > start]
        return done

    def take_deletions(self) -> list[tuple[int, DelayedResponse, Any]]:
        """All who wait for the log to begin later."""
        waiting, self.deletions = self.deletions, []
        return waiting

    def handed_over(self) -> None:
        """The host has what this turn has taken on."""
        self.pending = None

    def written(self, end: int) -> list[Ack]:
        """The host has written up to `end`; gives those whose wait is over.

        Where writes had to wait for the disk and no longer have to, an older report may come
        behind a newer one: what is written stays written.
        """
        if end <= self.written_end:
            return []
        counts = self.counts
        counts.messages_in += end - self.written_end
        self.written_end = end
        if self.in_sync <= 1:
            self.high_watermark = end
        unwritten = self.unwritten
        while unwritten and unwritten[0].end <= end:
            counts.bytes_in += unwritten[0].size
            self.written_bytes += unwritten[0].size
            del unwritten[0]
        return self._released(end)

    def failed(self, *, stays_online: bool) -> None:
        """A write failed: nothing assigned since the last good one is real."""
        self.online = self.online and stays_online
        self.is_open = self.is_open and stays_online
        self.pending = None
        self.end = self.written_end
        for append in reversed(self.unwritten):
            if self.producers is not None:
                self.producers.put_back(append.producers_before)
        self.unwritten.clear()

    def take_waiting(self) -> list[tuple[DelayedResponse, Any]]:
        """All who wait for a write, or for replicas: their slots, and what those are told."""
        waiting = [(slot, result) for _, slot, result, _ in (*self.acks, *self.just_written)]
        for one in self.awaiting_isr:
            one.done = True
            waiting.append((one.slot, one.result))
        self.acks.clear()
        self.just_written.clear()
        self.awaiting_isr.clear()
        return waiting

    def _released(self, end: int) -> list[Ack]:
        acks = self.acks
        done = []
        while acks and acks[0][0] <= end:
            done.append(acks.popleft())
        if self.in_sync <= 1:
            return done
        self.just_written += [ack for ack in done if ack[3] != WRITTEN_IS_ENOUGH]
        return [ack for ack in done if ack[3] == WRITTEN_IS_ENOUGH]

    def refusal(self, leader_epoch: int) -> int:
        """Why a request for this partition can't be served; `leader_epoch` -1: not said."""
        if not self.online:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if leader_epoch >= 0:
            if leader_epoch < self.leader_epoch:
                return ErrorCode.FENCED_LEADER_EPOCH
            if leader_epoch > self.leader_epoch:
                return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE
