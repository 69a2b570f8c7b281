"""`Timers`: many deadlines, of which most are put off again and again and few are ever reached.

A heartbeat only moves `Timer.at`; the heap keeps the older, earlier entry, which finds out when
it comes up that it is too early and goes back in. So a heartbeat costs an assignment.
"""

from __future__ import annotations

from heapq import heappop, heappush

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraftlog.types import Now


class Timer:
    """Something to do at a time. Only `Timers` sets its fields."""

    __slots__ = ("armed", "at", "fires")

    def __init__(self, fires: Callable[[Now], None]) -> None:
        self.fires = fires
        #: When it is due; None: not at all.
        self.at: int | None = None
        #: The time of its entry in the heap that counts; any other entry is stale.
        self.armed: int | None = None


class Timers:
    """All deadlines of a shard, in one heap."""

    __slots__ = ("_heap", "_numbers")

    def __init__(self) -> None:
        #: (time, number, timer); the number keeps equal times in the order they were set.
        self._heap: list[tuple[int, int, Timer]] = []
        self._numbers = 0

    def set(self, timer: Timer, at: int) -> None:
        timer.at = at
        if timer.armed is None or at < timer.armed:
            timer.armed = at
            self._numbers += 1
            heappush(self._heap, (at, self._numbers, timer))

    @staticmethod
    def cancel(timer: Timer) -> None:
        timer.at = None

    def clear(self) -> None:
        """Nothing is due any more."""
        self._heap.clear()

    def deadline(self) -> int | None:
        """When the first one is due, exactly."""
        while self._heap:
            at, _, timer = self._heap[0]
            if timer.armed == at and timer.at == at:
                return at
            self._drop_first()
        return None

    def poll(self, now: Now) -> None:
        """Fire what is due, in order of time; what that sets to a time already reached as well."""
        while True:
            at = self.deadline()
            if at is None or at > now.monotonic_ms:
                return
            timer = heappop(self._heap)[2]
            timer.at = timer.armed = None
            timer.fires(now)

    def _drop_first(self) -> None:
        """Take off an entry that is stale, cancelled, or too early."""
        at, _, timer = heappop(self._heap)
        if timer.armed == at:
            timer.armed = None
            if timer.at is not None:
                self.set(timer, timer.at)
