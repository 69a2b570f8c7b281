"""The log lines of what clients were denied, and how many there were."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraftlog.types import Now

#: At most one denial per this time is logged.
LOG_INTERVAL_MS = 1000


class Denials:
    """Logs what was denied, one line a second, and counts all."""

    def __init__(self, log_line: Callable[[str], None]) -> None:
        self._log_line = log_line
        self._log_from_ms = 0
        self._unlogged = 0
        self.count = 0

    def add(self, line: Callable[[], str], now: Now) -> None:
        self.count += 1
        if now.monotonic_ms < self._log_from_ms:
            self._unlogged += 1
            return
        others = f" ({self._unlogged} more since the last such line)" if self._unlogged else ""
        self._log_from_ms, self._unlogged = now.monotonic_ms + LOG_INTERVAL_MS, 0
        self._log_line(line() + others)
