"""`Partition`: a partition on one of its replicas.

On the leader a batch gets its offsets when it is appended, is in the log once the host has written
it (`written`) and is visible to consumers below the high watermark. If no other replica counts, the
high watermark is the written end. A follower appends what it fetches, with the offsets and epochs
of its leader, and its high watermark follows the leader's.

Producer state moves with the offsets: an append updates it, a failed write restores it. The log
has its own copy, which is never ahead of the file.
"""

from __future__ import annotations

from bisect import insort

from kraftlog.errors import ErrorCode
from kraftlog.logstate.producers import ProducerState
from kraftlog.records.header import stamp_whole
from kraftlog.replication.append_config import DEFAULT_APPEND_CONFIG
from kraftlog.replication.counts import TopicCounts
from kraftlog.replication.proposed_isr import ProposedIsr
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Protocol

    from kraftlog.logstate.producers import ProducerEntry, RetainedBatch
    from kraftlog.metadata.values import PartitionImage
    from kraftlog.records.header import BatchHeader
    from kraftlog.replication.append_config import AppendConfig
    from kraftlog.replication.delayed_produce import DelayedProduce
    from kraftlog.replication.fetched_batches import FetchedRun
    from kraftlog.replication.followers import Followers
    from kraftlog.types import DelayedResponse, LogName, Uuid

    class SessionListener(Protocol):
        """A partition in a fetch session; all calls return the session's delayed fetch, if any.

        That of the node's `fetch_sessions`, a layer above.
        """

        @property
        def is_obsolete(self) -> bool: ...
        def written(self) -> Any: ...
        def changed(self) -> Any: ...
        def partition_removed(self) -> Any: ...

    #: Required offset, pending response, partition result, timeout in ms for other replicas.
    Ack = tuple[int, DelayedResponse, Any, int]

#: The values of acks.
ACKS_NONE, ACKS_LEADER, ACKS_ALL = 0, 1, -1
#: Instead of a timeout: the leader's write completes the request.
WRITTEN_IS_ENOUGH = -1
#: Instead of a timeout: only the commit completes the request, or the loss of leadership.
UNTIL_COMMITTED = -2
#: More than any producer id: every producer may have batches that are not in the log any more.
NO_PRODUCER = 1 << 63
NO_PRODUCERS = ProducerState()


def _mark_done(taken: list[DelayedProduce]) -> list[DelayedProduce]:
    for delayed in taken:
        delayed.done = True
    return taken


