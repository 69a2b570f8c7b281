"""The offset checkpoint files of a log directory.

A line names its log by topic and partition. After the log is deleted, the line could apply to the
next topic of that name: a start offset that hides its records, or a wrong recovery point. So the
lines are deleted durably before a new log takes the name (`clear`), and no earlier job can restore
them.

An offset of 0, as of a log that has never had a record, has no line, so that a file has lines only
for logs in use. Kafka also reads a missing line as 0.

Stored recovery points are never above what is durable, but may lag behind the logs. So before a log
is truncated below its stored recovery point, the stored one is lowered durably.
"""

from __future__ import annotations

from kraftlog.storage.checkpoints import (
    CLEANED_OFFSETS,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    decode_offsets,
    encode_offsets,
    encode_offsets_in_steps,
)
from kraftlog.storage.committed_offsets import COMMITTED_OFFSETS, CommittedOffsets
from kraftlog.storage.disk import read_whole, write_atomically, write_whole
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Set

    from kraftlog.ports.files import Files
    from kraftlog.types import LogName

FILES = (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS, CLEANED_OFFSETS)


def set_offset(offsets: dict[LogName, int], name: LogName, offset: int) -> None:
    """Set the offset that the next checkpoint stores for a log; 0 removes its line."""
    if offset:
        offsets[name] = offset
    elif name in offsets:
        del offsets[name]


class CheckpointJob:
    """Writes checkpoint files under temporary names, in an I/O thread; `install` renames them."""

    def __init__(self, generation: int, offsets: dict[str, dict[LogName, int]]) -> None:
        self.generation = generation
        self.offsets = offsets
        self.contents: list[tuple[str, bytes]] = []
        #: Whether all logs of the directory were open, so that it has what each of them lacks.
        self.has_all_logs = False
        self.error: OSError | None = None

    def run(self, files: Files) -> None:
        try:
            for path, data in self.contents:
                write_whole(files, path + ".new", data)
        except OSError as error:
            self.error = error


