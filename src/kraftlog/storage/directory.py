"""A log directory: many logs, the lock, Kafka's checkpoint files, clean shutdown.

Opened once per process (the lock says so). Logs are opened one by one, by whoever needs them and
in slices: `open_log` is a generator. What blocks for long is a job for a lane: flushes, checkpoint
files (`checkpoint_job`), unlinking (`take_garbage`, `unlink_garbage`).

"""

from __future__ import annotations

import contextlib

from kraftlog.errors import CorruptLogError, DiskFullError, StorageError
from kraftlog.storage.checkpoints import (
    LINES_IN_A_STEP,
    PARTITION_METADATA,
    decode_partition_metadata,
    encode_partition_metadata,
    finished,
)
from kraftlog.storage.config import DEFAULT_CONFIG
from kraftlog.storage.disk import (
    Disk,
    read_whole,
    unlink_if_there,
    write_atomically,
    write_whole,
)
from kraftlog.storage.log import Log
from kraftlog.storage.manifest import (
    CLEAN_MARKER,
    MANIFEST,
    decode_manifest,
    decode_marker,
    encode_manifest,
    encode_marker,
    encode_row,
    open_row,
)
from kraftlog.storage.offset_checkpoints import OffsetCheckpoints
from kraftlog.storage.recovery import RecoveryReport, open_log
from kraftlog.storage.reserve import Reserve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from kraftlog.ports.files import Files
    from kraftlog.storage.checkpoints import Name
    from kraftlog.storage.config import LogConfig
    from kraftlog.storage.disk import HandleCache
    from kraftlog.storage.offset_checkpoints import CheckpointJob
    from kraftlog.types import Uuid

LOCK = ".lock"
#: a sync has failed here since the machine was started: what can be read may not be on the disk
SUSPECT = "kraftlog-suspect"
_DELETED = "-delete"
#: What belongs to no partition of the broker: as Kafka does, it is kept under another name.
STRAY = "-stray"
#: The longest name that file systems take.
_LONGEST_NAME = 255
#: from so many logs on one sync of the file system is quicker than theirs
_MANY = 64


def parse_folder(name: str) -> Name | None:
    """Topic and partition of a log's folder, None for any other name."""
    topic, dash, number = name.rpartition("-")
    if dash and topic and number.isdecimal() and number.isascii():
        return topic, int(number)
    return None


