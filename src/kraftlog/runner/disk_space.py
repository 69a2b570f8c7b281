"""Logs when the disk of a log directory is full, and fills its reserve when space is free."""

from __future__ import annotations

from kraftlog.errors import StorageError
from kraftlog.runner.log_lifecycle import FULL_BACKOFF_MS
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraftlog.storage.directory import LogDirectory
    from kraftlog.types import Now


class DiskSpace:
    """Logs when the disk is full, and when space is available again."""

    def __init__(self, directory: LogDirectory, log_line: Callable[[str], None]) -> None:
        self._directory = directory
        self._log_line = log_line
        self._has_logged_full = False
        #: When to check again, in monotonic milliseconds.
        self.due_ms: int | None = None

    def take_turn(self, now: Now) -> None:
        """Run at the end of a turn."""
        if not self._directory.disk.has_only_reserve:
            return
        path = self._directory.path
        if not self._has_logged_full:
            self._has_logged_full = True
            self._log_line(
                f"{path}: the disk is full: records and new topics are refused until space is "
                "freed; metadata is written to the space kept in reserve"
            )
        elif self.due_ms is not None and now.monotonic_ms < self.due_ms:
            return
        elif self._directory.disk.failure is None and self._fill_reserve():
            self._log_line(f"{path}: disk space is available again; records are accepted")
            self._has_logged_full = False
            self.due_ms = None
            return
        self.due_ms = now.monotonic_ms + FULL_BACKOFF_MS

    def _fill_reserve(self) -> bool:
        try:
            return self._directory.fill_reserve()
        except StorageError as error:
            self._log_line(str(error))
            return False
