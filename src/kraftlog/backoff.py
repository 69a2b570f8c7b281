"""`Backoff`: how long to wait before the next attempt; twice as long after each failure."""

from __future__ import annotations


class Backoff:
    """Call `next_ms` after a failure and `reset` after a success; no wait exceeds `longest_ms`."""

    __slots__ = ("_first_ms", "_longest_ms", "_wait_ms")

    def __init__(self, first_ms: int, longest_ms: int) -> None:
        self._first_ms = first_ms
        self._longest_ms = longest_ms
        self._wait_ms = 0

    def next_ms(self) -> int:
        """The wait after one more failure."""
        self._wait_ms = min(max(2 * self._wait_ms, self._first_ms), self._longest_ms)
        return self._wait_ms

    @property
    def has_failed(self) -> bool:
        """Whether the last attempt has failed."""
        return self._wait_ms > 0

    def reset(self) -> None:
        """The wait after the next failure is `first_ms` again."""
        self._wait_ms = 0
