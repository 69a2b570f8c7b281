"""A partition's log on disk in Kafka's layout: segments, indexes, leader epochs, producers.

One thread owns a log. A log does not assign offsets or epochs: it appends and reads batches, and is
truncated at either end. Operations that block run in an I/O thread (`flush_job`, and deleting the
files in `garbage`) or in slices as a generator (`recovery`).

After a failed write or sync the disk, with every log on it, counts as failed: data that may not be
on the disk is never reported as durable. A full disk is no failure: a partial write is truncated
again.
"""

from __future__ import annotations

from bisect import bisect_right

from kraftlog.errors import DiskFullError, StorageError
from kraftlog.logstate.epochs import EpochCache
from kraftlog.logstate.producers import ProducerState
from kraftlog.records.header import MAX_OFFSET
from kraftlog.storage.batches import BATCH_EXTENT, describe, split_by_segment
from kraftlog.storage.checkpoints import EPOCHS, encode_epochs
from kraftlog.storage.config import DEFAULT_CONFIG, MAX_RELATIVE_OFFSET, LogConfig
from kraftlog.storage.disk import NO_DESCRIPTOR, write_all, write_atomically, write_whole
from kraftlog.storage.flush import FlushJob
from kraftlog.storage.io_errors import IOContext, read_error
from kraftlog.storage.log_folder import make_log_folder
from kraftlog.storage.producer_tracker import ProducerTracker
from kraftlog.storage.retention import expired_segments, segments_below
from kraftlog.storage.segment import Segment, SegmentSlice, segment_is_full
from kraftlog.storage.swaps import to_segment, to_swap
from kraftlog.types import NULL_UUID
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kraftlog.storage.batches import Batches
    from kraftlog.storage.disk import Disk
    from kraftlog.storage.transactions import AbortedTransaction
    from kraftlog.types import Buffer, Uuid

_ALLOCATE_FROM = 1 << 20  # a segment of this size gets preallocated blocks: it will grow further


