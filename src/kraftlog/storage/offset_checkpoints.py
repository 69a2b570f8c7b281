"""The offset checkpoint files of a log directory.

A line names its log by topic and partition. After the log is deleted, the line could apply to the
next topic of that name: a start offset that hides its records, or a wrong recovery point. So the
lines are deleted durably before a new log takes the name (`clear`), and no earlier job can restore
them.

An offset of 0 has no line, as in a log that has never had a record: a file is as long as the logs
in use are many. Kafka, too, takes 0 where there is no line.

Stored recovery points are never above what is durable. They may lag, so before a log is truncated
below its stored point, that is lowered durably.
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
from kraftlog.storage.disk import read_whole, write_atomically, write_whole
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Set

    from kraftlog.ports.files import Files
    from kraftlog.storage.checkpoints import Name

FILES = (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS, CLEANED_OFFSETS)


def note_offset(offsets: dict[Name, int], name: Name, offset: int) -> None:
    """Have the file of these offsets name this one from the next write on."""
    if offset:
        offsets[name] = offset
    elif name in offsets:
        del offsets[name]


class CheckpointJob:
    """Writes checkpoint files under temporary names, in an I/O thread; `install` renames them."""

    def __init__(self, generation: int, offsets: dict[str, dict[Name, int]]) -> None:
        self.generation = generation
        self.offsets = offsets
        self.contents: list[tuple[str, bytes]] = []
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
        found = {file: self._read(file) if file in names else {} for file in FILES}
        self.recovery_points = found[RECOVERY_POINTS]
        self.log_starts = found[LOG_STARTS]
        #: the high watermarks to store; the broker updates them here
        self.high_watermarks = found[HIGH_WATERMARKS]
        #: the end of the clean part of each log that is, or was, compacted
        self.cleaned = found[CLEANED_OFFSETS]
        self._offsets = found
        #: the logs that each file may name after a crash
        self._named = {file: set(offsets) for file, offsets in found.items()}
        #: the recovery points that may be found after a crash
        self._stored_points = dict(self.recovery_points)
        self._generation = 0

    def _read(self, file: str) -> dict[Name, int]:
        path = self._file(file)
        return decode_offsets(read_whole(self._files, path), path)

    def _file(self, file: str) -> str:
        return f"{self._path}/{file}"

    # -- deleted logs -----------------------------------------------------------------------------

    def forget(self, name: Name) -> None:
        """The log is deleted: its lines are no longer written."""
        for offsets in self._offsets.values():
            offsets.pop(name, None)

    def forget_all_but(self, names: Set[Name]) -> None:
        """Only these logs exist: the next `clear` deletes the lines of all others by one write."""
        for name in set().union(*self._offsets.values()) - names:
            self.forget(name)

    def clear(self, name: Name) -> None:
        """A new log takes this name: delete the lines of an earlier one durably."""
        self.forget(name)
        stale = [file for file in FILES if name in self._named[file]]
        if stale:
            self._generation += 1  # a job in progress may have such lines
        for file in stale:
            self._write(file, self._offsets[file])

    # -- all files, in an I/O thread --------------------------------------------------------------

    def job_in_steps(self) -> Generator[None, None, CheckpointJob]:
        """Make a job, in steps; the files are as of the first step.

        One job at a time: `run` in a thread, `install`, `installed`.
        """
        job = CheckpointJob(self._generation, {f: dict(o) for f, o in self._to_write()})
        for file, offsets in job.offsets.items():
            self._named[file].update(offsets)  # all names before the first step ends: see `clear`
        for file, offsets in job.offsets.items():
            job.contents.append((self._file(file), (yield from encode_offsets_in_steps(offsets))))
        return job

    def _to_write(self) -> list[tuple[str, dict[Name, int]]]:
        """The files to write; a directory without compacted logs has no cleaner checkpoint."""
        return [
            (file, self._offsets[file])
            for file in FILES
            if file != CLEANED_OFFSETS or self.cleaned or self._named[file]
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
        """The files of this job are durable: their old content cannot come back."""
        if job.generation == self._generation:
            self._stored_points = job.offsets[RECOVERY_POINTS]
            self._named.update({file: set(offsets) for file, offsets in job.offsets.items()})

    # -- at once ----------------------------------------------------------------------------------

    def write(self) -> None:
        """Write all files durably."""
        for file, offsets in self._to_write():
            self._write(file, offsets)

    def lower(self, offsets: dict[Name, int]) -> None:
        """Lower many stored recovery points durably, by one write, before logs are truncated."""
        self._lower_cleaned(offsets)
        self._lower_known(offsets)
        lowered = {n: o for n, o in offsets.items() if self._stored_points.get(n, 0) > o}
        if not lowered:
            return
        self._generation += 1
        stored = {**self._stored_points, **lowered}
        for name, offset in lowered.items():
            if not offset:
                del stored[name]
        self._write(RECOVERY_POINTS, stored)

    def _lower_known(self, offsets: dict[Name, int]) -> None:
        """Prevent any job, current or future, from storing a higher point after the truncation."""
        points = self.recovery_points
        for name, offset in offsets.items():
            if points.get(name, 0) > offset:
                note_offset(points, name, offset)
                self._generation += 1

    def _lower_cleaned(self, offsets: dict[Name, int]) -> None:
        """Records that replace truncated ones are not compacted."""
        lowered = {n: o for n, o in offsets.items() if self.cleaned.get(n, 0) > o}
        if lowered:
            self._generation += 1
            self.cleaned.update(lowered)
            self._write(CLEANED_OFFSETS, self.cleaned)

    def lower_high_watermark(self, name: Name, offset: int) -> None:
        """Lower a stored high watermark durably, before committed records are truncated.

        Other records will take their offsets, and those are not committed yet.
        """
        if self.high_watermarks.get(name, 0) > offset:
            self._generation += 1
            note_offset(self.high_watermarks, name, offset)
            self._write(HIGH_WATERMARKS, self.high_watermarks)

    def _write(self, file: str, offsets: dict[Name, int]) -> None:
        write_atomically(self._files, self._file(file), encode_offsets(offsets))
        self._named[file] = set(offsets)
        if file == RECOVERY_POINTS:
            self._stored_points = dict(offsets)