class OffsetCheckpoints:
    """Kafka's four files; only the log directory changes the offsets."""

    def __init__(self, files: Files, path: str, names: Iterable[str]) -> None:
        self._files = files
        self._path = path
        offsets_by_file = {file: self._read(file) if file in names else {} for file in FILES}
        self.recovery_points = offsets_by_file[RECOVERY_POINTS]
        self.log_starts = offsets_by_file[LOG_STARTS]
        #: the high watermarks of the next checkpoint, set by `note_high_watermark` of the directory
        self.high_watermarks = offsets_by_file[HIGH_WATERMARKS]
        #: the end of the clean part of each log that is, or was, compacted
        self.cleaned = offsets_by_file[CLEANED_OFFSETS]
        #: the same with the identity of each log, and for logs that have lost records
        own, own_path = COMMITTED_OFFSETS in names, self._file(COMMITTED_OFFSETS)
        self.committed = CommittedOffsets(read_whole(files, own_path) if own else None, own_path)
        self._offsets = offsets_by_file
        #: the logs that each file may have a line for after a crash
        self._logs_in_file = {file: set(offsets) for file, offsets in offsets_by_file.items()}
        #: the recovery points that the file may have after a crash
        self._stored_points = dict(self.recovery_points)
        #: raised by each change that makes a job in progress obsolete
        self._generation = 0

    def _read(self, file: str) -> dict[LogName, int]:
        path = self._file(file)
        return decode_offsets(read_whole(self._files, path), path)

    def _file(self, file: str) -> str:
        return f"{self._path}/{file}"

    # -- deleted logs -----------------------------------------------------------------------------

    def forget(self, name: LogName) -> None:
        """Stop writing the lines of a log, because it is deleted."""
        self.committed.forget(name)
        self._forget_offsets(name)

    def _forget_offsets(self, name: LogName) -> None:
        for offsets in self._offsets.values():
            offsets.pop(name, None)

    def forget_all_but(self, names: Set[LogName]) -> None:
        """Forget all logs but these: the next `clear` deletes their lines with one write."""
        for name in set().union(*self._offsets.values()) - names:
            self._forget_offsets(name)

    def clear(self, name: LogName) -> None:
        """Delete the lines of an earlier log durably, before a new log takes its name."""
        self._forget_offsets(name)
        stale = [file for file in FILES if name in self._logs_in_file[file]]
        if stale:
            self._generation += 1  # a job in progress may have lines of the earlier log
        for file in stale:
            self._write(file, self._offsets[file])

    # -- all files, in an I/O thread --------------------------------------------------------------

    def job_in_steps(self) -> Generator[None, None, CheckpointJob]:
        """Make a job, in steps; the files are as of the first step.

        One job at a time: `run` in a thread, `install`, `installed`.
        """
        job = CheckpointJob(self._generation, {f: dict(o) for f, o in self._to_write()})
        for file, offsets in job.offsets.items():
            # Before the first pause, so that `clear` sees these logs.
            self._logs_in_file[file].update(offsets)
        # First: what a log had before it lost records must not be forgotten in between.
        job.contents.append((self.committed.path, (yield from self.committed.encode_in_steps())))
        for file, offsets in job.offsets.items():
            job.contents.append((self._file(file), (yield from encode_offsets_in_steps(offsets))))
        return job

    def _to_write(self) -> list[tuple[str, dict[LogName, int]]]:
        """The files to write; a directory without compacted logs has no cleaner checkpoint."""
        return [
            (file, self._offsets[file])
            for file in FILES
            if file != CLEANED_OFFSETS or self.cleaned or self._logs_in_file[file]
        ]

    def install(self, job: CheckpointJob) -> bool:
        """Rename the files of a job; False if a truncation or a new log has made them obsolete.

        The caller syncs the directory and calls `installed`.
        """
        if job.generation != self._generation:
            return False
        for path, _ in job.contents:
            self._files.rename(path + ".new", path)
        self._stored_points.update(job.offsets[RECOVERY_POINTS])
        return True

    def installed(self, job: CheckpointJob) -> None:
        """Note that the renamed files of this job are durable: old content cannot reappear."""
        if job.generation == self._generation:
            self._stored_points = job.offsets[RECOVERY_POINTS]
            self._logs_in_file.update({file: set(offsets) for file, offsets in job.offsets.items()})

    # -- at once ----------------------------------------------------------------------------------

    def write(self) -> None:
        """Write all files durably."""
        for file, offsets in self._to_write():
            self._write(file, offsets)
        self._write_committed()

    def lower(self, offsets: dict[LogName, int]) -> None:
        """Lower stored recovery points and cleaner offsets durably, before logs are truncated.

        Each file is written once, for all logs.
        """
        self._lower_cleaned(offsets)
        self._lower_current(offsets)
        lowered = {n: o for n, o in offsets.items() if self._stored_points.get(n, 0) > o}
        if not lowered:
            return
        self._generation += 1
        stored = {**self._stored_points, **lowered}
        for name, offset in lowered.items():
            if not offset:
                del stored[name]
        self._write(RECOVERY_POINTS, stored)

    def _lower_current(self, offsets: dict[LogName, int]) -> None:
        """Lower the recovery points of the next job, and make a job in progress obsolete."""
        points = self.recovery_points
        for name, offset in offsets.items():
            if points.get(name, 0) > offset:
                set_offset(points, name, offset)
                self._generation += 1

    def _lower_cleaned(self, offsets: dict[LogName, int]) -> None:
        """Lower the cleaner's offsets durably: records that replace truncated ones are dirty."""
        lowered = {n: o for n, o in offsets.items() if self.cleaned.get(n, 0) > o}
        if lowered:
            self._generation += 1
            self.cleaned.update(lowered)
            self._write(CLEANED_OFFSETS, self.cleaned)

    def lower_high_watermark(self, name: LogName, offset: int) -> None:
        """Lower a stored high watermark durably, before committed records are truncated.

        Uncommitted records may take their offsets.
        """
        if self.high_watermarks.get(name, 0) > offset:
            self._generation += 1
            set_offset(self.high_watermarks, name, offset)
            self._write(HIGH_WATERMARKS, self.high_watermarks)
        if self.committed.lower(name, offset):
            self._generation += 1
            self._write_committed()

    def _write_committed(self) -> None:
        write_atomically(self._files, self.committed.path, self.committed.encode())

    def _write(self, file: str, offsets: dict[LogName, int]) -> None:
        write_atomically(self._files, self._file(file), encode_offsets(offsets))
        self._logs_in_file[file] = set(offsets)
        if file == RECOVERY_POINTS:
            self._stored_points = dict(offsets)
