"""A log directory: its logs, lock, checkpoint files and clean shutdown.

The lock ensures that only one process opens it. Logs are opened one by one and in slices:
`open_log` is a generator. Operations that block run in an I/O thread: flushes, checkpoint files
(`checkpoint_job_in_steps`) and deletion (`take_garbage`, `unlink_garbage`).
"""

from __future__ import annotations

from sys import intern

from kraftlog.errors import CorruptLogError, StorageError
from kraftlog.steps import free_if_empty, result_of
from kraftlog.storage.checkpoints import (
    LINES_PER_STEP,
    PARTITION_METADATA,
    decode_partition_metadata,
)
from kraftlog.storage.config import DEFAULT_CONFIG
from kraftlog.storage.disk import (
    Disk,
    read_whole,
    unlink_if_there,
    write_atomically,
    write_whole,
)
from kraftlog.storage.folder_journal import FolderJournal
from kraftlog.storage.future_logs import FUTURE, future_folder, log_of_future, remove_mark
from kraftlog.storage.garbage import DELETED
from kraftlog.storage.log import Log
from kraftlog.storage.log_folder import read_first_leader_epoch
from kraftlog.storage.machine_restarts import MachineRestart
from kraftlog.storage.manifest import (
    CLEAN_MARKER,
    MANIFEST,
    decode_manifest,
    decode_marker,
    decode_row,
    encode_manifest,
    encode_marker,
    encode_row,
    open_from_row,
    topic_of,
)
from kraftlog.storage.offset_checkpoints import OffsetCheckpoints, set_offset
from kraftlog.storage.recovery import RecoveryReport, open_log
from kraftlog.storage.reserve import Reserve
from kraftlog.types import NULL_UUID
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any

    from kraftlog.ports.files import Files
    from kraftlog.storage.config import LogConfig
    from kraftlog.storage.disk import HandleCache
    from kraftlog.storage.offset_checkpoints import CheckpointJob
    from kraftlog.types import LogName, Uuid

LOCK = ".lock"
#: A file that marks a failed sync: data in the page cache may not be on the disk.
SUSPECT = "kraftlog-suspect"
#: The suffix of a folder that belongs to no partition of the broker, as in Kafka.
STRAY = "-stray"
#: The longest file name that file systems support.
_LONGEST_NAME = 255
#: With more logs than this, one sync of the file system is faster than a sync per log.
_MANY_LOGS = 64


def parse_folder(name: str) -> LogName | None:
    """Topic and partition of a log's folder, or None for any other name."""
    topic, dash, number = name.rpartition("-")
    if dash and topic and number.isdecimal() and number.isascii():
        return intern(topic), int(number)  # a topic may have thousands of partitions
    return None


class LogDirectory:
    """One of `log.dirs`. `logs` has the open logs; `names` has all that exist."""

    def __init__(
        self,
        files: Files,
        path: str,
        handles: HandleCache | None = None,
        *,
        directory_id: Uuid = NULL_UUID,
    ) -> None:
        """`directory_id` is the `directory.id` of its `meta.properties`."""
        self.path = path
        self.id = directory_id
        self.disk = Disk(files, handles)
        self.logs: dict[LogName, Log] = {}
        self.unopened: set[LogName] = set()  # logs that exist and are not open
        #: the folders of copies: of logs that were being moved here when the last process ended
        self.copies: dict[LogName, list[str]] = {}
        #: copies that have taken the place of a lost log, and are yet to be opened
        self._adopted: set[LogName] = set()
        #: forgotten logs with a job that still uses their folder
        self._in_use: dict[LogName, Log] = {}
        self.was_clean = False
        #: the broker epoch at the last clean shutdown; -1 if it was not clean
        self.broker_epoch = -1
        #: the rows of unopened logs in the manifest of the last clean shutdown
        self._rows: dict[LogName, bytes] = {}
        #: When the manifest was written, by its modification time.
        self._rows_ms = -1
        #: The row that was decoded last, and its content: equal rows are one object.
        self._last_row: tuple[bytes, dict[str, Any]] = b"", {}
        self._garbage: list[str] = []
        self._note_records = self.note_records  # one for all
        self._suspect = False
        self._lock = files.lock(f"{path}/{LOCK}")
        try:
            self._list_files()
        except BaseException:
            files.close(self._lock)
            raise
        self.disk.on_failure = self._mark_suspect
        self.reserve = Reserve(self.disk, path)

    def _list_files(self) -> None:
        """List the logs and copies, and read and delete the clean-shutdown files."""
        files, path = self.disk.files, self.path
        names = files.list(path)
        self._checkpoints = OffsetCheckpoints(files, path, names)
        self.committed = self._checkpoints.committed
        self.folder_journal = FolderJournal(self.disk, path, names)
        for name in names:
            log_name = parse_folder(name)
            if log_name is not None:
                self.unopened.add(log_name)
            elif name.endswith(DELETED):
                self._garbage.append(f"{path}/{name}")
            else:
                log_name = parse_folder(log_of_future(name) or "")
                if log_name is not None:
                    self.copies.setdefault(log_name, []).append(f"{path}/{name}")
        # A log that never had a folder may still have lines in the checkpoints.
        self._checkpoints.forget_all_but(self.unopened)
        self._suspect = SUSPECT in names
        if CLEAN_MARKER in names:
            self.was_clean = True
            self.broker_epoch, checksum = decode_marker(read_whole(files, self._file(CLEAN_MARKER)))
            if MANIFEST in names and checksum is not None:
                self._read_manifest(checksum)
        self.machine = MachineRestart(files, path, names, was_clean=self.was_clean)
        if {CLEAN_MARKER, MANIFEST} & set(names):
            for name in (CLEAN_MARKER, MANIFEST):
                unlink_if_there(files, self._file(name))
            files.sync_folder(path)

    def _read_manifest(self, checksum: int) -> None:
        from kraftlog.records.crc import crc32c

        data = read_whole(self.disk.files, self._file(MANIFEST))
        if crc32c(data) == checksum:
            self._rows_ms = self.disk.files.modified_ms(self._file(MANIFEST))
            self._rows = decode_manifest(data, self._file(MANIFEST))

    def _row(self, name: LogName) -> dict[str, Any] | None:
        """The row of an unopened log, if any."""
        data = self._rows.get(name)
        if data is None:
            return None
        if data is not self._last_row[0]:
            self._last_row = data, decode_row(data)
        return self._last_row[1]

    def _is_unmodified(self, name: LogName) -> bool:
        """Whether no file in a log's folder was created or deleted since the manifest."""
        try:
            return self.disk.files.modified_ms(self.folder(name)) < self._rows_ms
        except FileNotFoundError:
            return False

    def _file(self, name: str) -> str:
        return f"{self.path}/{name}"

    def _mark_suspect(self, _: StorageError) -> None:
        """Leave the file SUSPECT for the next process, if the disk still allows it."""
        try:
            write_whole(self.disk.files, self._file(SUSPECT), b"")
        except OSError:
            self._suspect = True

    def high_watermark(self, name: LogName) -> int:
        """The high watermark that the next checkpoint stores."""
        return self._checkpoints.high_watermarks.get(name, 0)

    def note_high_watermark(self, name: LogName, offset: int) -> None:
        """Have the next checkpoint store this high watermark."""
        set_offset(self._checkpoints.high_watermarks, name, offset)

    @property
    def is_offline(self) -> bool:
        """Whether the disk has failed, and with it every log of this directory."""
        return self.disk.failure is not None

    def space(self) -> tuple[int, int]:
        """Total and available bytes of the disk; -1 if unknown."""
        try:
            return self.disk.files.space(self.path)
        except OSError:
            return -1, -1

    # -- logs -------------------------------------------------------------------------------------

    def folder(self, name: LogName) -> str:
        return f"{self.path}/{name[0]}-{name[1]}"

    def names(self) -> list[LogName]:
        """All logs that exist."""
        return sorted([*self.logs, *self.unopened])

    def topic_id(self, name: LogName) -> Uuid | None:
        """The topic id in a log's `partition.metadata`; None if it is missing or torn.

        An unreadable file fails this log only, as the rest of the disk may be fine.
        """
        row = self._row(name)
        if row is not None and self._is_unmodified(name):
            topic_id = topic_of(row)
            if topic_id is not None:
                return topic_id
        path = f"{self.folder(name)}/{PARTITION_METADATA}"
        try:
            return decode_partition_metadata(read_whole(self.disk.files, path), path)
        except (FileNotFoundError, CorruptLogError):
            return None
        except OSError as error:
            raise StorageError(f"{path}: reading the topic id: {error.strerror}") from error

    def first_leader_epoch(self, name: LogName) -> int:
        """The first leader epoch that a log names in its `partition.metadata`; 0 if none (V11)."""
        return read_first_leader_epoch(self.disk.files, self.folder(name))

    def open_log(
        self, name: LogName, config: LogConfig = DEFAULT_CONFIG
    ) -> Generator[int, None, tuple[Log, RecoveryReport]]:
        """Open an existing log in slices; `kraftlog.storage.recovery.run` opens it at once."""
        if name in self._checkpoints.cleaned and config.contiguous:
            config = config.replace(contiguous=False)  # compaction leaves gaps
        row = self._row(name)
        log = None
        if row is not None:
            is_unmodified, folder = self._is_unmodified(name), self.folder(name)
            log = open_from_row(self.disk, folder, config, row, is_unmodified=is_unmodified)
        if log is not None:
            report = RecoveryReport(log.folder, True, log.start_offset, log.end_offset)
        else:
            recovery_point = self._checkpoints.recovery_points.get(name, 0)
            log, report = yield from open_log(
                self.disk,
                self.folder(name),
                config,
                # A log that no longer matches its row has changed since the clean shutdown.
                clean=self.was_clean and row is None and name not in self._adopted,
                recovery_point=recovery_point,
                start_offset=self._checkpoints.log_starts.get(name, 0),
                distrust_cache=self._suspect,
                before_truncation=_LowerRecoveryPoint(self, name),
            )
            metadata = f"{log.folder}/{PARTITION_METADATA}"
            if recovery_point == 0 and self.disk.files.exists(metadata):
                log.mark_created(metadata)  # the process that created it may not have flushed it
        self._adopt(name, log)
        return log, report

    def open_from_manifest(self, name: LogName, topic_id: Uuid, config: LogConfig) -> Log | None:
        """Open a log of this topic at once; None if the manifest does not match: use `open_log`."""
        row = self._row(name)
        if row is None or topic_of(row) != topic_id or name in self._checkpoints.cleaned:
            return None
        if not self._is_unmodified(name):
            return None
        log = open_from_row(self.disk, self.folder(name), config, row, is_unmodified=True)
        if log is not None:
            self._adopt(name, log)
        return log

    def _adopt(self, name: LogName, log: Log) -> None:
        self._rows.pop(name, None)
        self.unopened.discard(name)
        free_if_empty(self.unopened)
        self.logs[name] = log
        log.clean_offset = min(self._checkpoints.cleaned.get(name, 0), log.recovery_point)
        log.before_truncation = _LowerRecoveryPoint(self, name)
        log.on_first_segment = self._note_records

    def create(
        self,
        name: LogName,
        topic_id: Uuid,
        config: LogConfig = DEFAULT_CONFIG,
        *,
        with_folder: bool = True,
    ) -> Log:
        """Create a log: its folder, with the topic id. The first append creates the other files.

        Without `with_folder` the first append, or `make_folder`, creates the folder, too.
        """
        self.disk.check()
        assert name not in self.logs
        assert name not in self.unopened
        folder = self.folder(name)
        try:
            self._checkpoints.clear(name)
        except OSError as error:
            raise self.disk.fail_unless_full(f"{folder}: creating the log", error) from error
        log = Log(self.disk, folder, config)
        log.topic_id = topic_id
        log.has_folder = False
        self._adopt(name, log)
        if with_folder:
            log.make_folder()
        return log

    def note_records(self, log: Log) -> None:
        """Note that a log has, or is about to have, records: the next flush makes that durable."""
        name = parse_folder(log.folder.rpartition("/")[2])
        if name is not None and self.folder_journal.begun(name, log):
            log.mark_created(self.folder_journal.path)

    def had_records(self, name: LogName, topic_id: Uuid, first_leader_epoch: int) -> bool:
        """Whether a log has, or had, records here, also if its folder is gone."""
        return self.folder_journal.had_records(name, topic_id, first_leader_epoch) or bool(
            self.committed.of(name, topic_id, first_leader_epoch)
        )

    # -- logs that are moved to this directory ----------------------------------------------------

    def create_future(self, name: LogName, source: Log, unique: str) -> Log:
        """Create an empty log for a copy of a log elsewhere; its folder name has `unique`."""
        self.disk.check()
        log = Log(self.disk, future_folder(self.path, name, unique), source.config)
        log.topic_id, log.first_leader_epoch = source.topic_id, source.first_leader_epoch
        log.has_folder = False
        log.make_folder()
        return log

    def adopt_future(self, name: LogName, log: Log) -> None:
        """Rename a whole copy to the log's name; the caller syncs the directory next."""
        try:
            self._checkpoints.clear(name)
        except OSError as error:
            raise self.disk.fail_unless_full(f"{log.folder}: moving the log", error) from error
        log.rename_folder(self.folder(name))
        log.mark_created(f"{log.folder}/{PARTITION_METADATA}")  # a flush syncs the new name, too
        self._adopt(name, log)
        self.note_records(log)

    def adopt_copy(self, name: LogName, folder: str) -> None:
        """Rename a whole copy, which an earlier process has made, to the log's name."""
        self.disk.check()
        try:
            self._checkpoints.clear(name)
            self.disk.files.rename(folder, self.folder(name))
            self.disk.files.sync_folder(self.path)
        except OSError as error:
            raise self.disk.fail_unless_full(f"{folder}: taking the copy", error) from error
        self.copies[name].remove(folder)
        self.unopened.add(name)
        self._adopted.add(name)

    def discard_future(self, log: Log) -> None:
        """Delete a copy that is no longer wanted; an I/O thread removes its files."""
        log.abandon()
        if not self.is_offline:
            self._discard(log.folder)

    def keep_copy(self, name: LogName, log: Log) -> None:
        """Stop copying, but keep the folder: it shows that the log is in another directory."""
        log.abandon()
        if self.is_offline:
            return
        try:
            remove_mark(self.disk.files, log.folder)
        except OSError as error:
            raise self.disk.fail(f"{log.folder}: removing the mark", error) from error
        self.copies.setdefault(name, []).append(log.folder)

    def discard_copies(self, name: LogName) -> None:
        """Delete the copies of a log that nobody continues."""
        for folder in self.copies.pop(name, ()):
            if not self.is_offline:
                self._discard(folder)

    def _discard(self, folder: str) -> None:
        renamed = folder.removesuffix(FUTURE) + DELETED
        try:
            self.disk.files.rename(folder, renamed)
        except OSError as error:
            raise self.disk.fail_unless_full(f"{folder}: removing the copy", error) from error
        self._garbage.append(renamed)

    def delete(self, name: LogName) -> None:
        """Delete a log; an I/O thread deletes its files."""
        if self.forget(name):
            self.remove_folder(name)

    def forget(self, name: LogName) -> bool:
        """Remove a log from the directory, but not its folder; return whether it has a folder."""
        self._checkpoints.forget(name)
        self._rows.pop(name, None)
        log = self.logs.pop(name, None)
        if log is not None:
            log.abandon()
            if log.is_flushing:
                self._in_use[name] = log
            if not log.has_folder:
                return False
        elif name not in self.unopened:
            return False
        self.unopened.discard(name)
        return True

    def is_in_use(self, name: LogName) -> bool:
        """Whether a flush job still uses a forgotten log's folder, by its path.

        Until the job ends the folder keeps its name, or the job could reach a new log's folder.
        """
        log = self._in_use.get(name)
        if log is not None and not log.is_flushing:
            del self._in_use[name]
            log = None
        return log is not None

    def remove_folder(self, name: LogName) -> None:
        """Rename a forgotten log's folder for deletion by an I/O thread."""
        self._garbage.append(self._rename(name, DELETED))
        self.folder_journal.deleted(name)

    def rename_as_stray(self, name: LogName) -> str:
        """Rename a forgotten log's folder as a stray, which stays; return the new name."""
        return self._rename(name, STRAY)

    def _rename(self, name: LogName, ending: str) -> str:
        """Rename a folder; the topic's name is truncated if the new name would be too long."""
        self.disk.check()
        folder = self.folder(name)
        try:
            topic_id = self.topic_id(name)
        except StorageError:
            topic_id = None
        unique = topic_id.hex() if topic_id is not None else "0" * 32
        topic, index = name
        number = ""
        try:
            while True:
                last = f"-{index}.{unique}{number}{ending}"
                renamed = f"{self.path}/{topic[: _LONGEST_NAME - len(last)]}{last}"
                if not self.disk.files.exists(renamed):
                    break
                number = str(int(number or 0) + 1)
            self.disk.files.rename(folder, renamed)
        except OSError as error:
            raise self.disk.fail_unless_full(f"{folder}: renaming the folder", error) from error
        return renamed

    def take_garbage(self) -> list[str]:
        """The files and folders for `unlink_garbage`, which an I/O thread runs."""
        garbage, self._garbage = self._garbage, []
        for log in self.logs.values():
            if log.garbage:
                garbage += log.garbage
                log.garbage = []
        return garbage

    def keep_reserve(self, size_bytes: int) -> None:
        """Keep this many bytes of disk space in reserve."""
        try:
            self.reserve.keep(size_bytes)
        except OSError as error:
            raise self.disk.fail_unless_full(f"{self.path}: reserving disk space", error) from error

    def fill_reserve(self) -> bool:
        """Fill the reserve again if there is space; return whether it is full."""
        try:
            return self.reserve.fill()
        except OSError as error:
            raise self.disk.fail_unless_full(f"{self.path}: reserving disk space", error) from error

    # -- checkpoints ------------------------------------------------------------------------------

    def checkpoint_job_in_steps(self) -> Generator[None, None, CheckpointJob]:
        """Make, in steps, a job that writes the checkpoint files; only one job at a time.

        The job's content is as of the last step that reads the logs.
        """
        has_all_logs = not self.unopened
        yield from self._collect_offsets()
        job = yield from self._checkpoints.job_in_steps()
        job.has_all_logs = has_all_logs
        return job

    def install_checkpoints(self, job: CheckpointJob) -> bool:
        """Rename the files of a job; False if a truncation or a new log has made them obsolete.

        The caller syncs the directory next.
        """
        if job.error is not None:
            raise self.disk.fail_unless_full(f"{self.path}: writing checkpoints", job.error)
        try:
            is_installed = self._checkpoints.install(job)
            if is_installed and job.has_all_logs:
                self.machine.handled()
        except OSError as error:
            raise self.disk.fail_unless_full(f"{self.path}: writing checkpoints", error) from error
        return is_installed

    def checkpoints_durable(self, job: CheckpointJob) -> None:
        """The directory has been synced since the files of this job were renamed."""
        self._checkpoints.installed(job)

    def _collect_offsets(self) -> Generator[None, None, None]:
        checkpoints = self._checkpoints
        for number, (name, log) in enumerate(list(self.logs.items()), 1):
            if not number % LINES_PER_STEP:
                yield
            if self.logs.get(name) is not log:
                continue  # deleted between two steps
            set_offset(checkpoints.recovery_points, name, log.recovery_point)
            first_base = log.segments[0].base_offset if log.segments else 0
            raised_start = log.start_offset if log.start_offset > first_base else 0
            set_offset(checkpoints.log_starts, name, raised_start)
            checkpoints.committed.note(name, log, checkpoints.high_watermarks.get(name, 0))
            if log.config.compacted or name in checkpoints.cleaned:
                checkpoints.cleaned[name] = log.clean_offset

    def lower_recovery_points(self, offsets: dict[LogName, int]) -> None:
        """Lower many stored recovery points durably, by one write, before logs are truncated."""
        self._checkpoints.lower(offsets)

    def lower_high_watermark(self, name: LogName, offset: int) -> None:
        """Lower a stored high watermark durably, before a log is truncated below it."""
        try:
            self._checkpoints.lower_high_watermark(name, offset)
        except OSError as error:
            raise self.disk.fail_unless_full(f"{self.path}: writing checkpoints", error) from error

    # -- shutdown ---------------------------------------------------------------------------------

    def close(self, broker_epoch: int = -1) -> None:
        """Flush and close every log, and write the clean-shutdown files if the disk is healthy."""
        if self.disk.failure is not None:
            self.release()
            return
        try:
            self.reserve.use_for(lambda: self._close(broker_epoch))
        finally:
            self.release()

    def _close(self, broker_epoch: int) -> None:
        try:
            self._close_logs()
            result_of(self._collect_offsets())
            self._checkpoints.write()
            if self.was_clean or not self.unopened:
                self._write_clean_shutdown(broker_epoch)
        except OSError as error:
            raise self.disk.fail_unless_full(f"{self.path}: closing", error) from error

    def _close_logs(self) -> None:
        """Close the logs, one by one, or with a sync of the whole file system if there are many."""
        logs = list(self.logs.values())
        for log in logs:
            log.finish()
        dirty = [log for log in logs if log.needs_flush]
        if len(dirty) <= _MANY_LOGS:
            for log in dirty:
                log.flush()
            return
        for log in dirty:
            log.write_temporary_epochs()
        self.disk.files.sync_all(self.path)
        installed = [log for log in dirty if log.install_epochs()]
        if installed:
            self.disk.files.sync_all(self.path)
        for log in dirty:
            log.filesystem_synced()

    def _write_clean_shutdown(self, broker_epoch: int) -> None:
        rows = {name: encode_row(log) for name, log in self.logs.items() if log.has_folder}
        unopened = {name: row for name, row in self._rows.items() if self._is_unmodified(name)}
        manifest = encode_manifest({**unopened, **rows})
        unlink_if_there(self.disk.files, self._file(SUSPECT))
        write_atomically(self.disk.files, self._file(MANIFEST), manifest)
        marker = encode_marker(broker_epoch, manifest)
        write_atomically(self.disk.files, self._file(CLEAN_MARKER), marker)

    def release(self) -> None:
        """Close the files and release the lock without writing anything."""
        for log in self.logs.values():
            log.release()
        self.disk.files.close(self._lock)


class _LowerRecoveryPoint:
    """Lowers the stored recovery point of a log. Every log has such an object, so it is small."""

    __slots__ = ("_directory", "_name")

    def __init__(self, directory: LogDirectory, name: LogName) -> None:
        self._directory = directory
        self._name = name

    def __call__(self, offset: int) -> None:
        self._directory.lower_recovery_points({self._name: offset})