class LogDirectory:
    """One of `log.dirs`. `logs` are those open; `names` all that are there."""

    def __init__(self, files: Files, path: str, handles: HandleCache | None = None) -> None:
        self.path = path
        self.disk = Disk(files, handles)
        self.logs: dict[Name, Log] = {}
        #: logs that are there and not open
        self.unopened: set[Name] = set()
        #: logs that were forgotten while a job worked in their folder
        self._in_use: dict[Name, Log] = {}
        self.was_clean = False
        #: of the broker that closed the directory cleanly, else -1
        self.broker_epoch = -1
        self._rows: dict[Name, bytes] = {}
        self._garbage: list[str] = []
        self._suspect = False
        self._lock = files.lock(f"{path}/{LOCK}")
        try:
            self._look_around()
        except BaseException:
            files.close(self._lock)
            raise
        self.disk.on_failure = self._suspect_from_now
        self.reserve = Reserve(self.disk, path)

    def _look_around(self) -> None:
        """Take in what is there, and take away what says that nothing has changed since."""
        files, path = self.disk.files, self.path
        names = files.list(path)
        self._checkpoints = OffsetCheckpoints(files, path, names)
        for name in names:
            log_name = parse_folder(name)
            if log_name is not None:
                self.unopened.add(log_name)
            elif name.endswith(_DELETED):
                self._garbage.append(f"{path}/{name}")
        self._suspect = SUSPECT in names
        if CLEAN_MARKER in names:
            self.was_clean = True
            self.broker_epoch, checksum = decode_marker(read_whole(files, self._file(CLEAN_MARKER)))
            if MANIFEST in names and checksum is not None:
                self._read_manifest(checksum)
        if {CLEAN_MARKER, MANIFEST} & set(names):
            for name in (CLEAN_MARKER, MANIFEST):
                unlink_if_there(files, self._file(name))
            files.sync_directory(path)

    def _read_manifest(self, checksum: int) -> None:
        from kraftlog.records.crc import crc32c

        data = read_whole(self.disk.files, self._file(MANIFEST))
        if crc32c(data) == checksum:
            self._rows = decode_manifest(data, self._file(MANIFEST))

    def _file(self, name: str) -> str:
        return f"{self.path}/{name}"

    def _suspect_from_now(self, _: StorageError) -> None:
        """Leave word for the next process, if the disk still takes it."""
        try:
            write_whole(self.disk.files, self._file(SUSPECT), b"")
        except OSError:
            self._suspect = True

    @property
    def high_watermarks(self) -> dict[Name, int]:
        """Those to store; whoever knows better ones writes them here."""
        return self._checkpoints.high_watermarks

    # -- logs ----------------------------------------------------------------------------------

    def folder(self, name: Name) -> str:
        return f"{self.path}/{name[0]}-{name[1]}"

    def names(self) -> list[Name]:
        """All logs that are there."""
        return sorted([*self.logs, *self.unopened])

    def topic_id(self, name: Name) -> Uuid | None:
        """Whose log it is, by its `partition.metadata`; None if that is missing or torn.

        One that can't be read says nothing of the rest of the disk, so it is that log's trouble.
        """
        path = f"{self.folder(name)}/{PARTITION_METADATA}"
        try:
            return decode_partition_metadata(read_whole(self.disk.files, path), path)
        except (FileNotFoundError, CorruptLogError):
            return None
        except OSError as error:
            raise StorageError(f"{path}: reading whose log it is: {error.strerror}") from error

    def open_log(
        self, name: Name, config: LogConfig = DEFAULT_CONFIG
    ) -> Generator[int, None, tuple[Log, RecoveryReport]]:
        """Open a log that is there; `kraftlog.storage.recovery.run` does it in one go."""
        if name in self._checkpoints.cleaned and config.contiguous:
            config = config.replace(contiguous=False)  # compaction leaves holes
        row = self._rows.get(name)
        log = open_row(self.disk, self.folder(name), config, row) if row is not None else None
        if log is not None:
            report = RecoveryReport(log.folder, True, log.start_offset, log.end_offset)
        else:
            log, report = yield from open_log(
                self.disk,
                self.folder(name),
                config,
                clean=self.was_clean and row is None,
                recovery_point=self._checkpoints.recovery_points.get(name, 0),
                start_offset=self._checkpoints.log_starts.get(name, 0),
                distrust_cache=self._suspect,
                before_truncation=self._lowering(name),
            )
        self._adopt(name, log)
        return log, report

    def _adopt(self, name: Name, log: Log) -> None:
        self._rows.pop(name, None)
        self.unopened.discard(name)
        self.logs[name] = log
        log.clean_offset = min(self._checkpoints.cleaned.get(name, 0), log.recovery_point)
        log.before_truncation = self._lowering(name)

    def create(self, name: Name, topic_id: Uuid, config: LogConfig = DEFAULT_CONFIG) -> Log:
        """A new log: a folder that says whose it is. Its other files come with the data."""
        self.disk.check()
        assert name not in self.logs
        assert name not in self.unopened
        folder = self.folder(name)
        try:
            self._checkpoints.clear(name)
            self.disk.files.make_directory(folder)
            data = encode_partition_metadata(topic_id)
            write_whole(self.disk.files, f"{folder}/{PARTITION_METADATA}", data, sync=False)
        except OSError as error:
            failure = self.disk.failed(f"{folder}: making the log", error)
            if isinstance(failure, DiskFullError):
                self._unmake(folder)
            raise failure from error
        log = Log(self.disk, folder, config)
        log.is_new(f"{folder}/{PARTITION_METADATA}")
        self._adopt(name, log)
        return log

    def _unmake(self, folder: str) -> None:
        """Half a folder would be in the way of the next log of that name."""
        with contextlib.suppress(OSError):
            unlink_if_there(self.disk.files, f"{folder}/{PARTITION_METADATA}")
            self.disk.files.remove_directory(folder)

    def delete(self, name: Name) -> None:
        """Remove a log that is there."""
        self.forget(name)
        self.remove_folder(name)

    def forget(self, name: Name) -> bool:
        """A log is none any more, whatever its folder is called; whether there was one."""
        self._checkpoints.forget(name)
        self._rows.pop(name, None)
        log = self.logs.pop(name, None)
        if log is not None:
            log.abandon()
            if log.is_flushing:
                self._in_use[name] = log
        elif name not in self.unopened:
            return False
        self.unopened.discard(name)
        return True

    def is_in_use(self, name: Name) -> bool:
        """Whether a job still works in a forgotten log's folder, which it knows by its path.

        Until it ends the folder keeps its name, or the job would reach the next log of that name.
        """
        log = self._in_use.get(name)
        if log is not None and not log.is_flushing:
            del self._in_use[name]
            log = None
        return log is not None

    def remove_folder(self, name: Name) -> None:
        """A forgotten log's folder gets another name now, the files go in a lane."""
        self._garbage.append(self._rename(name, _DELETED))

    def set_aside(self, name: Name) -> str:
        """A folder stays, under a name that no log has: which one. Its log is to be forgotten."""
        return self._rename(name, STRAY)

    def _rename(self, name: Name, ending: str) -> str:
        """A topic's name is cut short where the folder's would be too long."""
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
            raise self.disk.failed(f"{folder}: putting the log away", error) from error
        return renamed

    def take_garbage(self) -> list[str]:
        """Files and folders to give to `unlink_garbage`, in a lane."""
        garbage, self._garbage = self._garbage, []
        for log in self.logs.values():
            if log.garbage:
                garbage += log.garbage
                log.garbage = []
        return garbage

    def keep_reserve(self, size_bytes: int) -> None:
        """Have so many bytes of the disk in reserve, from the start on."""
        try:
            self.reserve.keep(size_bytes)
        except OSError as error:
            raise self.disk.failed(f"{self.path}: reserving disk space", error) from error

    def make_reserve(self) -> bool:
        """Keep room in reserve again, if there is any; whether it is kept."""
        try:
            return self.reserve.make()
        except OSError as error:
            raise self.disk.failed(f"{self.path}: reserving disk space", error) from error

    # -- checkpoints ---------------------------------------------------------------------------

    def checkpoint_job(self) -> CheckpointJob:
        """The checkpoint files as of now. One job at a time, from here to `checkpoints_durable`."""
        return finished(self.making_checkpoint_job())

    def making_checkpoint_job(self) -> Generator[None, None, CheckpointJob]:
        """The same in steps, as of the last of those that go through the logs."""
        yield from self._collecting()
        return (yield from self._checkpoints.making_job())

    def checkpointed(self, job: CheckpointJob) -> bool:
        """Put the files of a job in place; False if a cut or a new log has overtaken it.

        Next the directory is to be synced.
        """
        if job.error is not None:
            raise self.disk.failed(f"{self.path}: writing checkpoints", job.error)
        try:
            return self._checkpoints.install(job)
        except OSError as error:
            raise self.disk.failed(f"{self.path}: writing checkpoints", error) from error

    def checkpoints_durable(self, job: CheckpointJob) -> None:
        """The directory has been synced since the files of this job were put in place."""
        self._checkpoints.installed(job)

    def _collecting(self) -> Generator[None, None, None]:
        checkpoints = self._checkpoints
        for number, (name, log) in enumerate(list(self.logs.items()), 1):
            if not number % LINES_IN_A_STEP:
                yield
            if self.logs.get(name) is not log:
                continue  # it was deleted between two steps
            checkpoints.recovery_points[name] = log.recovery_point
            first = log.segments[0].base_offset if log.segments else 0
            if log.start_offset > first:
                checkpoints.log_starts[name] = log.start_offset
            else:
                checkpoints.log_starts.pop(name, None)
            if log.config.compacted or name in checkpoints.cleaned:
                checkpoints.cleaned[name] = log.clean_offset

    def lower_recovery_points(self, offsets: dict[Name, int]) -> None:
        """Before logs are cut: store lower points of many at once, durably, by one write."""
        self._checkpoints.lower(offsets)

    def _lower(self, name: Name, offset: int) -> None:
        self.lower_recovery_points({name: offset})

    def _lowering(self, name: Name) -> Callable[[int], None]:
        return lambda offset: self._lower(name, offset)

    # -- the end -------------------------------------------------------------------------------

    def close(self, broker_epoch: int = -1) -> None:
        """Flush and close every log, and leave word that all is well, if it is."""
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
            finished(self._collecting())
            self._checkpoints.write()
            if self.was_clean or not self.unopened:
                self._leave_word(broker_epoch)
        except OSError as error:
            raise self.disk.failed(f"{self.path}: closing", error) from error

    def _close_logs(self) -> None:
        """One by one, or by a sync of the whole file system if they are many."""
        logs = list(self.logs.values())
        for log in logs:
            log.finish()
        dirty = [log for log in logs if log.needs_flush]
        if len(dirty) <= _MANY:
            for log in dirty:
                log.flush()
            return
        for log in dirty:
            log.write_epochs_beside()
        self.disk.files.sync_all(self.path)
        for log in dirty:
            log.put_epochs_in_place()
        self.disk.files.sync_all(self.path)
        for log in dirty:
            log.all_is_durable()

    def _leave_word(self, broker_epoch: int) -> None:
        rows = {name: encode_row(log) for name, log in self.logs.items()}
        manifest = encode_manifest({**self._rows, **rows})
        unlink_if_there(self.disk.files, self._file(SUSPECT))
        write_atomically(self.disk.files, self._file(MANIFEST), manifest)
        marker = encode_marker(broker_epoch, manifest)
        write_atomically(self.disk.files, self._file(CLEAN_MARKER), marker)

    def release(self) -> None:
        """Let go of files and lock without writing anything."""
        for log in self.logs.values():
            log.release()
        self.disk.files.close(self._lock)


def unlink_garbage(files: Files, paths: list[str]) -> None:
    """In a lane: remove files, and folders with the files in them.

    A folder's new name is durable before it is emptied, or a crash could show it half empty
    under its old one.
    """
    for parent in sorted({path.rpartition("/")[0] for path in paths if path.endswith(_DELETED)}):
        files.sync_directory(parent)
    for path in paths:
        if not path.endswith(_DELETED):
            unlink_if_there(files, path)
            continue
        for name in files.list(path):
            unlink_if_there(files, f"{path}/{name}")
        files.remove_directory(path)
