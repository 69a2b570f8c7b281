"""Creates the folders of new logs, once no more logs are being created.

A new log needs no folder before its first record, and creating the folder takes longer than all
else that a new partition needs. So thousands of partitions first get their leaders and followers. A
node that stops or crashes before it has created the folders loses nothing: its next start creates
the same empty logs.
"""

from __future__ import annotations

from collections import deque

from kraftlog.effects import LogFailed
from kraftlog.errors import DiskFullError, StorageError
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraftlog.storage.directory import LogDirectory
    from kraftlog.storage.log import Log
    from kraftlog.types import LogName, Now

#: Folders are created this long after the last new log; none waits longer than the maximum.
DELAY_MS = 500
MAX_DELAY_MS = 5_000
FOLDERS_PER_TURN = 8
FULL_BACKOFF_MS = 10_000


class NewFolders:
    """Logs without a folder, in the order of their creation."""

    def __init__(
        self,
        directory: LogDirectory,
        log_line: Callable[[str], None],
        notify: Callable[[LogFailed, Now], None],
    ) -> None:
        self._directory = directory
        self._log_line = log_line
        self._notify = notify
        self._waiting: deque[tuple[LogName, Log]] = deque()
        self._due_at_latest_ms = 0
        #: When to begin to create folders; None if no log waits, or once creation has begun.
        self.due_ms: int | None = None

    @property
    def has_work(self) -> bool:
        return bool(self._waiting) and self.due_ms is None

    def add(self, name: LogName, log: Log, now: Now) -> None:
        """Queue a log that was created without its folder."""
        if not self._waiting:
            self._due_at_latest_ms = now.monotonic_ms + MAX_DELAY_MS
        self._waiting.append((name, log))
        self.due_ms = min(now.monotonic_ms + DELAY_MS, self._due_at_latest_ms)

    def take_turn(self, now: Now) -> bool:
        """Create the next folders if they are due; return whether any was created."""
        if self.due_ms is not None:
            if self.due_ms > now.monotonic_ms:
                return False
            self.due_ms = None
        created = 0
        while self._waiting and created < FOLDERS_PER_TURN:
            name, log = self._waiting.popleft()
            if log.has_folder or self._directory.logs.get(name) is not log:
                continue  # created with the first record, or deleted
            try:
                log.make_folder()
                created += 1
            except DiskFullError as error:
                self._log_line(str(error))
                self._waiting.append((name, log))
                self.due_ms = self._due_at_latest_ms = now.monotonic_ms + FULL_BACKOFF_MS
                break
            except StorageError as error:
                self._log_line(str(error))
                self._notify(LogFailed(name, log.topic_id, str(error)), now)
                self._waiting.clear()  # the directory is offline
        return created > 0