class PartitionAppend:
    """The batches of one turn for one partition, written by a single call.

    It describes the batches, so that the log need not parse them.
    """

    __slots__ = (
        "base",
        "buffers",
        "control",
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
        #: The headers of batches from idempotent producers.
        self.idempotent: list[BatchHeader] = []
        #: The entries of its producers before this append; None: the producer was new.
        self.producers_before: dict[int, ProducerEntry | None] = {}
        #: The control batches in it, by base offset: only an append of fetched batches has any.
        self.control: dict[int, memoryview] | None = None


class Partition:
    """A partition on this broker, as leader or follower. Only its own methods write its fields.

    The one exception is `acks`: Produce appends to it.
    """

    __slots__ = (
        "acks",
        "append_config",
        "awaiting_isr",
        "commits_at_once",
        "consumer_sessions",
        "counts",
        "end",
        "fetches",
        "first_leader_epoch",
        "follower_fetches",
        "follower_sessions",
        "followers",
        "high_watermark",
        "index",
        "is_open",
        "is_truncating",
        "isr",
        "just_written",
        "leader",
        "leader_epoch",
        "leader_high_watermark",
        "leader_start",
        "leads",
        "log",
        "may_serve",
        "online",
        "open_append",
        "partition_epoch",
        "producers",
        "producers_known_from",
        "proposed",
        "replicas",
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
        self.leader = self.leader_epoch = -1
        #: The first leader epoch; higher if the partition was removed and added again (V11).
        self.first_leader_epoch = 0
        self.leads = False
        #: All replicas and those in sync, with the epoch of their last change in the image.
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        self.partition_epoch = -1
        #: The ISR that this leader has proposed to the controller, while it counts.
        self.proposed: ProposedIsr | None = None
        #: The followers of this leader; None if there are no other replicas.
        self.followers: Followers | None = None
        #: Whether a write alone moves the high watermark, as no follower counts for it.
        self.commits_at_once = False
        self.is_open = False
        #: Whether the log is being truncated to where it agrees with the leader's.
        self.is_truncating = False
        #: False while the log lacks records that others may have (V19).
        self.may_serve = True
        #: Whether requests are served: this broker leads, and the log is writable.
        self.online = False
        #: The log start offset, and the one that is durable.
        self.start = self.stored_start = 0
        #: The next offset to assign, and the end of what the host has written.
        self.end = self.written_end = self.high_watermark = 0
        #: Bytes written since the log was opened.
        self.written_bytes = 0
        #: The leader's high watermark and log start, as of the last fetch of this follower.
        self.leader_high_watermark = self.leader_start = 0
        #: The append of this turn, not yet passed to the host.
        self.open_append: PartitionAppend | None = None
        #: Appends that the host has not reported as written, oldest first.
        self.unwritten: list[PartitionAppend] = []
        #: Producer state as of `end`; None until the first idempotent batch.
        self.producers: ProducerState | None = None
        #: The log has all batches of the producers with an id from here on.
        self.producers_known_from = NO_PRODUCER
        self.append_config = append_config
        #: Shared with the topic's other partitions.
        self.counts = TopicCounts() if counts is None else counts
        #: Produce requests that wait for a write, oldest first.
        self.acks: list[Ack] = []
        #: Written batches with acks=all: those without a timeout yet, and those with one.
        self.just_written: list[Ack] = []
        self.awaiting_isr: list[DelayedProduce] = []
        #: Delayed fetches that wait for the high watermark to move; those of followers wait for
        #: writes.
        self.fetches: dict[Any, None] = {}
        self.follower_fetches: dict[Any, None] = {}
        #: Its entries in fetch sessions, which are notified of its changes.
        self.consumer_sessions: list[SessionListener] = []
        self.follower_sessions: list[SessionListener] = []

    # Roles ---------------------------------------------------------------------------------------

    def opened(
        self,
        start: int,
        end: int,
        producers: ProducerState | None = None,
        high_watermark: int = 0,
        *,
        may_serve: bool = True,
        producers_known_from: int = NO_PRODUCER,
    ) -> None:
        """The log is open. The high watermark is a lower bound, never a truncation point (V15)."""
        self.start = self.stored_start = start
        self.producers, self.producers_known_from = producers, producers_known_from
        self.end = self.written_end = end
        self.high_watermark = min(max(high_watermark, start), end)
        self.is_open, self.may_serve = True, may_serve
        self.serve()

    def assign(self, image: PartitionImage) -> None:
        """Set the replicas and the ISR of the image; a new partition epoch ends a proposed ISR."""
        self.replicas, self.isr, self.leader = image.replicas, image.isr, image.leader
        self.first_leader_epoch = image.first_leader_epoch
        if image.partition_epoch != self.partition_epoch:
            self.partition_epoch = image.partition_epoch
            self.proposed = None

    def lead(self, leader_epoch: int, *, may_serve: bool = True) -> None:
        """Become leader; requests are served once the log is open and written."""
        self.leader_epoch = leader_epoch
        self.leads, self.may_serve = True, may_serve
        self.open_append = None  # an append has batches of one epoch
        self.proposed = None
        self.commits_at_once = len(self.replicas) <= 1
        self.serve()

    def serve(self) -> None:
        """Serve requests if this broker leads, and all that it fetched before is in its log."""
        is_ready = self.is_open and not (self.is_truncating or self._awaits_writes)
        self.online = self.leads and self.may_serve and is_ready
        if self.online and self.commits_at_once:
            self.high_watermark = self.written_end
        if self.online and self.producers is not None:
            self.producers.high_watermark_moved(self.high_watermark)

    @property
    def _awaits_writes(self) -> bool:
        """Whether fetched batches are still to be written; a leader's own batches do not count."""
        return bool(self.unwritten) and not self.online

    def resign(self, leader_epoch: int) -> None:
        """Stop leading: in this epoch another broker leads, or none."""
        self.leader_epoch = leader_epoch
        self.leads = self.online = self.commits_at_once = False
        self.followers = self.proposed = self.producers = None

    def removed(self) -> None:
        """The replica was removed: requests that still refer to it must not read its log."""
        self.is_open = False

    def drop_pending(self, turn: list[PartitionAppend]) -> None:
        """Discard the unwritten appends of this turn, because the role has changed."""
        own = self.leave_turn(turn)
        if own:
            self.unwritten = [append for append in self.unwritten if append not in own]
            self.end = self.unwritten[-1].end if self.unwritten else self.written_end

    def leave_turn(self, turn: list[PartitionAppend]) -> list[PartitionAppend]:
        """Remove this partition's appends from a turn; returns them."""
        own = [append for append in turn if append.partition is self] if self.unwritten else []
        if own:
            turn[:] = [append for append in turn if append.partition is not self]
        self.open_append = None
        return own

    # In-sync replicas ----------------------------------------------------------------------------

    @property
    def replica_count(self) -> int:
        return len(self.replicas)

    @property
    def in_sync_count(self) -> int:
        return len(self.isr)

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """The members of the ISR, committed or proposed: all of them count (V7)."""
        if self.proposed is None:
            return self.isr
        return (*self.isr, *[broker for broker in self.proposed.isr if broker not in self.isr])

    def propose_isr(self, isr: tuple[int, ...], broker_epochs: tuple[int, ...]) -> None:
        self.proposed = ProposedIsr(isr, broker_epochs, self.leader_epoch, self.partition_epoch)

    def withdraw_isr(self) -> None:
        self.proposed = None

    def set_followers(self, followers: Followers | None) -> None:
        """Set the followers of this leader; None if it has none, or does not lead."""
        self.followers = followers

    def set_producers(self, producers: ProducerState | None) -> None:
        self.producers = producers  # of the log, with which this replica becomes leader

    def set_commits_at_once(self, commits_at_once: bool) -> None:
        self.commits_at_once = commits_at_once

    def raise_high_watermark(self, offset: int) -> bool:
        """Raise the high watermark; returns whether it has moved."""
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        return True

    # The follower --------------------------------------------------------------------------------

    def append_fetched(self, run: FetchedRun, turn: list[PartitionAppend]) -> None:
        """Append fetched batches of one epoch, with the leader's offsets."""
        if run.base > self.end:  # compaction may have removed all batches of a producer
            self.producers_known_from = NO_PRODUCER
        append = PartitionAppend(self)
        append.base, append.end, append.epoch = run.base, run.end, run.epoch
        append.buffers.append(run.records)
        append.size = len(run.records)
        append.max_timestamp = run.max_timestamp
        append.max_timestamp_offset = run.max_timestamp_offset
        append.idempotent = run.idempotent
        append.control = run.control
        turn.append(append)
        self.unwritten.append(append)
        self.end = run.end

    def note_leader_offsets(self, high_watermark: int, start: int) -> None:
        """Note the leader's high watermark and log start, as of a fetch response."""
        self.leader_high_watermark, self.leader_start = high_watermark, start

    def follow_high_watermark(self) -> bool:
        """Follow the leader's high watermark up to the written end; return whether it has moved."""
        offset = min(self.leader_high_watermark, self.written_end)
        return self.raise_high_watermark(max(offset, self.start))

    @property
    def lag(self) -> int:
        """The number of committed offsets that this replica lacks, as of the last fetch."""
        committed = 0 if self.leads else max(self.high_watermark, self.leader_high_watermark)
        return max(0, committed - self.written_end)

    def begin_truncation(self) -> None:
        self.is_truncating = True

    def truncated(self, start: int, end: int) -> None:
        """The log was truncated, or restarted at another offset."""
        self.is_truncating = False
        if start == end:
            self.producers_known_from = NO_PRODUCER
        self.start = self.stored_start = start
        self.end = self.written_end = end
        self.high_watermark = max(min(self.high_watermark, end), start)

    # The leader ----------------------------------------------------------------------------------

    def configure(self, append_config: AppendConfig) -> None:
        """Apply changed topic settings."""
        self.append_config = append_config

    def append(self, header: BatchHeader, batch: memoryview, turn: list[PartitionAppend]) -> int:
        """Append a valid batch: assign its offsets in place. Returns its base offset."""
        header.base_offset = base = self.end
        header.leader_epoch = self.leader_epoch
        self.add(batch, header.last_offset_delta, header.max_timestamp, turn)
        if header.producer_id >= 0:
            assert self.open_append is not None, "the batch has just been added to it"
            self._note_producer(header, self.open_append)
        return base

    def add(
        self, batch: memoryview, delta: int, max_timestamp: int, turn: list[PartitionAppend]
    ) -> None:
        """Add a batch without the need for a parsed header; `delta`: its last offset delta."""
        base = self.end
        stamp_whole(batch, base, self.leader_epoch)
        append = self.open_append
        if append is None:
            append = self.open_append = PartitionAppend(self)
            turn.append(append)
            self.unwritten.append(append)
        append.buffers.append(batch)
        append.size += len(batch)
        if max_timestamp > append.max_timestamp:
            append.max_timestamp, append.max_timestamp_offset = max_timestamp, base + delta
        self.end = append.end = base + delta + 1

    def _note_producer(self, header: BatchHeader, append: PartitionAppend) -> None:
        producers = self.producers
        if producers is None:
            producers = self.producers = ProducerState()
        producer_id = header.producer_id
        append.idempotent.append(header)
        append.producers_before.setdefault(producer_id, producers.entries.get(producer_id))
        producers.apply(header)

    def check_producer(self, header: BatchHeader) -> int:
        """The error code for a batch of an idempotent producer: see `ProducerState.check`."""
        producers = NO_PRODUCERS if self.producers is None else self.producers
        return producers.check(header, self.producers_known_from)

    def duplicate_of(self, header: BatchHeader) -> RetainedBatch:
        """The earlier batch that this one repeats, if `check_producer` reports a duplicate."""
        duplicate = None if self.producers is None else self.producers.duplicate_of(header)
        assert duplicate is not None, "check_producer reports a duplicate"
        return duplicate

    @property
    def lacks_replicas(self) -> bool:
        """Whether the ISR is smaller than min.insync.replicas, or than all replicas if fewer."""
        size = len(self.isr)
        return size < len(self.replicas) and size < self.append_config.min_insync_replicas

    @property
    def has_valid_end(self) -> bool:
        """Whether the high watermark has reached the start of this leader's epoch (KIP-207).

        Until then a new leader may not know of records that its predecessor has committed.
        """
        return self.followers is None or self.high_watermark >= self.followers.epoch_start

    def is_reached(self, offset: int, timeout_ms: int) -> bool:
        """Whether everything before the offset is written, or committed if that is required."""
        if timeout_ms == WRITTEN_IS_ENOUGH:
            return offset <= self.written_end
        return offset <= self.high_watermark

    def wait_for(self, offset: int, pending: DelayedResponse, result: Any, timeout_ms: int) -> None:
        """Add a response that waits for an offset, in the order of offsets."""
        if offset <= self.written_end:
            self.just_written.append((offset, pending, result, timeout_ms))
            return
        index = len(self.acks)
        while index and self.acks[index - 1][0] > offset:
            index -= 1
        self.acks.insert(index, (offset, pending, result, timeout_ms))

    def take_just_written(self) -> list[Ack]:
        """Take the written batches with acks=all that have no timeout yet."""
        just_written, self.just_written = self.just_written, []
        return just_written

    def wait_for_isr(self, waiting: DelayedProduce) -> None:
        """Add a batch that is written here and waits for the other in-sync replicas."""
        awaiting = self.awaiting_isr
        if awaiting and waiting.offset < awaiting[-1].offset:  # a duplicate of an earlier batch
            insort(awaiting, waiting, key=lambda delayed: delayed.offset)
        else:
            awaiting.append(waiting)

    def stop_waiting(self, waiting: DelayedProduce) -> None:
        """Remove a batch whose timeout has expired."""
        self.awaiting_isr.remove(waiting)

    def take_replicated(self) -> list[DelayedProduce]:
        """Take the batches below the high watermark: every in-sync replica has them.

        The others are not visited: the high watermark moves often, and thousands may wait.
        """
        count = 0
        for delayed in self.awaiting_isr:
            if delayed.offset > self.high_watermark:
                break
            count += 1
        taken = self.awaiting_isr[:count]
        del self.awaiting_isr[:count]
        return _mark_done(taken)

    def take_unreplicated(self) -> list[DelayedProduce]:
        """Take the batches that wait for the other in-sync replicas, and may fail meanwhile."""
        taken = [delayed for delayed in self.awaiting_isr if delayed.may_fail]
        self.awaiting_isr = [delayed for delayed in self.awaiting_isr if not delayed.may_fail]
        return _mark_done(taken)

    def watch(self, fetch: Any, *, by_follower: bool = False) -> None:
        """Call `try_complete` of a delayed fetch when the high watermark moves.

        For a follower's fetch, call it when something is written.
        """
        (self.follower_fetches if by_follower else self.fetches)[fetch] = None

    def add_session(self, entry: SessionListener, *, by_follower: bool) -> None:
        """Report changes to a fetch session from now on."""
        sessions = self.follower_sessions if by_follower else self.consumer_sessions
        sessions[:] = [other for other in sessions if not other.is_obsolete and other is not entry]
        sessions.append(entry)

    def unwatch(self, fetch: Any) -> None:
        self.fetches.pop(fetch, None)
        self.follower_fetches.pop(fetch, None)

    def start_moved(self, start: int) -> None:
        """Advance the log start offset; it is not durable, so a crash may undo it."""
        self.start = max(self.start, start)

    def start_stored(self, start: int) -> None:
        """The log start offset is durable."""
        self.start_moved(start)
        self.stored_start = max(self.stored_start, start)

    def passed_to_host(self) -> None:
        """The host has received this turn's append."""
        self.open_append = None

    def written(self, end: int) -> list[Ack]:
        """The host has written up to `end`; returns the responses that no longer wait.

        A report that arrives after a newer one is ignored.
        """
        if end <= self.written_end:
            return []
        counts = self.counts
        if self.leads:
            counts.messages_in += end - self.written_end
        self.written_end = end
        if self.commits_at_once:
            self.high_watermark = end
        unwritten = self.unwritten
        while unwritten and unwritten[0].end <= end:
            if self.leads:
                counts.bytes_in += unwritten[0].size
            self.written_bytes += unwritten[0].size
            del unwritten[0]
        return self._take_acks(end)

    def failed(self) -> None:
        """The log has failed: discard the offsets assigned since the last successful write."""
        self.online = self.is_open = False
        self._discard(0)

    def undo(self, append: PartitionAppend) -> list[tuple[DelayedResponse, Any]]:
        """Discard an append that was not written, and those after it; their offsets are reused.

        Earlier appends keep their offsets. Returns the responses that waited for the discarded
        ones, with their results.
        """
        self._discard(self.unwritten.index(append))
        waiting = []
        while self.acks and self.acks[-1][0] > self.end:
            _, pending, result, _ = self.acks.pop()
            waiting.append((pending, result))
        return waiting[::-1]

    def _discard(self, first: int) -> None:
        """Discard the unwritten appends from number `first` on."""
        discarded, self.unwritten = self.unwritten[first:], self.unwritten[:first]
        self.open_append = None
        self.end = self.unwritten[-1].end if self.unwritten else self.written_end
        for append in reversed(discarded):
            if self.producers is not None:
                self.producers.put_back(append.producers_before)

    def take_waiting(self) -> list[tuple[DelayedResponse, Any]]:
        """Take all responses that wait for a write or for replicas, with their results."""
        waiting = [(pending, result) for _, pending, result, _ in (*self.acks, *self.just_written)]
        for delayed in self.awaiting_isr:
            delayed.done = True
            waiting.append((delayed.pending, delayed.result))
        self.acks.clear()
        self.just_written.clear()
        self.awaiting_isr.clear()
        return waiting

    def _take_acks(self, end: int) -> list[Ack]:
        acks = self.acks
        count = 0
        for ack in acks:
            if ack[0] > end:
                break
            count += 1
        done = acks[:count]
        del acks[:count]
        if self.commits_at_once:
            return done
        self.just_written += [ack for ack in done if ack[3] != WRITTEN_IS_ENOUGH]
        return [ack for ack in done if ack[3] == WRITTEN_IS_ENOUGH]

    @property
    def follows(self) -> bool:
        """Whether this is a follower whose log can be read, up to its own high watermark."""
        return self.is_open and not (self.leads or self.is_truncating or self.leader_epoch < 0)

    def error_for_request(self, leader_epoch: int, *, reads_followers: bool = False) -> int:
        """The error code for a request to this partition; `leader_epoch` -1: not given."""
        if not (self.online or (reads_followers and self.follows)):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if leader_epoch >= 0:
            if leader_epoch < self.leader_epoch:
                return ErrorCode.FENCED_LEADER_EPOCH
            if leader_epoch > self.leader_epoch:
                return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE
