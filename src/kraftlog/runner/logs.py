"""A node's open logs: appends, and the reads that the node may do."""

from __future__ import annotations

from collections import ChainMap

from kraftlog.records.header import read_header
from kraftlog.records.times import find_time_in_steps
from kraftlog.storage.batches import Batches, ProducerBatch, read_marker
from kraftlog.storage.config import LogConfig
from kraftlog.types import NULL_UUID
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from kraftlog.config.topic import TopicConfig
    from kraftlog.logstate.producers import Marker, ProducerState
    from kraftlog.ports.files import Files
    from kraftlog.ports.logs import Directory, FutureLog
    from kraftlog.records.header import BatchHeader
    from kraftlog.replication.partition import PartitionAppend
    from kraftlog.storage.directory import LogDirectory
    from kraftlog.storage.disk import Handle
    from kraftlog.storage.log import Log
    from kraftlog.storage.reserve import Reserve
    from kraftlog.types import LogName, Uuid

#: The cost, in microseconds, of finding a batch by timestamp: files are opened and read.
LOOKUP_COST = 50


def log_config(config: TopicConfig) -> LogConfig:
    """The log config of a topic."""
    deletes = "delete" in config.cleanup_policy
    return LogConfig(
        segment_bytes=config.segment_bytes,
        # The active segment is never compacted, so it must roll within the compaction lag.
        segment_ms=min(config.segment_ms, config.max_compaction_lag_ms)
        if config.is_compacted
        else config.segment_ms,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        retention_ms=config.retention_ms if deletes else -1,
        retention_bytes=config.retention_bytes if deletes else -1,
        # Only a compacted log may have gaps; in any other a gap means lost records.
        contiguous=not config.is_compacted,
        compacted=config.is_compacted,
        min_cleanable_dirty_ratio=config.min_cleanable_dirty_ratio,
        min_compaction_lag_ms=config.min_compaction_lag_ms,
        max_compaction_lag_ms=config.max_compaction_lag_ms,
        delete_retention_ms=config.delete_retention_ms,
        flush_messages=config.flush_messages,
    )


def batches_of(append: PartitionAppend) -> Batches:
    """Describe a turn's batches of a partition for its log."""
    return Batches(
        append.base,
        append.end - 1,
        append.size,
        append.max_timestamp,
        append.max_timestamp_offset,
        append.epoch,
        tuple([ProducerBatch(header, _marker(append, header)) for header in append.idempotent]),
    )


def _marker(append: PartitionAppend, header: BatchHeader) -> Marker | None:
    """The transaction marker of a fetched control batch."""
    batch = append.control.get(header.base_offset) if append.control else None
    return None if batch is None else read_marker(batch, 0)


class FileSlice:
    """Whole batches in a file; pinned while a response uses it, so that the file stays open."""

    __slots__ = ("_files", "_handle", "_pins", "_size", "fd", "position")

    def __init__(self, files: Files, handle: Handle, position: int, size: int) -> None:
        self._files = files
        self._handle = handle
        self._size = size
        self._pins = 0
        self.position = position
        self.fd = -1

    def __len__(self) -> int:
        return self._size

    def pin(self) -> None:
        """Hold the file open; calls nest."""
        if not self._pins:
            self.fd = self._handle.pin()
        self._pins += 1

    @property
    def has_too_many_open_files(self) -> bool:
        """Whether too many files are held open, so that the caller should read at once."""
        return self._handle.has_too_many_open_files

    def release(self) -> None:
        """Undo one `pin`, if there was any."""
        if self._pins:
            self._pins -= 1
            if not self._pins:
                self.fd = -1
                self._handle.unpin()

    def read(self) -> bytes:
        """The bytes, while pinned; fewer than `len` if the file was truncated meanwhile."""
        return self._files.pread(self.fd, self._size, self.position)


class LostDirectory:
    """A log directory that could not be opened at the start."""

    id = NULL_UUID
    is_offline = True

    def __init__(self, path: str) -> None:
        self.path = path

    def space(self) -> tuple[int, int]:
        """The total and available bytes are unknown."""
        return -1, -1


class Logs:
    """All open logs by name; the `LogReader` of the node."""

    def __init__(
        self,
        files: Files,
        directories: Sequence[LogDirectory],
        metadata: LogDirectory,
        lost: Sequence[str] = (),
    ) -> None:
        """`metadata` has the metadata log; it need not be one of the directories of partitions."""
        self._files = files
        self._metadata = metadata
        self._opened = directories
        self.directories: tuple[Directory, ...] = (*directories, *map(LostDirectory, lost))
        #: Lists the logs that are being moved to another directory; the runner sets it.
        self.list_futures: Callable[[], list[FutureLog]] = list
        all_directories = list(dict.fromkeys([metadata, *directories]))
        #: The open logs of all directories; a plain dict if there is only one directory.
        self._logs: Mapping[LogName, Log] = all_directories[0].logs
        if len(all_directories) > 1:
            self._logs = ChainMap(*[directory.logs for directory in all_directories])

    def __getitem__(self, name: LogName) -> Log:
        return self._logs[name]

    def get(self, name: LogName) -> Log | None:
        return self._logs.get(name)

    def has(self, name: LogName, log: Log) -> bool:
        """Whether this log, and not a newer one, has the name."""
        return self._logs.get(name) is log

    def locate(
        self, log: LogName, offset: int, limit: int, max_bytes: int, at_least_one: bool
    ) -> FileSlice | None:
        place = self._logs[log].locate(offset, max_bytes, limit)
        if place is None or (place.length > max_bytes and not at_least_one):
            return None
        return FileSlice(self._files, place.handle, place.position, place.length)

    def find_timestamp_in_steps(
        self, log: LogName, timestamp: int, limit: int
    ) -> Generator[int, None, tuple[int, int] | None]:
        open_log: Log | None = self._logs[log]
        topic_id, start = self._logs[log].topic_id, 0
        # Between two steps the log may be deleted, or moved to another directory.
        while open_log is not None and open_log.topic_id == topic_id:
            start = max(start, open_log.start_offset)  # records may be deleted between steps
            batch = open_log.batch_for_timestamp(timestamp, start)
            if batch is None:
                return None
            yield LOOKUP_COST
            record = yield from find_time_in_steps(batch, timestamp, start)
            if record is not None:
                return record if record[0] < limit else None
            start = read_header(batch).next_offset
            open_log = self._logs.get(log)
        return None

    def max_timestamp(self, log: LogName) -> int:
        return self._logs[log].max_timestamp

    def end_of_epoch(self, log: LogName, epoch: int) -> tuple[int, int]:
        open_log = self._logs[log]
        return open_log.epochs.end_offset_for(
            min(epoch, open_log.epochs.latest), open_log.end_offset
        )

    def epoch_at(self, log: LogName, offset: int) -> int:
        return self._logs[log].epochs.epoch_at(offset)

    def latest_epoch(self, log: LogName) -> int:
        return self._logs[log].epochs.latest

    def producers(self, log: LogName) -> ProducerState | None:
        open_log = self._logs.get(log)
        return None if open_log is None or open_log.tracker.is_empty else open_log.producers.copy()

    def size_bytes(self, log: LogName) -> int:
        open_log = self._logs.get(log)
        return 0 if open_log is None else open_log.size_bytes

    def directory_of(self, log: LogName) -> LogDirectory | None:
        for directory in self._opened:
            if log in directory.logs:
                return directory
        return None

    def futures(self) -> list[FutureLog]:
        return self.list_futures()

    def reserve_of(self, log: LogName) -> Reserve:
        """The reserve of the disk that an open log is on."""
        return (self.directory_of(log) or self._metadata).reserve

    def unwritable(self) -> tuple[Uuid, ...]:
        directories = self._opened
        return tuple([it.id for it in directories if it.disk.is_unwritable and not it.is_offline])

    @property
    def has_only_reserve(self) -> bool:
        return self._metadata.disk.has_only_reserve

    @property
    def is_offline(self) -> bool:
        return all(directory.is_offline for directory in self.directories)

    def append(self, append: PartitionAppend, now_ms: int) -> int:
        """Write a turn's batches of one partition; return the new log end."""
        log = self._logs[append.partition.log]
        log.append(append.buffers, batches_of(append), now_ms)
        return log.end_offset
