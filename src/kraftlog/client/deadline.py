"""Deadlines and the wall clock; unlike a node, the client may read clocks itself."""

from __future__ import annotations

import time

_NS = 1_000_000_000


def wall_ms() -> int:
    """The wall clock, for timestamps."""
    return time.time_ns() // 1_000_000


class Deadline:
    """A point in time after which nothing is retried."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic_ns() + int(seconds * _NS)

    def left_s(self) -> float:
        return max(0.0, (self._end - time.monotonic_ns()) / _NS)

    @property
    def is_over(self) -> bool:
        return time.monotonic_ns() >= self._end

    def pause(self, seconds: float) -> None:
        """Wait, but not beyond the deadline."""
        time.sleep(min(seconds, self.left_s()))
