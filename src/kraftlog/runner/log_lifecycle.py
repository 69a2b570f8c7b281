"""Opens, creates and deletes logs, a slice per turn, in the order of the effects.

A topic may have thousands of partitions, and each log costs a few system calls, which would block
the loop if done at once. A deleted or stray log is forgotten at once; its folder is renamed in a
later turn, after the last job that uses it. A new log of the same name is created after that.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress

from kraftlog.effects import (
    ConfigureLog,
    DeleteLog,
    LogComplete,
    LogFailed,
    LogOpened,
    LogPostponed,
    LogTruncated,
    MarkStrays,
    OpenLog,
    TruncatePartition,
)
from kraftlog.errors import DiskFullError, StorageError
from kraftlog.node.quorum.batches import METADATA_LOG
from kraftlog.runner.logs import log_config
from kraftlog.storage.directory import STRAY
from kraftlog.storage.log_folder import is_of_partition
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.config.topic import TopicConfig
    from kraftlog.runner.flushes import Flushes
    from kraftlog.runner.new_folders import NewFolders
    from kraftlog.storage.config import LogConfig
    from kraftlog.storage.directory import LogDirectory
    from kraftlog.storage.log import Log
    from kraftlog.storage.recovery import Opening
    from kraftlog.types import LogName, Now, Uuid

#: The work of one turn, in bytes that recovery checks. The costs of other steps are the bytes that
#: recovery checks in the same time.
BYTES_PER_TURN = 2 << 20
STEP_COST = 64 << 10
FOLDER_COST = 256 << 10
#: The cost of opening a log that was closed cleanly and is not read.
CLOSED_COST = 16 << 10
#: How long to wait before a retry after the disk was full.
FULL_BACKOFF_MS = 10_000
#: How many strays a log line names.
MAX_NAMED = 5


class _StrayLog(Value):
    """A step: rename the folder of a stray log."""

    log: LogName


class LogLifecycle:
    """A log directory's work queue. Reports go to `notify`; `log_line` logs for the operator."""

    def __init__(
        self,
        directory: LogDirectory,
        flushes: Flushes,
        new_folders: NewFolders,
        log_line: Callable[[str], None],
        notify: Callable[[Any, Now], None],
    ) -> None:
        self._directory = directory
        self._flushes = flushes
        self._new_folders = new_folders
        self._log_line = log_line
        self._notify = notify
        #: Called when a log could not be created or opened on a full disk.
        self.on_full: Callable[[DiskFullError, Now], None] = _ignore
        self._steps: deque[OpenLog | DeleteLog | _StrayLog] = deque()
        #: The progress of the first step, if it takes several slices.
        self._opening: Opening | None = None
        #: The logs that could not be opened on a full disk, and when to retry.
        self._postponed: list[OpenLog] = []
        self.due_ms: int | None = None
        #: Whether the first step, and so all others, waits for disk space.
        self._is_blocked = False
        #: The logs to open; a step of `_steps` whose log was deleted or replaced is not in it.
        self._to_open: dict[LogName, OpenLog] = {}
        #: The configs of the logs to open.
        self._configs: dict[LogName, LogConfig] = {}
        #: The last config made: thousands of logs may share it.
        self._last_config: tuple[TopicConfig, LogConfig] | None = None
        self.carry_out: dict[type, Callable[[Any, Now], None]] = {
            OpenLog: self._open,
            ConfigureLog: self._configure,
            DeleteLog: self._delete,
            TruncatePartition: self._truncate,
            MarkStrays: self._mark_strays,
            LogComplete: self._complete,
        }

    @property
    def has_work(self) -> bool:
        """Whether the next turn has something to do."""
        if not self._steps or self._is_blocked:
            return False
        step = self._steps[0]
        return isinstance(step, OpenLog) or not self._directory.is_in_use(step.log)

    def resume(self, now: Now) -> bool:
        """Do a slice of the work; return whether there was any."""
        if self.due_ms is not None and self.due_ms <= now.monotonic_ms:
            self.due_ms = None
            self._is_blocked = False
            self._steps += self._postponed
            self._postponed.clear()
        spent_bytes = 0
        while self.has_work and spent_bytes < BYTES_PER_TURN:
            step = self._steps[0]
            if not isinstance(step, OpenLog):
                self._continue_delete(step, now)
                spent_bytes += FOLDER_COST
            elif self._to_open.get(step.log) is step:
                spent_bytes += self._continue_open(step, now)
            else:
                self._opening = None
            if self._opening is None and not self._is_blocked:
                self._steps.popleft()
        return spent_bytes > 0

    def close(self) -> None:
        """Shut down cleanly: rename the remaining folders of deleted and stray logs."""
        for step in self._steps:
            if not isinstance(step, OpenLog):
                try:
                    self._rename(step)
                except StorageError as error:
                    self._log_line(str(error))
        self._steps.clear()

    def had_records(self, effect: OpenLog) -> bool:
        """Whether the directory has, or had, records of the log."""
        return self._directory.had_records(effect.log, effect.topic_id, effect.first_leader_epoch)

    # Effects -------------------------------------------------------------------------------------

    def _config_of(self, topic: TopicConfig) -> LogConfig:
        if self._last_config is None or self._last_config[0] is not topic:
            self._last_config = topic, log_config(topic)
        return self._last_config[1]

    def _open(self, effect: OpenLog, _: Now) -> None:
        self._configs[effect.log] = self._config_of(effect.config)
        self._to_open[effect.log] = effect
        self._steps.append(effect)

    def _configure(self, effect: ConfigureLog, _: Now) -> None:
        config = self._config_of(effect.config)
        if effect.log in self._to_open:
            self._configs[effect.log] = config
        log = self._directory.logs.get(effect.log)
        if log is not None:
            log.config = config

    def _truncate(self, effect: TruncatePartition, now: Now) -> None:
        log = self._directory.logs.get(effect.log)
        if log is None or log.topic_id != effect.topic_id:
            return  # deleted in the meantime
        try:
            self._directory.lower_high_watermark(effect.log, effect.offset)
            if effect.restarts:
                log.truncate_fully_and_start_at(effect.offset)
            else:
                log.truncate_to(effect.offset)
                # The log may end before the offset: at the start of the batch that contains it.
                self._directory.lower_high_watermark(effect.log, log.end_offset)
        except StorageError as error:
            self._log_line(str(error))
            self._notify(LogFailed(effect.log, effect.topic_id, str(error)), now)
            return
        start, end = log.start_offset, log.end_offset
        self._notify(LogTruncated(effect.log, effect.topic_id, start, end), now)

    def _delete(self, effect: DeleteLog, _: Now) -> None:
        name = effect.log
        self._configs.pop(name, None)
        self._to_open.pop(name, None)
        self._flushes.forget(name)
        if self._directory.forget(name):
            self._steps.append(effect)

    def delete_folder(self, log: LogName, topic_id: Uuid) -> None:
        """Delete the folder of a log that was moved to another directory."""
        self._steps.append(DeleteLog(log, topic_id))

    def _mark_strays(self, effect: MarkStrays, _: Now) -> None:
        self._directory.committed.forget_all_but(effect.logs)
        self._directory.folder_journal.forget_all_but(effect.logs)
        strays: list[LogName] = []
        for name in sorted(self._directory.unopened - effect.logs - {METADATA_LOG}):
            owner = self._owner(name)
            was_removed = owner in effect.deleted or (owner, name[1]) in effect.removed
            if owner is not None and was_removed:
                self._steps.append(DeleteLog(name, owner))
            else:
                self._steps.append(_StrayLog(name))
                strays.append(name)
            self._directory.forget(name)
        if strays:
            named = [f"{topic}-{index}" for topic, index in strays[:MAX_NAMED]]
            more = f" and {len(strays) - MAX_NAMED} more" if len(strays) > MAX_NAMED else ""
            self._log_line(
                f"{self._directory.path}: renamed stray partitions, which are not assigned "
                f"to this broker, to end in {STRAY}: {', '.join(named)}{more}"
            )

    def _owner(self, name: LogName) -> Uuid | None:
        """The topic id of a log, or None if it is unknown."""
        try:
            return self._directory.topic_id(name)
        except StorageError:
            return None

    # Steps ---------------------------------------------------------------------------------------

    def _continue_open(self, effect: OpenLog, now: Now) -> int:
        """Do one slice of opening a log; return its cost."""
        name = effect.log
        try:
            if self._opening is None:
                if self._open_from_manifest(effect, now):
                    return CLOSED_COST
                self._mark_stray_if_of_other_topic(effect)
                if name not in self._directory.unopened:
                    config = self._configs[name]
                    log = self._directory.create(name, effect.topic_id, config, with_folder=False)
                    self._new_folders.add(name, log, now)
                    self._opened(effect, log, now)
                    return STEP_COST
                self._opening = self._directory.open_log(name, self._configs[name])
            # A log that opens at once, after a clean shutdown, also counts.
            return STEP_COST + next(self._opening)
        except StopIteration as end:
            log, report = end.value
            if report.is_noteworthy:
                self._log_line(report.line())
            self._accept(effect, log, now, truncated_bytes=report.truncated_bytes)
        except DiskFullError as error:
            if name in self._directory.unopened and self._directory.reserve.spend():
                self._steps.appendleft(effect)  # its records are needed: retry at once
            else:
                self._postpone(effect, error, now)
        except StorageError as error:
            del self._to_open[name], self._configs[name]
            self._log_line(str(error))
            self._notify(LogFailed(name, effect.topic_id, str(error)), now)
        self._opening = None
        return STEP_COST

    def _open_from_manifest(self, effect: OpenLog, now: Now) -> bool:
        """Open a cleanly closed log, which needs no slices; return whether it was one."""
        config = self._configs[effect.log]
        log = self._directory.open_from_manifest(effect.log, effect.topic_id, config)
        if log is None:
            return False
        self._accept(effect, log, now)
        return True

    def _accept(self, effect: OpenLog, log: Log, now: Now, *, truncated_bytes: int = 0) -> None:
        """Report an open log, or delete it if it belongs to a removed partition of this number."""
        if is_of_partition(log, effect.first_leader_epoch):
            self._opened(effect, log, now, truncated_bytes=truncated_bytes)
        else:
            self._discard(effect)

    def _postpone(self, effect: OpenLog, error: DiskFullError, now: Now) -> None:
        """Retry later, when there may be space; until then the log is not open."""
        self._wait_for_space(error, now)
        self.on_full(error, now)
        self._postponed.append(effect)
        self._notify(LogPostponed(effect.log, effect.topic_id), now)

    def _wait_for_space(self, error: DiskFullError, now: Now) -> None:
        if self.due_ms is None:
            self._log_line(str(error))
            self.due_ms = now.monotonic_ms + FULL_BACKOFF_MS

    def _mark_stray_if_of_other_topic(self, effect: OpenLog) -> None:
        """Mark as stray a log of the same name that belongs to another topic or to none."""
        directory, name = self._directory, effect.log
        if name in directory.unopened and directory.topic_id(name) != effect.topic_id:
            # Before `forget`: without space for the new name, this step is retried.
            self._mark_stray(name)
            directory.forget(name)

    def _discard(self, effect: OpenLog) -> None:
        """Delete the log of a removed partition of this number, then create a new one (V11)."""
        name = effect.log
        self._log_line(
            f"{self._directory.folder(name)}: deleted, because it belongs to a partition of this "
            "number that was removed"
        )
        self._directory.forget(name)
        # `resume` then drops the first step, so a second `effect` is put before the others.
        self._steps.extendleft((DeleteLog(name, effect.topic_id), effect))

    def _mark_stray(self, name: LogName) -> None:
        renamed = self._directory.rename_as_stray(name)
        self._log_line(
            f"{self._directory.folder(name)}: belongs to a former topic of this name; "
            f"renamed to {renamed}"
        )

    def _opened(self, effect: OpenLog, log: Log, now: Now, *, truncated_bytes: int = 0) -> None:
        name, topic_id = effect.log, effect.topic_id
        del self._to_open[name]
        log.topic_id = topic_id
        log.first_leader_epoch = effect.first_leader_epoch
        log.config = self._configs.pop(name)
        with suppress(StorageError):  # the disk has failed, or is full: done at the next start
            self._note_recovered(log)
        high_watermark = self._directory.high_watermark(name)
        lacks_records = self._lacks_records(effect, log, high_watermark, truncated_bytes)
        if not log.segments and not lacks_records:
            self._note_never_begun(name)
        self._notify(
            LogOpened(
                name,
                topic_id,
                log.start_offset,
                log.end_offset,
                producers=None if log.tracker.is_empty else log.producers.copy(),
                high_watermark=high_watermark,
                directory=self._directory.id,
                lacks_records=lacks_records,
            ),
            now,
        )

    def _note_recovered(self, log: Log) -> None:
        """Note that the log has records; flush those that a killed process has only written.

        The latter if only flushed records count (V19): the replica may confirm them at once, by
        fetching from after them, or by leading.
        """
        if log.segments:
            self._directory.note_records(log)
        if log.config.flush_messages == 1 and log.recovery_point < log.end_offset:
            log.mark_created(self._directory.folder_journal.path)
            log.flush()

    def _note_never_begun(self, name: LogName) -> None:
        """The log has no records, and lacks none: the journal must not say that it had some."""
        with suppress(StorageError):  # a line that stays makes the next start suspect a loss
            self._directory.folder_journal.deleted(name)

    def _lacks_records(
        self, effect: OpenLog, log: Log, high_watermark: int, truncated_bytes: int
    ) -> bool:
        """Whether the log lacks records that were committed in it, or may lack some (V19).

        A power loss before this process cannot have taken records of a log that begins with it.
        """
        name, offsets, end = effect.log, self._directory.committed, log.end_offset
        has_begun = bool(log.segments) or not effect.is_new
        committed = max(offsets.of(name, log.topic_id, log.first_leader_epoch), high_watermark)
        if committed > end:
            self._log_line(
                f"{log.folder}: ends at offset {end}, but records before offset {committed} were "
                "committed in it; they are lost here. If the partition has other replicas, this "
                "one does not lead until it has copied them from one"
            )
        elif (has_begun and self._may_have_lost_writes(log, truncated_bytes)) or (
            self._has_lost_segments(name, log)
        ):
            committed = end + 1
        else:
            return False
        offsets.is_incomplete(name, log, committed)
        return True

    def _may_have_lost_writes(self, log: Log, truncated_bytes: int) -> bool:
        """Whether the machine stopped before it had synced all writes, maybe some of this log.

        If each write was flushed before it counted, a truncated end was damaged, or not written.
        """
        if not self._directory.machine.may_have_lost_writes:
            return False
        return log.config.flush_messages > 1 or truncated_bytes > 0

    def _has_lost_segments(self, name: LogName, log: Log) -> bool:
        """Whether a log had records, and its folder is gone or empty."""
        return not log.segments and self._directory.folder_journal.had_records(
            name, log.topic_id, log.first_leader_epoch
        )

    def _complete(self, effect: LogComplete, _: Now) -> None:
        self._directory.committed.completed(effect.log)
        log = self._directory.logs.get(effect.log)
        if log is not None and not log.segments:
            self._note_never_begun(effect.log)

    def _continue_delete(self, step: DeleteLog | _StrayLog, now: Now) -> None:
        """Rename the folder; without disk space, later steps wait: a new log may need its name."""
        try:
            self._directory.reserve.use_for(lambda: self._rename(step))
        except DiskFullError as error:
            self._wait_for_space(error, now)
            self._is_blocked = True
        except StorageError as error:
            self._log_line(str(error))

    def _rename(self, step: DeleteLog | _StrayLog) -> None:
        if self._directory.disk.failure is not None:
            return  # logged once, for possibly thousands of folders
        if isinstance(step, _StrayLog):
            self._directory.rename_as_stray(step.log)
        elif self._owner(step.log) == step.topic_id:
            self._directory.remove_folder(step.log)
        else:  # the folder of another topic: the log to delete was never created
            self._mark_stray(step.log)


def _ignore(_: DiskFullError, __: Now) -> None:
    """The default for `on_full`."""
