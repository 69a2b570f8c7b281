"""Latencies and append rates of the quorum over the last 30 to 60 s, computed as in Kafka."""

from __future__ import annotations

from collections import deque

SPAN_MS = 30_000
NAN = float("nan")


class Window:
    """Samples of the current and the previous span."""

    __slots__ = ("_before", "_began_ms", "_current", "_max", "_max_before")

    def __init__(self) -> None:
        self._began_ms = 0
        #: Number of samples and their sum, in the current and in the previous span.
        self._current: tuple[int, float] = (0, 0)
        self._before: tuple[int, float] = (0, 0)
        self._max = self._max_before = 0.0

    def add(self, amount: float, now_ms: int) -> None:
        self._advance(now_ms)
        count, total = self._current
        self._current = count + 1, total + amount
        self._max = max(self._max, amount)

    def _advance(self, now_ms: int) -> None:
        elapsed_ms = now_ms - self._began_ms
        if elapsed_ms < SPAN_MS:
            return
        if elapsed_ms < 2 * SPAN_MS:
            self._before, self._max_before = self._current, self._max
        else:
            self._before, self._max_before = (0, 0), 0
        self._current, self._max = (0, 0), 0
        self._began_ms = now_ms - elapsed_ms % SPAN_MS

    def average(self, now_ms: int) -> float:
        """NaN without samples, as in Kafka."""
        self._advance(now_ms)
        count = self._current[0] + self._before[0]
        return (self._current[1] + self._before[1]) / count if count else NAN

    def maximum(self, now_ms: int) -> float:
        self._advance(now_ms)
        count = self._current[0] + self._before[0]
        return max(self._max, self._max_before) if count else NAN

    def per_second(self, now_ms: int) -> float:
        """The rate over at least one span, as in Kafka."""
        self._advance(now_ms)
        elapsed_ms = now_ms - self._began_ms + (SPAN_MS if self._before[0] else 0)
        return (self._current[1] + self._before[1]) * 1000 / max(elapsed_ms, SPAN_MS)


def _sample(waiting: deque[tuple[int, int]], end: int, window: Window, now_ms: int) -> None:
    """Remove the waiting entries up to `end`, and add their latencies to the window."""
    while waiting and waiting[0][0] <= end:
        window.add(now_ms - waiting.popleft()[1], now_ms)


class QuorumLatency:
    """The driver reports events; `moved_ms` is when the high watermark last moved."""

    def __init__(self) -> None:
        #: From append to commit, and from candidacy to a known leader, in milliseconds.
        self.commits = Window()
        self.elections = Window()
        #: From proposing a change until it is committed and applied here.
        self.changes = Window()
        #: From an append, as leader or follower, until it is flushed to this disk.
        self.flushes = Window()
        #: From learning of a commit until it is applied here, and the duration of applying.
        self.commits_to_applied = Window()
        self.applying = Window()
        #: Records appended as leader, and as follower.
        self.appended = Window()
        self.fetched = Window()
        self.moved_ms = -1
        #: Appends of this leader that are not committed: (end, time).
        self._uncommitted: deque[tuple[int, int]] = deque()
        #: Appends that are not flushed, and commits that are not applied: (end, time).
        self._unflushed: deque[tuple[int, int]] = deque()
        self._unapplied: deque[tuple[int, int]] = deque()
        self._campaigning_since_ms = -1

    def append(self, count: int, end: int, now_ms: int, *, leads: bool) -> None:
        self._unflushed.append((end, now_ms))
        if leads:
            self.appended.add(count, now_ms)
            self._uncommitted.append((end, now_ms))
        else:
            self.fetched.add(count, now_ms)

    def flush(self, end: int, now_ms: int) -> None:
        _sample(self._unflushed, end, self.flushes, now_ms)

    def truncate(self, end: int) -> None:
        """Drop appends after the end of the truncated log."""
        while self._unflushed and self._unflushed[-1][0] > end:
            self._unflushed.pop()

    def commit(self, high_watermark: int, now_ms: int) -> None:
        self.moved_ms = now_ms
        self._unapplied.append((high_watermark, now_ms))
        _sample(self._uncommitted, high_watermark, self.commits, now_ms)

    def apply(self, end: int, now_ms: int) -> None:
        _sample(self._unapplied, end, self.commits_to_applied, now_ms)

    def campaign(self, now_ms: int) -> None:
        if self._campaigning_since_ms < 0:
            self._campaigning_since_ms = now_ms

    def leader_known(self, now_ms: int, *, leads: bool) -> None:
        if not leads:
            self._uncommitted.clear()
        if self._campaigning_since_ms >= 0:
            self.elections.add(now_ms - self._campaigning_since_ms, now_ms)
            self._campaigning_since_ms = -1

    def waiting_ms(self, now_ms: int) -> int:
        """The age of this leader's oldest uncommitted record."""
        return now_ms - self._uncommitted[0][1] if self._uncommitted else 0
