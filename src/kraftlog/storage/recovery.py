"""Opens a log: finds its files, and after a crash recovers what is valid.

A log that was closed cleanly is trusted. Otherwise every segment beyond the recovery point is
scanned, and the last one always:

- After the recovery point the log ends with its last valid batch. The rest is truncated, and the
  report counts any valid batches in it.
- Before the recovery point everything was durable. If records there are damaged or missing, nothing
  is changed, and `CorruptLogError` names the place: only a person or another replica can repair it.

Missing, short or wrong indexes are rebuilt. Recovery is a generator, so that the loop can recover
ten thousand logs in slices and serve requests in between; `run` runs it to its end.
"""

from __future__ import annotations

from kraftlog.errors import CorruptLogError, DiskFullError, StorageError
from kraftlog.logstate.epochs import NO_EPOCH, EpochCache
from kraftlog.logstate.producers import NO_OFFSET
from kraftlog.records.header import HEADER_SIZE, read_header
from kraftlog.storage.checkpoints import EPOCHS, decode_epochs
from kraftlog.storage.config import DEFAULT_CONFIG
from kraftlog.storage.disk import read_whole
from kraftlog.storage.log import Log
from kraftlog.storage.producer_tracker import ProducerTracker
from kraftlog.storage.reserve import is_full
from kraftlog.storage.salvage import Salvage
from kraftlog.storage.scan import Scan, scan_file
from kraftlog.storage.segment import (
    DELETED,
    INDEX,
    LOG,
    SNAPSHOT,
    TIME_INDEX,
    TRANSACTION_INDEX,
    Segment,
)
from kraftlog.storage.swaps import CLEANED, finish_swap
from kraftlog.storage.transactions import AbortedTransaction
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from kraftlog.storage.config import LogConfig
    from kraftlog.storage.disk import Disk

    Opening = Generator[int, None, tuple[Log, "RecoveryReport"]]

_DIGITS = 20
#: Files of a log are named by their base offset in twenty digits, and an ending.
_ENDINGS = {LOG, INDEX, TIME_INDEX, TRANSACTION_INDEX, SNAPSHOT}
_LEFTOVERS = (DELETED, CLEANED, ".tmp")
#: An index whose last entry is this far before the segment's end has lost entries, unless the gap
#: is only one or two large batches.
_INDEX_GAP = 1 << 20


class RecoveryReport(Value):
    """The result of opening a log; `problem` says why it was truncated, or is empty."""

    folder: str
    clean: bool
    start_offset: int = 0
    end_offset: int = 0
    scanned_bytes: int = 0
    truncated_bytes: int = 0
    problem: str = ""
    rebuilt: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    @property
    def is_noteworthy(self) -> bool:
        return bool(self.problem or self.rebuilt or self.removed)

    def line(self) -> str:
        """The text for the operator log."""
        parts = [f"{self.folder}: offsets {self.start_offset} to {self.end_offset}"]
        if not self.clean:
            parts.append(f"{self.scanned_bytes} bytes checked")
        if self.problem:
            parts.append(f"{self.truncated_bytes} bytes truncated: {self.problem}")
        if self.rebuilt:
            parts.append(f"rebuilt: {', '.join(self.rebuilt)}")
        if self.removed:
            parts.append(f"removed {', '.join(self.removed)}")
        return "; ".join(parts)


def run(opening: Opening) -> tuple[Log, RecoveryReport]:
    """Open a log without pauses."""
    while True:
        try:
            next(opening)
        except StopIteration as end:
            log, report = end.value
            return log, report


