"""A log on disk, in Kafka's layout: segments, their indexes, leader epochs, producers.

One thread owns a log. Offsets and epochs are decided elsewhere: a log writes what it is given,
finds it again, and can be cut at either end. What may block for long is a job for a lane
(`flush_job`, removed files in `garbage`) or a generator that is run in slices (`recovery`).

After a failed write or sync the disk counts as lost, and with it every log on it: bytes of which
nobody knows whether they are on the disk are never called durable. A full disk is no failure:
what was written in part is cut off again.
"""

from __future__ import annotations

from bisect import bisect_right

from kraftlog.errors import DiskFullError, StorageError
from kraftlog.logstate.epochs import EpochCache
from kraftlog.logstate.producers import ProducerState
from kraftlog.records.header import MAX_OFFSET
from kraftlog.storage.batches import PLACE, describe, pieces
from kraftlog.storage.checkpoints import EPOCHS, encode_epochs
from kraftlog.storage.config import DEFAULT_CONFIG, MAX_RELATIVE_OFFSET, LogConfig
from kraftlog.storage.disk import NO_DESCRIPTOR, write_all, write_atomically, write_whole
from kraftlog.storage.flush import FlushJob
from kraftlog.storage.io_errors import IOContext
from kraftlog.storage.producer_tracker import ProducerTracker
from kraftlog.storage.retention import expired_segments, segments_below
from kraftlog.storage.scan import Scan, scan_file
from kraftlog.storage.segment import Segment, Slice, segment_is_full
from kraftlog.storage.swaps import to_segment, to_swap
from kraftlog.types import NULL_UUID

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kraftlog.storage.batches import Batches
    from kraftlog.storage.disk import Disk
    from kraftlog.storage.transactions import AbortedTransaction
    from kraftlog.types import Buffer, Uuid

_ALLOCATE_FROM = 1 << 20  # a log that has written this much into a segment will write more


