"""`Timers`: deadlines that are mostly postponed and rarely reached.

A heartbeat only sets `Timer.at`. The heap keeps the earlier entry, which is pushed back when it
comes up too early. So a heartbeat costs one assignment.
"""

from __future__ import annotations

from heapq import heappop, heappush

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraftlog.types import Now


class Timer:
    """An action at a time; only `Timers` sets its fields."""

    __slots__ = ("action", "at", "heap_at")

    def __init__(self, action: Callable[[Now], None]) -> None:
        self.action = action
        #: When it is due; None if it is not set.
        self.at: int | None = None
        #: The time of its valid heap entry; other entries are stale.
        self.heap_at: int | None = None


class Timers:
    """All deadlines of a shard, in one heap."""

    __slots__ = ("_heap", "_numbers")

    def __init__(self) -> None:
        #: (time, number, timer); the number keeps the order of equal times.
        self._heap: list[tuple[int, int, Timer]] = []
        self._numbers = 0

    def set(self, timer: Timer, at: int) -> None:
        timer.at = at
        if timer.heap_at is None or at < timer.heap_at:
            timer.heap_at = at
            self._numbers += 1
            heappush(self._heap, (at, self._numbers, timer))

    @staticmethod
    def cancel(timer: Timer) -> None:
        timer.at = None

    def clear(self) -> None:
        """Cancel all timers for good: none of them may be set again."""
        self._heap.clear()

    def deadline(self) -> int | None:
        """The earliest deadline."""
        while self._heap:
            at, _, timer = self._heap[0]
            if timer.heap_at == at and timer.at == at:
                return at
            self._drop_first()
        return None

    def poll(self, now: Now) -> None:
        """Run due timers in order of time, including those that they set to due times."""
        while True:
            at = self.deadline()
            if at is None or at > now.monotonic_ms:
                return
            timer = heappop(self._heap)[2]
            timer.at = timer.heap_at = None
            timer.action(now)

    def _drop_first(self) -> None:
        """Remove a stale, cancelled or early heap entry."""
        at, _, timer = heappop(self._heap)
        if timer.heap_at == at:
            timer.heap_at = None
            if timer.at is not None:
                self.set(timer, timer.at)