class Log:
    """The log of one partition; opened by `kraftlog.storage.recovery`."""

    __slots__ = (
        "_epochs_changed",
        "_flushing",
        "_generation",
        "_is_deleted",
        "_names_changed",
        "_unsynced",
        "before_truncation",
        "clean_offset",
        "config",
        "disk",
        "end_offset",
        "epochs",
        "first_leader_epoch",
        "folder",
        "garbage",
        "has_folder",
        "on_first_segment",
        "recovery_point",
        "segments",
        "start_offset",
        "topic_id",
        "tracker",
    )

    def __init__(self, disk: Disk, folder: str, config: LogConfig = DEFAULT_CONFIG) -> None:
        self.disk = disk
        self.folder = folder
        #: False for a new log without files: the first append creates the folder
        self.has_folder = True
        #: the topic of this log; another may use its name later
        self.topic_id: Uuid = NULL_UUID
        self.first_leader_epoch = 0  # higher if its partition was removed and added again (V11)
        self.config = config
        self.segments: list[Segment] = []
        self.start_offset = self.end_offset = 0
        self.recovery_point = 0  # everything below is durable
        self.clean_offset = 0  # all below is compacted; never above the recovery point
        self.epochs = EpochCache()
        self.tracker = ProducerTracker(disk, folder)
        #: renamed files that an I/O thread is to delete
        self.garbage: list[str] = []
        #: called with the new end before durable records are truncated: lowers the stored recovery
        #: point, because recovery would otherwise take the truncation for corruption
        self.before_truncation: Callable[[int], None] = _accept
        self.on_first_segment: Callable[[Log], None] = _accept  # called before it is created
        self._epochs_changed = self._is_deleted = False
        #: the next flush syncs the folder
        self._names_changed = False
        self._unsynced: list[str] = []  # files that the next flush syncs
        self._flushing: FlushJob | None = None
        self._generation = 0

    @property
    def producers(self) -> ProducerState:
        """The producers as of the end of the log."""
        return self.tracker.state

    @property
    def size_bytes(self) -> int:
        return sum([segment.size for segment in self.segments])

    # -- appending --------------------------------------------------------------------------------

    def append(self, buffers: Sequence[Buffer], batches: Batches, now_ms: int) -> None:
        """Write batches at the end, with one system call where possible.

        Each buffer contains whole batches. After `DiskFullError` the log is unchanged; after any
        other `StorageError` the disk is offline.
        """
        disk = self.disk
        if disk.failure is not None or (disk.has_only_reserve and not self.config.uses_reserve):
            disk.check()
            raise DiskFullError(
                f"{self.folder}: the disk is full: no records are accepted until space is freed"
            )
        assert batches.base_offset >= self.end_offset, "offsets only grow"
        segments = self.segments
        if not segments or segment_is_full(segments[-1], batches, self.config, now_ms):
            if self._exceeds_a_segment(buffers, batches):
                self._append_split(buffers, now_ms)
                return
            self._roll_for(batches, now_ms)
        segment, size = segments[-1], batches.size_bytes
        try:
            segment.reopen()
            if segment.size + size > segment.allocated >= 0:
                self._allocate(segment, size)
            written = write_all(disk.files, segment.log.use(), buffers, segment.size, size)
        except OSError as error:
            raise self._undo_write(segment, size, error) from error
        assert written == size, "the description must fit the buffers"
        segment.note(buffers, batches, self.config.index_interval_bytes)
        if batches.leader_epoch != self.epochs.latest and batches.leader_epoch >= 0:
            self._epochs_changed |= self.epochs.assign(batches.leader_epoch, batches.base_offset)
        if batches.producers:
            aborted = self.tracker.note(batches.producers)
            if aborted:
                segment.aborted = [*segment.aborted_transactions(), *aborted]
        self.end_offset = batches.last_offset + 1

    def _exceeds_a_segment(self, buffers: Sequence[Buffer], batches: Batches) -> bool:
        """Whether these batches are too large even for a segment of their own."""
        if batches.last_offset - batches.base_offset > MAX_RELATIVE_OFFSET:
            return True
        return batches.size_bytes > self.config.segment_bytes and len(buffers) > 1

    def _append_split(self, buffers: Sequence[Buffer], now_ms: int) -> None:
        """Append more than a segment holds, as several segments, all or nothing."""
        end_offset = self.end_offset
        try:
            for piece in split_by_segment(buffers, self.config.segment_bytes):
                self.append(piece, describe(piece), now_ms)
        except DiskFullError:
            self.truncate_to(end_offset)
            raise

    def _roll_for(self, batches: Batches, now_ms: int) -> None:
        """Roll a new active segment for these batches."""
        base_offset = self.end_offset
        if batches.last_offset - base_offset > MAX_RELATIVE_OFFSET:
            base_offset = batches.base_offset
        self.roll(now_ms, base_offset)

    def _allocate(self, segment: Segment, size: int) -> None:
        """Preallocate blocks for a busy log; growing the file write by write is slower."""
        ahead = self.config.allocate_bytes
        if segment.size < _ALLOCATE_FROM or not ahead:
            return
        ahead = max(size, min(ahead, self.config.segment_bytes - segment.size))
        try:
            self.disk.files.allocate(segment.log.use(), segment.size, ahead)
            segment.allocated = segment.size + ahead
        except OSError:
            segment.allocated = -1  # not fatal: the write itself reports any problem

    def _undo_write(self, segment: Segment, size: int, error: OSError) -> StorageError:
        where = f"{segment.log.path}: {size} bytes at position {segment.size} were not written"
        failure = self.disk.fail_unless_full(where, error)
        if isinstance(failure, DiskFullError):
            try:
                fd = segment.log.use()
                if self.disk.files.size(fd) > segment.size:
                    self.disk.files.truncate(fd, segment.size)
                    # At once: bytes of this write must not reappear after the next append.
                    self.disk.files.sync(fd)
            except OSError as undo_error:
                return self.disk.fail(where, undo_error)
        return failure

    def roll(self, now_ms: int, base_offset: int | None = None, *, seals: bool = True) -> None:
        """Roll a new active segment, at the end of the log or later, and seal the previous one."""
        self.disk.check()
        base_offset = self.end_offset if base_offset is None else base_offset
        with IOContext(self, "rolling a segment"):
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
            self._add_segment(base_offset).created_ms = now_ms
            self._names_changed = True

    def _add_segment(self, base_offset: int) -> Segment:
        if not self.has_folder:
            self.make_folder()
        if not self.segments:
            self.on_first_segment(self)
        segment = Segment(self.disk, self.folder, base_offset)
        segment.log.create()
        self.segments.append(segment)
        return segment

    def make_folder(self) -> None:
        """Create the folder; the next flush makes it durable."""
        self.mark_created(make_log_folder(self))
        self.has_folder = True

    def rename_folder(self, folder: str) -> None:
        """Rename the folder, which no flush job may be using; the caller syncs its parent."""
        assert self._flushing is None, "a job that is under way must end first"
        with IOContext(self, f"renaming the log to {folder}"):
            self.disk.files.rename(self.folder, folder)
        former, self.folder, self.tracker.folder = self.folder, folder, folder
        for segment in self.segments:
            segment.renamed(folder)
        self._unsynced = [folder + path[len(former) :] for path in self._unsynced]
        self.garbage = [folder + path[len(former) :] for path in self.garbage]

    def seal(self, segment: Segment) -> None:
        """Complete a segment's files; the next flush makes them durable."""
        segment.seal()
        self._unsynced += segment.index_paths()
        self._names_changed = True

    # -- reading ----------------------------------------------------------------------------------

    def locate(self, offset: int, max_bytes: int, limit: int) -> SegmentSlice | None:
        """Find whole batches from the one that contains `offset`, all below `limit`; None if none.

        About `max_bytes`, but at least one batch; `offset` lies between the log's start and end.
        """
        limit = min(limit, self.end_offset)
        if offset >= limit or not self.segments:
            return None
        number = self._segment_number(offset)
        segment = self.segments[number]
        try:
            start = segment.position_of(offset)
            while start == segment.size:  # nothing left in this segment: compaction has left a gap
                number += 1
                if number == len(self.segments):
                    return None
                segment = self.segments[number]
                start = segment.position_of(offset)
            end = segment.size
            if limit < segment.end_offset:
                end = segment.position_of(limit)
                segment.mark(limit, end)
            size = segment.end_within(start, end, max_bytes) - start
        except OSError as error:
            raise read_error(self, "finding an offset", error) from error
        return SegmentSlice(segment.log, start, size) if size > 0 else None

    def read(self, batches: SegmentSlice) -> bytes:
        """Read the bytes of a slice."""
        with IOContext(self, "reading", only_reads=True):
            data = self.disk.files.pread(batches.handle.use(), batches.length, batches.position)
        if len(data) != batches.length:
            raise StorageError(f"{batches.handle.path}: it ends before a batch that it had")
        return data

    def _segment_number(self, offset: int) -> int:
        if offset >= self.segments[-1].base_offset:
            return len(self.segments) - 1
        return max(bisect_right(self.segments, offset, key=_base_offset) - 1, 0)

    def batch_for_timestamp(self, timestamp: int, start: int) -> bytes | None:
        """Find the first batch from offset `start` on with a timestamp of at least `timestamp`."""
        for segment in self.segments:
            if segment.max_timestamp < timestamp or segment.end_offset <= start:
                continue
            with IOContext(self, "finding a timestamp", only_reads=True):
                relative = segment.times.before_time(timestamp)
                first = max(segment.base_offset + relative, start)
                for position, size, _, max_timestamp in segment.walk(segment.position_of(first)):
                    if max_timestamp >= timestamp:
                        return self.read(SegmentSlice(segment.log, position, size))
        return None

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp of a record, or -1 if there is none."""
        return max([segment.max_timestamp for segment in self.segments], default=-1)

    def aborted_transactions(self, first: int, end: int) -> list[AbortedTransaction]:
        """The aborted transactions that a reader of `first..end` must skip."""
        aborted = []
        if self.segments:
            for segment in self.segments[self._segment_number(first) :]:
                for entry in segment.aborted_transactions():
                    if entry.last_offset >= first and entry.first_offset < end:
                        aborted.append(entry)
                    if entry.stable_offset >= end:
                        return aborted
        return aborted

    # -- truncating -------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> int:
        """Truncate to `offset`, or to the start of the batch that holds it; return the new end."""
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
            if dropped:  # at once: a dropped segment must not reappear after a truncated one
                self.disk.files.sync_folder(self.folder)
            active = self.segments[-1]
            if active.end_offset > end_offset:
                active.truncate(end_offset)
                # At once, or truncated batches may reappear among those that replace them.
                self.disk.files.sync(active.log.use())
            self.end_offset = end_offset
            self.start_offset = min(self.start_offset, end_offset)
            self.tracker.remove_above(end_offset)
            self._epochs_changed |= self.epochs.truncate_from_end(end_offset)
            if not self.tracker.is_empty:
                self.tracker.replay(
                    self.segments, self.end_offset, self.config.index_interval_bytes
                )
        return self.end_offset

    def _batch_boundary(self, offset: int) -> int:
        """The offset itself, or the base offset of the batch that contains it."""
        segment = self.segments[self._segment_number(offset)]
        position = segment.position_of(offset)
        if position == segment.size:
            return offset
        head = self.disk.files.pread(segment.log.use(), BATCH_EXTENT.size, position)
        base_offset: int = BATCH_EXTENT.unpack(head)[0]
        return min(offset, base_offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Delete everything and continue at `offset`."""
        self.disk.check()
        self._lower_recovery_point(0)
        with IOContext(self, f"restarting the log at {offset}"):
            while self.segments:  # from the end, so that a crash leaves the front of the log
                self._drop(self.segments.pop())
            self.tracker.clear()
            self.epochs.clear()
            # The file may have epochs that recovery has removed from the log only.
            path = f"{self.folder}/{EPOCHS}"
            if self.disk.files.exists(path):
                write_atomically(self.disk.files, path, encode_epochs(()))
            self._add_segment(offset)
            self.start_offset = self.end_offset = self.recovery_point = offset
            self.disk.files.sync_folder(self.folder)

    def move_start(self, offset: int) -> int:
        """Raise the log start offset; return how many segments were deleted."""
        self.disk.check()
        assert offset <= self.end_offset, "a log can't start after its end"
        if offset <= self.start_offset:
            return 0
        self.start_offset = offset
        # Before segments are deleted, because that may fail for lack of space.
        self._epochs_changed |= self.epochs.truncate_from_start(offset)
        return self._drop_front(segments_below(self.segments, offset), 0)

    def delete_old_segments(self, now_ms: int, limit: int, max_segments: int = MAX_OFFSET) -> int:
        """Delete segments below `limit` that have expired by time or size; return how many.

        At most `max_segments` are deleted; if that many were deleted, the caller calls again.
        """
        self.disk.check()
        with IOContext(self, "finding old segments"):
            count = expired_segments(self.segments, self.config, now_ms, limit, self._modified_ms)
        return self._drop_front(min(count, max_segments), now_ms)

    def _modified_ms(self, segment: Segment) -> int:
        return self.disk.files.modified_ms(segment.log.path)

    def _drop_front(self, count: int, now_ms: int) -> int:
        if count == len(self.segments) and count:
            self.roll(now_ms, seals=False)  # no index files for a segment that is deleted next
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
        """Remove a segment's files from the log; an I/O thread deletes them."""
        self.garbage.append(segment.remove())
        self._names_changed = True

    @property
    def truncations(self) -> int:
        """The number of truncations of the end; each makes an earlier compaction obsolete."""
        return self._generation

    def replace_segments(self, old: Sequence[Segment], new: Segment) -> None:
        """Replace adjacent segments, never the active one, by the one that compaction has written.

        Its `.cleaned` files are durable. Nothing is synced here: file systems keep the order of
        renames, also after a crash.
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
        except OSError as error:  # half a swap is left, which the next recovery completes
            raise self.disk.fail(f"{self.folder}: replacing compacted segments", error) from error

    def _lower_recovery_point(self, offset: int) -> None:
        """Lower the recovery point, here and on disk, before records are truncated."""
        self._generation += 1
        self.clean_offset = min(self.clean_offset, offset)
        if offset < self.recovery_point:
            self.before_truncation(offset)
            self.recovery_point = offset

    # -- flushing ---------------------------------------------------------------------------------

    def flush_job(self) -> FlushJob | None:
        """The syncs that make the whole log durable, or None.

        None means that nothing is unsynced, or that a job is in progress; call again when it has
        ended.
        """
        self.disk.check()
        if self._flushing is not None or not self.needs_flush:
            return None
        job = FlushJob(self.end_offset, self._generation)
        with IOContext(self, "opening files to flush"):
            job.add(s.log for s in self.segments if s.end_offset > self.recovery_point)
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
        """Whether a flush job is in progress."""
        return self._flushing is not None

    def mark_created(self, path: str) -> None:
        """Sync the new file `path` and the log's folder, which contains it, at the next flush."""
        self._names_changed = True
        self._unsynced.append(path)

    def assume_unsynced(self) -> None:
        """Sync everything at the next flush: after a crash, files may be only in the page cache."""
        self._epochs_changed = bool(self.epochs.epochs)
        self._names_changed = True
        self._unsynced += [segment.log.path for segment in self.segments[-1:]]

    def epochs_rebuilt(self) -> None:
        """Write the epochs at the next flush, because they were rebuilt or copied."""
        self._epochs_changed = True

    def flushed(self, job: FlushJob) -> int:
        """A flush job has ended; return the recovery point.

        Raises if the job failed, which is never retried, except for a lack of file descriptors or
        of space for the epochs.
        """
        assert job is self._flushing, "jobs end in the order in which they were made"
        self._flushing = None
        job.unpin()
        if self._is_deleted:
            return self.recovery_point
        if job.error is not None:
            where = f"{self.folder}: flushing the log"
            if job.error.errno in NO_DESCRIPTOR or job.lacks_space:
                self._unsynced += job.paths
                self._epochs_changed = self._names_changed = True
                raise self.disk.fail_unless_full(where, job.error)
            self.disk.fail(where, job.error)
        self.disk.check()
        if job.generation == self._generation:
            self.recovery_point = max(self.recovery_point, job.end_offset)
        return self.recovery_point

    def flush(self) -> None:
        """Make everything durable now, on this thread: for shutdown, tools and tests."""
        assert self._flushing is None, "a job that is under way must end first"
        job = self.flush_job()
        if job is not None:
            job.run(self.disk.files)
            self.flushed(job)

    def close(self) -> None:
        """Flush and close all files. A log that was closed cleanly opens without being scanned."""
        self.finish()
        self.flush()
        self.release()

    def finish(self) -> None:
        """Write what a start without a scan needs; it is not durable yet."""
        self.disk.check()
        with IOContext(self, "closing"):
            if self.segments and not self.segments[-1].has_index_files:
                self.seal(self.segments[-1])
            if self._wants_snapshot():
                self._unsynced.append(self.tracker.write_snapshot(self.end_offset))

    # The directory closes many logs together: all write their epochs, it syncs the file system, all
    # rename the files, and it syncs again.

    def write_temporary_epochs(self) -> None:
        """Write the leader-epoch checkpoint under a temporary name; it is not durable yet."""
        if self._epochs_changed:
            with IOContext(self, "writing leader epochs"):
                data = encode_epochs(self.epochs.entries())
                write_whole(self.disk.files, f"{self.folder}/{EPOCHS}.tmp", data, sync=False)

    def install_epochs(self) -> bool:
        """Rename the leader-epoch checkpoint, which is durable now; return whether there is one."""
        if self._epochs_changed:
            with IOContext(self, "writing leader epochs"):
                path = f"{self.folder}/{EPOCHS}"
                self.disk.files.rename(f"{path}.tmp", path)
        return self._epochs_changed

    def filesystem_synced(self) -> None:
        """The whole file system has been synced after the last change."""
        assert self._flushing is None, "a job that is under way must end first"
        self._epochs_changed = self._names_changed = False
        self._unsynced.clear()
        self.recovery_point = self.end_offset

    def _wants_snapshot(self) -> bool:
        """Whether to write a producer snapshot; a log without producer ids needs none."""
        snapshots = self.tracker.snapshots
        return self.end_offset not in snapshots and bool(snapshots or not self.tracker.is_empty)

    def abandon(self) -> None:
        """Release a deleted log: a flush job in progress may fail without consequences."""
        self._is_deleted = True
        self.release()

    def release(self) -> None:
        """Close the files without writing anything."""
        for segment in self.segments:
            segment.release()


def _base_offset(segment: Segment) -> int:
    return segment.base_offset


def _accept(_: int | Log) -> None:
    """The default for callbacks: no directory has this log."""