class Log:
    """The log of one partition. Create with `kraftlog.storage.recovery`."""

    __slots__ = (
        "_epochs_changed",
        "_flushing",
        "_generation",
        "_gone",
        "_names_changed",
        "_unsynced",
        "before_truncation",
        "clean_offset",
        "config",
        "disk",
        "end_offset",
        "epochs",
        "folder",
        "garbage",
        "recovery_point",
        "segments",
        "start_offset",
        "topic_id",
        "tracker",
    )

    def __init__(self, disk: Disk, folder: str, config: LogConfig = DEFAULT_CONFIG) -> None:
        self.disk = disk
        self.folder = folder
        #: whose log it is: another topic may have its name, and its folder, later
        self.topic_id: Uuid = NULL_UUID
        self.config = config
        self.segments: list[Segment] = []
        self.start_offset = 0
        self.end_offset = 0
        #: everything below is durable
        self.recovery_point = 0
        #: what lies below holds each key once; never above the recovery point
        self.clean_offset = 0
        self.epochs = EpochCache()
        self.tracker = ProducerTracker(disk, folder)
        #: files that have been renamed and wait to be unlinked, in a lane
        self.garbage: list[str] = []
        #: called with the offset before anything durable is cut off: it makes the stored recovery
        #: point no larger, or else a recovery would take the cut for damage
        self.before_truncation: Callable[[int], None] = _accept
        self._epochs_changed = False
        self._names_changed = False
        self._unsynced: list[str] = []
        self._flushing: FlushJob | None = None
        self._generation = 0
        self._gone = False

    @property
    def producers(self) -> ProducerState:
        """The producers as of the end of the log."""
        return self.tracker.state

    @property
    def size_bytes(self) -> int:
        return sum([segment.size for segment in self.segments])

    # -- appending -----------------------------------------------------------------------------

    def append(self, buffers: Sequence[Buffer], batches: Batches, now_ms: int) -> None:
        """Write batches at the end, in one call of the operating system where that is possible.

        Each buffer holds whole batches. On `DiskFullError` the log is as it was before; on any
        other `StorageError` the disk is offline.
        """
        disk = self.disk
        if disk.failure is not None or (disk.is_short and not self.config.uses_reserve):
            disk.check()
            raise DiskFullError(
                f"{self.folder}: the disk is full: records are refused until space is freed"
            )
        assert batches.base_offset >= self.end_offset, "offsets only grow"
        segments = self.segments
        if not segments or segment_is_full(segments[-1], batches, self.config, now_ms):
            if self._needs_parting(buffers, batches):
                self._append_in_pieces(buffers, now_ms)
                return
            self._make_room(batches, now_ms)
        segment = segments[-1]
        try:
            if segment.size + batches.size_bytes > segment.allocated >= 0:
                self._allocate(segment, batches.size_bytes)
            written = write_all(
                disk.files, segment.log.use(), buffers, segment.size, batches.size_bytes
            )
        except OSError as error:
            raise self._undo_write(segment, batches.size_bytes, error) from error
        assert written == batches.size_bytes, "the description must fit the buffers"
        segment.note(buffers, batches, self.config.index_interval_bytes)
        if batches.leader_epoch != self.epochs.latest and batches.leader_epoch >= 0:
            self._epochs_changed |= self.epochs.assign(batches.leader_epoch, batches.base_offset)
        if batches.producers:
            aborted = self.tracker.note(batches.producers)
            if aborted:
                segment.aborted = [*segment.aborted_transactions(), *aborted]
        self.end_offset = batches.last_offset + 1

    def _needs_parting(self, buffers: Sequence[Buffer], batches: Batches) -> bool:
        """Whether even a segment of their own would not hold all of these batches."""
        if batches.last_offset - batches.base_offset > MAX_RELATIVE_OFFSET:
            return True
        return batches.size_bytes > self.config.segment_bytes and len(buffers) > 1

    def _append_in_pieces(self, buffers: Sequence[Buffer], now_ms: int) -> None:
        """More than a segment holds: as much as fits into each, and all or nothing."""
        end_offset = self.end_offset
        try:
            for piece in pieces(buffers, self.config.segment_bytes):
                self.append(piece, describe(piece), now_ms)
        except DiskFullError:
            self.truncate_to(end_offset)
            raise

    def _make_room(self, batches: Batches, now_ms: int) -> None:
        """A new active segment for these batches."""
        base_offset = self.end_offset
        if batches.last_offset - base_offset > MAX_RELATIVE_OFFSET:
            base_offset = batches.base_offset
        self.roll(now_ms, base_offset)

    def _allocate(self, segment: Segment, size: int) -> None:
        """Reserve blocks ahead of a log that is written a lot; growing file by file is slower."""
        ahead = self.config.allocate_bytes
        if segment.size < _ALLOCATE_FROM or not ahead:
            return
        ahead = max(size, min(ahead, self.config.segment_bytes - segment.size))
        try:
            self.disk.files.allocate(segment.log.use(), segment.size, ahead)
            segment.allocated = segment.size + ahead
        except OSError:
            segment.allocated = -1  # no matter: the write itself will say what is wrong

    def _undo_write(self, segment: Segment, size: int, error: OSError) -> StorageError:
        where = f"{segment.log.path}: {size} bytes at position {segment.size} were not written"
        failure = self.disk.failed(where, error)
        if isinstance(failure, DiskFullError):
            try:
                fd = segment.log.use()
                if self.disk.files.size(fd) > segment.size:
                    self.disk.files.truncate(fd, segment.size)
                    # at once: the next append of this epoch must not be followed by the rest
                    self.disk.files.sync(fd)
            except OSError as second:
                return self.disk.fail(where, second)
        return failure

    def roll(self, now_ms: int, base_offset: int | None = None, *, seals: bool = True) -> None:
        """Begin a segment, at the end of the log or later; one that is kept is sealed."""
        self.disk.check()
        base_offset = self.end_offset if base_offset is None else base_offset
        with IOContext(self, "beginning a segment"):
            if self.segments:
                active = self.segments[-1]
                if active.size == 0:
                    if active.base_offset == base_offset:
                        return
                    self._drop(self.segments.pop())
                else:
                    if seals:
                        self.seal(active)
                    self._unsynced += self.tracker.roll(self.end_offset)
            segment = Segment(self.disk, self.folder, base_offset)
            segment.created_ms = now_ms
            segment.log.create()
            self.segments.append(segment)
            self._names_changed = True

    def seal(self, segment: Segment) -> None:
        """Complete a segment's files; the next flush makes them durable."""
        segment.seal()
        self._unsynced += segment.index_paths()
        self._names_changed = True

    # -- reading -------------------------------------------------------------------------------

    def locate(self, offset: int, max_bytes: int, limit: int) -> Slice | None:
        """Whole batches from the one that holds `offset`, all below `limit`; None if none are.

        About `max_bytes`, but at least one batch. `offset` lies between start and end.
        """
        limit = min(limit, self.end_offset)
        if offset >= limit or not self.segments:
            return None
        number = self._segment_number(offset)
        segment = self.segments[number]
        with IOContext(self, "finding an offset", only_reads=True):
            start = segment.position_of(offset)
            while start == segment.size:  # nothing left in this one: compaction has made a gap
                number += 1
                if number == len(self.segments):
                    return None
                segment = self.segments[number]
                start = segment.position_of(offset)
            end = segment.size
            if limit < segment.end_offset:
                end = segment.position_of(limit)
                segment.mark(limit, end)
            if end <= start:
                return None
            end = segment.cut_at(start, end, max_bytes)
        return Slice(segment.log, start, end - start)

    def read(self, place: Slice) -> bytes:
        """The bytes of a slice."""
        with IOContext(self, "reading", only_reads=True):
            data = self.disk.files.pread(place.handle.use(), place.length, place.position)
        if len(data) != place.length:
            raise StorageError(f"{place.handle.path}: shorter than it was, at {place.position}")
        return data

    def _segment_number(self, offset: int) -> int:
        if offset >= self.segments[-1].base_offset:
            return len(self.segments) - 1
        return max(bisect_right(self.segments, offset, key=_base_offset) - 1, 0)

    def batch_for_timestamp(self, timestamp: int, start: int) -> bytes | None:
        """The first batch with an offset from `start` on whose newest record is not older."""
        for segment in self.segments:
            if segment.max_timestamp < timestamp or segment.end_offset <= start:
                continue
            with IOContext(self, "finding a time"):
                relative = segment.times.before_time(timestamp)
                first = max(segment.base_offset + relative, start)
                for position, size, _, newest in segment.walk(segment.position_of(first)):
                    if newest >= timestamp:
                        return self.read(Slice(segment.log, position, size))
        return None

    @property
    def newest_timestamp(self) -> int:
        """The largest timestamp of a record, -1 if there is none."""
        return max([segment.max_timestamp for segment in self.segments], default=-1)

    def aborted_transactions(self, first: int, end: int) -> list[AbortedTransaction]:
        """Those that a reader of `first..end` must leave out."""
        found = []
        if self.segments:
            for segment in self.segments[self._segment_number(first) :]:
                for entry in segment.aborted_transactions():
                    if entry.last_offset >= first and entry.first_offset < end:
                        found.append(entry)
                    if entry.stable_offset >= end:
                        return found
        return found

    # -- cutting -------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> int:
        """Cut off everything from `offset` on; the new end, lower if a batch straddles it."""
        if offset >= self.end_offset:
            return self.end_offset
        self.disk.check()
        if not self.segments or offset < self.segments[0].base_offset:
            self.truncate_fully_and_start_at(offset)
            return offset
        with IOContext(self, f"truncating to {offset}"):
            end_offset = self._batch_boundary(offset)
            self._lower_recovery_point(end_offset)
            dropped = False
            while self.segments[-1].base_offset >= end_offset and len(self.segments) > 1:
                self._drop(self.segments.pop())
                dropped = True
            if dropped:  # or a segment could come back behind one that was cut
                self.disk.files.sync_directory(self.folder)
            active = self.segments[-1]
            if active.end_offset > end_offset:
                active.truncate(end_offset)
                # at once: of what comes in its place a part could be lost, and a batch that was
                # cut off could stand there again, before the rest
                self.disk.files.sync(active.log.use())
            self.end_offset = end_offset
            self.start_offset = min(self.start_offset, end_offset)
            self.tracker.remove_above(end_offset)
            self._epochs_changed |= self.epochs.truncate_from_end(end_offset)
            if not self.tracker.is_empty:
                self._replay_producers()
        return self.end_offset

    def _batch_boundary(self, offset: int) -> int:
        """The offset itself, or the base offset of the batch that straddles it."""
        segment = self.segments[self._segment_number(offset)]
        position = segment.position_of(offset)
        if position == segment.size:
            return offset
        head = self.disk.files.pread(segment.log.use(), PLACE.size, position)
        base_offset: int = PLACE.unpack(head)[0]
        return min(offset, base_offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove everything; the log goes on at `offset`."""
        self.disk.check()
        self._lower_recovery_point(0)
        with IOContext(self, f"restarting the log at {offset}"):
            while self.segments:  # from the end, so that a crash leaves the front of the log
                self._drop(self.segments.pop())
            self.tracker.clear()
            if self.epochs.clear():
                write_atomically(self.disk.files, f"{self.folder}/{EPOCHS}", encode_epochs(()))
            segment = Segment(self.disk, self.folder, offset)
            segment.log.create()
            self.segments.append(segment)
            self.start_offset = self.end_offset = self.recovery_point = offset
            self.disk.files.sync_directory(self.folder)

    def move_start(self, offset: int) -> int:
        """Records below `offset` are no longer wanted; how many segments went."""
        self.disk.check()
        assert offset <= self.end_offset, "a log can't start behind its end"
        if offset <= self.start_offset:
            return 0
        self.start_offset = offset
        return self._drop_front(segments_below(self.segments, offset), 0)

    def retention(self, now_ms: int, limit: int, at_most: int = MAX_OFFSET) -> int:
        """Remove what is too old or too much, below `limit`; how many segments went.

        No more than `at_most`: then it should be asked again.
        """
        self.disk.check()
        with IOContext(self, "looking for old segments"):
            count = expired_segments(self.segments, self.config, now_ms, limit, self._modified_ms)
        return self._drop_front(min(count, at_most), now_ms)

    def _modified_ms(self, segment: Segment) -> int:
        return self.disk.files.modified_ms(segment.log.path)

    def _drop_front(self, count: int, now_ms: int) -> int:
        if count == len(self.segments) and count:
            self.roll(now_ms, seals=False)  # to write and unlink indexes takes milliseconds
        with IOContext(self, "removing old segments"):
            for segment in self.segments[:count]:
                self._drop(segment)
                self.segments.remove(segment)
            if self.segments:
                self.start_offset = max(self.start_offset, self.segments[0].base_offset)
                self._unsynced += self.tracker.remove_below(self.segments[0].base_offset)
            self._epochs_changed |= self.epochs.truncate_from_start(self.start_offset)
        return count

    def _drop(self, segment: Segment) -> None:
        """Take a segment's files out of the log; unlinking is for a lane."""
        self.garbage.append(segment.remove())
        self._names_changed = True

    @property
    def cuts(self) -> int:
        """How often something was cut off the end: what was found out before may no longer hold."""
        return self._generation

    def replace_segments(self, old: Sequence[Segment], new: Segment) -> None:
        """Put a segment that compaction has made in the place of those it was made of.

        Its files are there under their `.cleaned` names, durable. Nothing is synced here: a file
        system shows changes of names in their order, also after a crash.
        """
        self.disk.check()
        files, stem = self.disk.files, new.path("")
        number = self.segments.index(old[0])
        assert self.segments[number : number + len(old)] == list(old) != self.segments[number:]
        try:
            to_swap(files, stem)
            for segment in old:
                self._drop(segment)
            to_segment(files, stem)
            new.end_offset = old[-1].end_offset
            self.segments[number : number + len(old)] = [new]
            for segment in old[1:]:
                self.tracker.remove(segment.base_offset)
        except OSError as error:  # a half is left, which only an opening puts right
            raise self.disk.fail(f"{self.folder}: replacing compacted segments", error) from error

    def _lower_recovery_point(self, offset: int) -> None:
        """What is cut off no longer counts as durable, here and on disk, before it is cut."""
        self._generation += 1
        self.clean_offset = min(self.clean_offset, offset)
        if offset < self.recovery_point:
            self.before_truncation(offset)
            self.recovery_point = offset

    def _replay_producers(self) -> None:
        """The state at the new end: from the newest snapshot, and the batches behind it."""
        done = self.tracker.load(self.end_offset)
        state = self.tracker.state
        for segment in self.segments:
            if segment.end_offset > done:
                scan = Scan(
                    segment.base_offset,
                    self.config.index_interval_bytes,
                    with_crc=False,
                    producers=state,
                    producers_from=done,
                )
                for _ in scan_file(self.disk, segment.log, segment.size, scan):
                    pass

    # -- making durable ------------------------------------------------------------------------

    def flush_job(self) -> FlushJob | None:
        """What must be synced for all of the log to be durable; None if nothing must, or if a
        job is under way: when that has ended, ask again."""
        self.disk.check()
        if self._flushing is not None or not self.needs_flush:
            return None
        job = FlushJob(self.end_offset, self._generation)
        with IOContext(self, "opening files to flush"):
            job.add(it.log for it in self.segments if it.end_offset > self.recovery_point)
        job.paths, self._unsynced = self._unsynced, []
        if self._epochs_changed:
            job.epochs = f"{self.folder}/{EPOCHS}", encode_epochs(self.epochs.entries())
            self._epochs_changed = False
        if self._names_changed:
            job.folders = [self.folder, self.folder.rpartition("/")[0] or "."]
            self._names_changed = False
        self._flushing = job
        return job

    @property
    def needs_flush(self) -> bool:
        return (
            self.end_offset > self.recovery_point
            or self._epochs_changed
            or self._names_changed
            or bool(self._unsynced)
        )

    @property
    def is_flushing(self) -> bool:
        """Whether a job is under way."""
        return self._flushing is not None

    def is_new(self, path: str) -> None:
        """The log's folder has just been made, and the file `path` in it."""
        self._names_changed = True
        self._unsynced.append(path)

    def nothing_is_durable_yet(self) -> None:
        """After a crash: what was found may yet be only in memory, and what was cut on the disk."""
        self._epochs_changed = bool(self.epochs.epochs)
        self._names_changed = True
        self._unsynced += [segment.log.path for segment in self.segments[-1:]]

    def epochs_are_new(self) -> None:
        """They were read from the batches: the next flush writes them down."""
        self._epochs_changed = True

    def flushed(self, job: FlushJob) -> int:
        """A job has ended; the recovery point. Raises when it has failed: never to be retried, but
        for lack of a descriptor for a file, or of room for the epochs."""
        assert job is self._flushing, "jobs end in the order in which they were made"
        self._flushing = None
        job.unpin()
        if self._gone:
            return self.recovery_point
        if job.error is not None:
            where = f"{self.folder}: could not be flushed"
            if job.error.errno in NO_DESCRIPTOR or job.lacks_room:
                self._unsynced += job.paths
                self._epochs_changed = self._names_changed = True
                raise self.disk.failed(where, job.error)
            self.disk.fail(where, job.error)
        self.disk.check()
        if job.generation == self._generation:
            self.recovery_point = max(self.recovery_point, job.end_offset)
        return self.recovery_point

    def flush(self) -> None:
        """Make everything durable now, on this thread: for closing, tools and tests."""
        assert self._flushing is None, "a job that is under way must end first"
        job = self.flush_job()
        if job is not None:
            job.run(self.disk.files)
            self.flushed(job)

    def close(self) -> None:
        """Everything to disk, files closed. What was closed cleanly opens without being read."""
        self.finish()
        self.flush()
        self.release()

    def finish(self) -> None:
        """Write what a clean opening needs; it is not durable yet."""
        self.disk.check()
        with IOContext(self, "closing"):
            if self.segments and not self.segments[-1].has_index_files:
                self.seal(self.segments[-1])
            if self._wants_snapshot():
                self._unsynced.append(self.tracker.write_snapshot(self.end_offset))

    # Closing ten thousand logs one by one takes ten thousand times a few syncs. Instead the
    # directory lets all of them write, syncs the file system, and lets all of them rename.

    def write_epochs_beside(self) -> None:
        """The leader-epoch checkpoint under another name, not durable yet."""
        if self._epochs_changed:
            with IOContext(self, "writing leader epochs"):
                data = encode_epochs(self.epochs.entries())
                write_whole(self.disk.files, f"{self.folder}/{EPOCHS}.tmp", data, sync=False)

    def put_epochs_in_place(self) -> None:
        """That file is durable now: it takes the other's name."""
        if self._epochs_changed:
            with IOContext(self, "writing leader epochs"):
                path = f"{self.folder}/{EPOCHS}"
                self.disk.files.rename(f"{path}.tmp", path)

    def all_is_durable(self) -> None:
        """The whole file system has been synced behind the last change."""
        assert self._flushing is None, "a job that is under way must end first"
        self._epochs_changed = self._names_changed = False
        self._unsynced.clear()
        self.recovery_point = self.end_offset

    def _wants_snapshot(self) -> bool:
        """A log without snapshots counts as one that never had a producer id."""
        snapshots = self.tracker.snapshots
        return self.end_offset not in snapshots and bool(snapshots or not self.tracker.is_empty)

    def abandon(self) -> None:
        """The log is deleted: a job that is under way may fail, nobody minds."""
        self._gone = True
        self.release()

    def release(self) -> None:
        """Close the files without writing anything."""
        for segment in self.segments:
            segment.release()


def _base_offset(segment: Segment) -> int:
    return segment.base_offset


def _accept(_: int) -> None:
    """Nothing is stored of this log that would have to change first."""