def open_log(
    disk: Disk,
    folder: str,
    config: LogConfig = DEFAULT_CONFIG,
    *,
    clean: bool = False,
    recovery_point: int = 0,
    start_offset: int = 0,
    distrust_cache: bool = False,
    before_truncation: Callable[[int], None] | None = None,
) -> Opening:
    """Open the log in a folder; yields the number of bytes that each step has read.

    `distrust_cache`: a sync has failed since the machine started, so the page cache may have data
    that the disk lacks; it is dropped, and the disk is read.
    """
    disk.check()
    opener = _Opener(disk, folder, config, clean=clean, recovery_point=recovery_point)
    opener.distrust_cache = distrust_cache
    if before_truncation is not None:
        opener.log.before_truncation = before_truncation
    opener.log.start_offset = start_offset
    try:
        yield from opener.open()
    except OSError as error:
        message = f"{error.filename or folder}: opening the log: {error.strerror or error}"
        if is_full(error):
            raise DiskFullError(message) from error
        raise StorageError(message) from error
    return opener.log, opener.report


class _Opener:
    """The steps of opening one log, and the report of what they found."""

    def __init__(
        self, disk: Disk, folder: str, config: LogConfig, *, clean: bool, recovery_point: int
    ) -> None:
        self.disk = disk
        self.clean = clean
        self.distrust_cache = False
        self.recovery_point = recovery_point
        self.log = Log(disk, folder, config)
        self.report = RecoveryReport(folder, clean)
        #: By base offset: the endings of the files that exist.
        self.endings: dict[int, set[str]] = {}

    def open(self) -> Generator[int, None, None]:
        log = self.log
        has_epochs = self._list_files()
        segments = [self._segment(base) for base in sorted(self._bases(LOG))]
        log.epochs = EpochCache(self._read_epochs() if has_epochs else ())
        log.tracker = ProducerTracker(self.disk, log.folder, sorted(self._bases(SNAPSHOT)))
        first_scanned = self._first_to_scan(segments)
        trusted = segments[:first_scanned]
        yield from self._trust(trusted, segments[first_scanned:])
        if not has_epochs or self._epochs_are_old(trusted):
            yield from self._rebuild_epochs(trusted)
        elif self._epochs_lack_the_start(trusted):
            yield from self._rebuild_epochs(trusted, log.epochs.entries())
        log.segments = trusted
        log.end_offset = trusted[-1].end_offset if trusted else self._first_base(segments)
        if self.clean:
            yield from self._load_producers(log.end_offset)
        else:
            yield from self._scan_all(segments[first_scanned:])
        self._make_consistent()

    # -- files ------------------------------------------------------------------------------------

    def _list_files(self) -> bool:
        """List the files by base offset; return whether there is a leader-epoch checkpoint.

        Before that, finish an interrupted swap; delete leftovers and indexes without a segment.
        """
        folder, removed, has_epochs = self.log.folder, [], False
        self.report.rebuilt += tuple(finish_swap(self.disk.files, folder))
        for name in self.disk.files.list(folder):
            if name.endswith(_LEFTOVERS):
                self.disk.files.unlink(f"{folder}/{name}")
                removed.append(name)
                continue
            digits, ending = name[:_DIGITS], name[_DIGITS:]
            if ending in _ENDINGS and digits.isdigit():
                self.endings.setdefault(int(digits), set()).add(ending)
            has_epochs |= name == EPOCHS
        for base, endings in self.endings.items():
            if LOG not in endings:
                removed += self._remove_orphaned_indexes(base, endings - {SNAPSHOT})
        self.report.removed = tuple([name for name in removed if not name.endswith(DELETED)])
        return has_epochs

    def _remove_orphaned_indexes(self, base: int, endings: set[str]) -> list[str]:
        """Delete index files without a segment."""
        names = [f"{base:020d}{ending}" for ending in sorted(endings)]
        for name in names:
            self.disk.files.unlink(f"{self.log.folder}/{name}")
        return names

    def _bases(self, ending: str) -> list[int]:
        return [base for base, endings in self.endings.items() if ending in endings]

    def _segment(self, base: int) -> Segment:
        segment = Segment(self.disk, self.log.folder, base)
        segment.size = self.disk.files.size_of(segment.log.path)
        segment.has_index_files = {INDEX, TIME_INDEX} <= self.endings[base]
        return segment

    def _read_epochs(self) -> list[tuple[int, int]]:
        path = f"{self.log.folder}/{EPOCHS}"
        return decode_epochs(read_whole(self.disk.files, path), path)

    def _first_to_scan(self, segments: list[Segment]) -> int:
        """The index of the first segment to scan, or the number of segments if none is scanned.

        Without a clean shutdown, those before it end at or below the recovery point.
        """
        if self.clean:
            return len(segments)
        count = 0
        for following in segments[1:]:
            if following.base_offset > self.recovery_point:
                break
            count += 1
        return count

    @staticmethod
    def _first_base(segments: list[Segment]) -> int:
        return segments[0].base_offset if segments else 0

    # -- trusted segments -------------------------------------------------------------------------

    def _trust(
        self, trusted: list[Segment], untrusted: list[Segment]
    ) -> Generator[int, None, None]:
        """Take sealed segments without scanning them; only their indexes are checked."""
        for number, segment in enumerate(trusted):
            following = [*trusted[number + 1 : number + 2], *untrusted[:1]]
            if segment.size and not self._index_is_good(segment):
                yield from segment.rebuild_in_steps(self.log.config.index_interval_bytes)
                self.report.rebuilt += (segment.log.path.rpartition("/")[2],)
            newest = segment.times.last() if segment.size else None
            if newest is not None and segment.max_timestamp < 0:
                segment.max_timestamp = newest[0]
                segment.max_timestamp_offset = newest[1] + segment.base_offset
            if segment.size:
                self._find_end(segment, following)
            if following:
                segment.end_offset = following[0].base_offset
            yield 0

    def _index_is_good(self, segment: Segment) -> bool:
        """Whether the last index entries match batches and the offset index is complete."""
        if not segment.has_index_files:
            return False
        files = self.disk.files
        for ending, size in ((INDEX, 8), (TIME_INDEX, 12)):
            if files.size_of(segment.path(ending)) % size:
                return False
        last = segment.offsets.last()  # relative offset and position
        if last is not None and not (0 <= last[1] < segment.size and segment.is_valid_entry(last)):
            return False
        newest = segment.times.last()  # timestamp and relative offset
        if newest is not None and (newest[0] < 0 or newest[1] < 0):
            return False
        position = last[1] if last else 0
        if segment.size - position <= _INDEX_GAP:
            return True
        batches = segment.walk(position)
        next(batches)
        return next(batches, None) is None or next(batches, None) is None

    @staticmethod
    def _find_end(segment: Segment, following: list[Segment]) -> None:
        """Find the end of a trusted segment from its last index entry.

        If the next segment continues after the last whole batch, the bytes in between were never
        part of the log: they are the rest of a failed write.
        """
        last, size = segment.offsets.last(), 0
        try:
            batches = segment.walk(last[1] if last else 0)
            for position, batch_size, last_offset, timestamp in batches:
                segment.end_offset, size = last_offset + 1, position + batch_size
                if timestamp > segment.max_timestamp:
                    segment.max_timestamp, segment.max_timestamp_offset = timestamp, last_offset
        except CorruptLogError:
            if not following or segment.end_offset != following[0].base_offset:
                raise
            segment.size = size

    def _epochs_are_old(self, trusted: list[Segment]) -> bool:
        """Whether the last trusted batch has an epoch that the checkpoint lacks."""
        if not self.clean or not trusted or not trusted[-1].size:
            return False
        if trusted[-1].end_offset <= self.log.start_offset:
            return False  # the trusted records are no longer part of the log
        segment, position = trusted[-1], 0
        last = segment.offsets.last()
        for batch_position, _, _, _ in segment.walk(last[1] if last else 0):
            position = batch_position
        head = self.disk.files.pread(segment.log.use(), HEADER_SIZE, position)
        return read_header(head).leader_epoch > self.log.epochs.latest

    def _epochs_lack_the_start(self, trusted: list[Segment]) -> bool:
        """Whether the first trusted batch is older than the checkpoint's epochs.

        That happens if the log start was raised, which drops epochs, but was not stored before a
        crash.
        """
        log = self.log
        start = max(log.start_offset, self._first_base(trusted))
        if log.epochs.starts and log.epochs.starts[0] <= start:
            return False
        for segment in trusted:
            position = segment.position_of(start)
            if position < segment.size:
                head = self.disk.files.pread(segment.log.use(), HEADER_SIZE, position)
                header = read_header(head)
                return header.leader_epoch > log.epochs.epoch_at(max(header.base_offset, start))
        return False

    def _rebuild_epochs(
        self, trusted: list[Segment], later: Sequence[tuple[int, int]] = ()
    ) -> Generator[int, None, None]:
        """Rebuild a leader-epoch checkpoint that is missing, or lacks the last or first epochs.

        `later`: epochs of the checkpoint that are kept; only those before them are rebuilt.

        Without epochs, a follower could not find where its log diverges from the leader's.
        """
        log = self.log
        log.epochs = EpochCache()
        for segment in trusted:
            if later and segment.base_offset >= later[0][1]:
                break
            scan = Scan(
                segment.base_offset,
                log.config.index_interval_bytes,
                with_crc=False,
                epochs=log.epochs,
                last_epoch=log.epochs.latest,
            )
            yield from scan_file(self.disk, segment.log, segment.size, scan)
        if later:
            log.epochs.truncate_from_end(later[0][1])
        for epoch, start in later:
            log.epochs.assign(epoch, start)
        if log.epochs.epochs:
            log.epochs_rebuilt()
            self.report.rebuilt += (EPOCHS,)

    def _load_producers(self, end_offset: int) -> Generator[int, None, None]:
        """Load a producer snapshot and replay; a clean log without any never had a producer id."""
        log = self.log
        if not log.tracker.snapshots:
            return
        log.tracker.remove_above(end_offset)
        yield from self._replay(log.tracker.load(end_offset), log.segments)

    def _replay(self, start: int, segments: list[Segment]) -> Generator[int, None, None]:
        for segment in segments:
            if segment.end_offset > start and segment.size:
                scan = self._scan_of(segment, with_crc=False, producers_from=start)
                yield from scan_file(self.disk, segment.log, segment.size, scan)

    def _scan_of(self, segment: Segment, *, with_crc: bool, producers_from: int) -> Scan:
        log = self.log
        return Scan(
            segment.base_offset,
            log.config.index_interval_bytes,
            with_crc=with_crc,
            epochs=log.epochs if with_crc else None,
            producers=log.tracker.state,
            producers_from=producers_from,
            last_epoch=log.epochs.latest if with_crc else NO_EPOCH,
        )

    # -- scanned segments -------------------------------------------------------------------------

    def _scan_all(self, segments: list[Segment]) -> Generator[int, None, None]:
        """Scan segment after segment; the log ends at the first problem."""
        log = self.log
        first = self._first_base(segments)
        log.tracker.remove_above(first)
        replay_from = log.tracker.load(first)
        if replay_from < first and log.segments:
            yield from self._replay(replay_from, log.segments)
        log.epochs.truncate_from_end(first)
        for number, segment in enumerate(segments):
            scan = self._scan_of(segment, with_crc=True, producers_from=max(replay_from, NO_OFFSET))
            gap = self._gap_before(segment)
            if self.distrust_cache:
                self._drop_page_cache(segment)
            if not gap:
                yield from scan_file(self.disk, segment.log, segment.size, scan)
                self.report.scanned_bytes += scan.position
            problem = gap or scan.problem
            if problem:
                yield from self._truncate(segments[number:], scan, problem, keep=not gap)
                return
            self._accept(segment, scan)

    def _drop_page_cache(self, segment: Segment) -> None:
        self.disk.files.forget_cached(segment.log.use())
        segment.size = self.disk.files.size(segment.log.use())

    def _gap_before(self, segment: Segment) -> str:
        """Describe lost records between the end of the log so far and a segment, if any."""
        log = self.log
        if not log.segments or segment.base_offset == log.end_offset or not log.config.contiguous:
            return ""
        return (
            f"a segment at offset {segment.base_offset} where offset {log.end_offset} is expected"
        )

    def _accept(self, segment: Segment, scan: Scan) -> None:
        segment.take(scan)
        segment.aborted = [
            AbortedTransaction(
                completed.producer_id, completed.first_offset, completed.last_offset, stable_offset
            )
            for completed, stable_offset in scan.aborted
        ]
        self.log.segments.append(segment)
        self.log.end_offset = segment.end_offset

    def _truncate(
        self, segments: list[Segment], scan: Scan, problem: str, *, keep: bool
    ) -> Generator[int, None, None]:
        """Truncate where the scan ended; raise if records were lost that had been durable.

        It raises also if the next batch is valid but out of the range of its segment.

        Without `keep` the first segment is removed, too.
        """
        log, segment = self.log, segments[0]
        end = scan.next_offset if keep else log.end_offset
        if end < self.recovery_point:
            raise CorruptLogError(
                f"{segment.log.path}: at position {scan.position}: {problem}; all offsets "
                f"below {self.recovery_point} had been flushed, so nothing was changed"
            )
        if scan.is_out_of_range:
            raise CorruptLogError(
                f"{segment.log.path}: at position {scan.position}: {problem}; the batch is valid, "
                "so nothing was changed"
            )
        salvaged = yield from self._salvage(segments, scan.position if keep else 0, end)
        files = self.disk.files
        dropped = segments[1:] if keep else segments
        for dropped_segment in reversed(dropped):
            self.report.truncated_bytes += dropped_segment.size
            log.garbage.append(dropped_segment.remove())
        if dropped:
            files.sync_folder(log.folder)
        if keep:
            self.report.truncated_bytes += segment.size - scan.position
            files.truncate(segment.log.use(), scan.position)
            self._accept(segment, scan)
        self.report.problem = (
            f"{problem}, at position {scan.position} of {segment.log.path}{salvaged}"
        )

    def _salvage(
        self, segments: list[Segment], position: int, next_offset: int
    ) -> Generator[int, None, str]:
        """Describe the valid batches that are about to be truncated."""
        salvage = Salvage(next_offset)
        for segment in segments:
            yield from salvage.search(self.disk, segment.log, position, segment.size)
            position = 0
        return salvage.line()

    # -- the end ----------------------------------------------------------------------------------

    def _make_consistent(self) -> None:
        """Make start, end, epochs and recovery point consistent."""
        log = self.log
        if log.end_offset < self.recovery_point:
            where = log.segments[-1].log.path if log.segments else log.folder
            raise CorruptLogError(
                f"{where}: the log ends at offset {log.end_offset}, but all offsets below "
                f"{self.recovery_point} had been flushed"
            )
        for segment in log.segments[:-1]:
            if not segment.has_index_files:
                log.seal(segment)
        if log.start_offset > log.end_offset:
            self.report.problem += (
                f"; no records are left at or after the log start offset {log.start_offset}"
            )
            log.truncate_fully_and_start_at(log.start_offset)
        log.start_offset = max(log.start_offset, self._first_base(log.segments))
        log.epochs.truncate_from_end(log.end_offset)
        log.epochs.truncate_from_start(log.start_offset)
        log.recovery_point = (
            log.end_offset if self.clean else min(self.recovery_point, log.end_offset)
        )
        if not self.clean:
            log.assume_unsynced()
        self.report.start_offset, self.report.end_offset = log.start_offset, log.end_offset
