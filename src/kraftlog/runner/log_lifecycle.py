"""Logs that come and go: opened, made and deleted a slice a turn, in the order that was wished.

One topic may have thousands of partitions, and every log costs a few system calls: all at once
they would keep everybody waiting. What is deleted or set aside is forgotten at once, and only its
folder waits for its turn, and until no job works in it any more; a log of the same name, which is
another one, is made after that.
"""

from __future__ import annotations

from collections import deque

from kraftlog.effects import (
    ConfigureLog,
    DeleteLog,
    LogFailed,
    LogOpened,
    MarkStrays,
    OpenLog,
)
from kraftlog.errors import DiskFullError, StorageError
from kraftlog.node.quorum.batches import METADATA_LOG
from kraftlog.runner.logs import log_config
from kraftlog.storage.directory import STRAY
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.config.topic import TopicConfig
    from kraftlog.runner.flushes import Flushes
    from kraftlog.storage.directory import LogDirectory
    from kraftlog.storage.log import Log
    from kraftlog.storage.recovery import Opening
    from kraftlog.types import LogName, Now, Uuid

#: How much of a turn goes into this: so many bytes checked, whatever else is done counting as so
#: many more, by the time that it takes.
BYTES_A_TURN = 2 << 20
A_STEP_COSTS = 64 << 10
A_FOLDER_COSTS = 256 << 10
#: How long a disk that is full is left alone.
FULL_FOR_MS = 10_000
#: So many of the logs that are set aside are named in the line that says so.
NAMED_AT_MOST = 5


class _StrayLog(Value):
    """A step: the folder of a log that is nobody's gets another name."""

    log: LogName


class LogLifecycle:
    """Reports go to `notify`; `log_line` gets a line for people."""

    def __init__(
        self,
        directory: LogDirectory,
        flushes: Flushes,
        log_line: Callable[[str], None],
        notify: Callable[[Any, Now], None],
    ) -> None:
        self._directory = directory
        self._flushes = flushes
        self._log_line = log_line
        self._notify = notify
        self._steps: deque[OpenLog | DeleteLog | _StrayLog] = deque()
        #: What the first step has come to, if that takes several slices.
        self._under_way: Opening | None = None
        #: Those for which there was no room on the disk, and when to try them again.
        self._postponed: list[OpenLog] = []
        self.due_ms: int | None = None
        #: Whether the first step waits for room, too, and all others behind it.
        self._is_held_up = False
        #: The logs to be opened: what was deleted meanwhile is not among them, or not that one.
        self._wanted: dict[LogName, OpenLog] = {}
        #: What the logs are to go by, also those on their way.
        self._configs: dict[LogName, TopicConfig] = {}
        self.carry_out: dict[type, Callable[[Any, Now], None]] = {
            OpenLog: self._open,
            ConfigureLog: self._configure,
            DeleteLog: self._delete,
            MarkStrays: self._set_others_aside,
        }

    @property
    def has_work(self) -> bool:
        """Whether the next turn goes on with something."""
        if not self._steps or self._is_held_up:
            return False
        step = self._steps[0]
        return isinstance(step, OpenLog) or not self._directory.is_in_use(step.log)

    def go_on(self, now: Now) -> bool:
        """A slice of the work; whether there was any."""
        if self.due_ms is not None and self.due_ms <= now.monotonic_ms:
            self.due_ms = None
            self._is_held_up = False
            self._steps += self._postponed
            self._postponed.clear()
        spent_bytes = 0
        while self.has_work and spent_bytes < BYTES_A_TURN:
            step = self._steps[0]
            if not isinstance(step, OpenLog):
                self._go_on_putting_away(step, now)
                spent_bytes += A_FOLDER_COSTS
            elif self._wanted.get(step.log) is step:
                spent_bytes += self._go_on_with(step, now)
            else:
                self._under_way = None
            if self._under_way is None and not self._is_held_up:
                self._steps.popleft()
        return spent_bytes > 0

    def close(self) -> None:
        """A clean stop: what was to be deleted does not lie about for ever."""
        for step in self._steps:
            if not isinstance(step, OpenLog):
                try:
                    self._put_away(step)
                except StorageError as error:
                    self._log_line(str(error))
        self._steps.clear()

    # Wishes --------------------------------------------------------------------------------------

    def _open(self, effect: OpenLog, _: Now) -> None:
        self._configs[effect.log] = effect.config
        self._wanted[effect.log] = effect
        self._steps.append(effect)

    def _configure(self, effect: ConfigureLog, _: Now) -> None:
        self._configs[effect.log] = effect.config
        log = self._directory.logs.get(effect.log)
        if log is not None:
            log.config = log_config(effect.config)

    def _delete(self, effect: DeleteLog, _: Now) -> None:
        name = effect.log
        self._configs.pop(name, None)
        self._wanted.pop(name, None)
        self._flushes.forget(name)
        if self._directory.forget(name):
            self._steps.append(effect)

    def _set_others_aside(self, effect: MarkStrays, _: Now) -> None:
        aside: list[LogName] = []
        for name in sorted(self._directory.unopened - effect.logs - {METADATA_LOG}):
            owner = self._owner(name)
            if owner in effect.deleted:
                self._steps.append(DeleteLog(name, owner))
            else:
                self._steps.append(_StrayLog(name))
                aside.append(name)
            self._directory.forget(name)
        if aside:
            named = [f"{topic}-{index}" for topic, index in aside[:NAMED_AT_MOST]]
            more = f" and {len(aside) - NAMED_AT_MOST} more" if len(aside) > NAMED_AT_MOST else ""
            self._log_line(
                f"{self._directory.path}: renamed stray partitions, which are not assigned "
                f"to this broker, to end in {STRAY}: {', '.join(named)}{more}"
            )

    def _owner(self, name: LogName) -> Uuid | None:
        """The topic that a log is of; None where nobody can say."""
        try:
            return self._directory.topic_id(name)
        except StorageError:
            return None

    # Steps ---------------------------------------------------------------------------------------

    def _go_on_with(self, effect: OpenLog, now: Now) -> int:
        """One slice of a log's opening; what it costs."""
        name = effect.log
        try:
            if self._under_way is None:
                self._forget_another(effect)
                if name not in self._directory.unopened:
                    config = log_config(self._configs[name])
                    log = self._directory.create(name, effect.topic_id, config)
                    self._opened(effect, log, now)
                    return A_FOLDER_COSTS
                self._under_way = self._directory.open_log(name, log_config(self._configs[name]))
            # Also a log that opens at once, having been closed cleanly, has its share of the turn.
            return A_STEP_COSTS + next(self._under_way)
        except StopIteration as end:
            log, report = end.value
            if report.is_noteworthy:
                self._log_line(report.line())
            self._opened(effect, log, now)
        except DiskFullError as error:
            if name in self._directory.unopened and self._directory.reserve.spend():
                self._steps.appendleft(effect)  # readers want it: at once again
            else:
                self._put_off(effect, error, now)
        except StorageError as error:
            del self._wanted[name]
            self._log_line(str(error))
            self._notify(LogFailed(name, effect.topic_id, str(error)), now)
        self._under_way = None
        return A_STEP_COSTS

    def _put_off(self, effect: OpenLog, error: DiskFullError, now: Now) -> None:
        """Try it again when there may be room; meanwhile it is a log that is not open yet."""
        self._wait_for_room(error, now)
        self._postponed.append(effect)

    def _wait_for_room(self, error: DiskFullError, now: Now) -> None:
        if self.due_ms is None:
            self._log_line(str(error))
            self.due_ms = now.monotonic_ms + FULL_FOR_MS

    def _forget_another(self, effect: OpenLog) -> None:
        """What a topic of this name, or nobody knows who, has left behind is not in the way."""
        directory, name = self._directory, effect.log
        if name in directory.unopened and directory.topic_id(name) != effect.topic_id:
            self._set_another_aside(name)  # first: without room for a name it is tried again
            directory.forget(name)

    def _set_another_aside(self, name: LogName) -> None:
        aside = self._directory.set_aside(name)
        self._log_line(
            f"{self._directory.folder(name)}: belongs to a former topic of this name; "
            f"renamed to {aside}"
        )

    def _opened(self, effect: OpenLog, log: Log, now: Now) -> None:
        name, topic_id = effect.log, effect.topic_id
        del self._wanted[name]
        log.topic_id = topic_id
        log.config = log_config(self._configs[name])
        producers = None if log.tracker.is_empty else log.producers.copy()
        self._notify(LogOpened(name, topic_id, log.start_offset, log.end_offset, producers), now)

    def _go_on_putting_away(self, step: DeleteLog | _StrayLog, now: Now) -> None:
        """Where there is no room for another name the folder would be in the way of a new log, so
        those behind it wait, too."""
        try:
            self._directory.reserve.use_for(lambda: self._put_away(step))
        except DiskFullError as error:
            self._wait_for_room(error, now)
            self._is_held_up = True
        except StorageError as error:
            self._log_line(str(error))

    def _put_away(self, step: DeleteLog | _StrayLog) -> None:
        if self._directory.disk.failure is not None:
            return  # which is said once, and there may be thousands of folders
        if isinstance(step, _StrayLog):
            self._directory.set_aside(step.log)
        elif self._owner(step.log) == step.topic_id:
            self._directory.remove_folder(step.log)
        else:  # deleted before it was opened, and this is not what was to be opened
            self._set_another_aside(step.log)
