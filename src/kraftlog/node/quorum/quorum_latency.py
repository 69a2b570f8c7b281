"""How long the quorum's work takes, over the last half to whole minute, as Kafka reckons it."""

from __future__ import annotations

from collections import deque

SPAN_MS = 30_000
NAN = float("nan")


class Window:
    """Amounts of this span of time and of the one before."""

    __slots__ = ("_before", "_began_ms", "_most", "_most_before", "_now")

    def __init__(self) -> None:
        self._began_ms = 0
        #: How many amounts, and their sum.
        self._now: tuple[int, float] = (0, 0)
        self._before: tuple[int, float] = (0, 0)
        self._most = self._most_before = 0.0

    def add(self, amount: float, now_ms: int) -> None:
        self._move_on(now_ms)
        count, total = self._now
        self._now = count + 1, total + amount
        self._most = max(self._most, amount)

    def _move_on(self, now_ms: int) -> None:
        past = now_ms - self._began_ms
        if past < SPAN_MS:
            return
        if past < 2 * SPAN_MS:
            self._before, self._most_before = self._now, self._most
        else:
            self._before, self._most_before = (0, 0), 0
        self._now, self._most = (0, 0), 0
        self._began_ms = now_ms - past % SPAN_MS

    def average(self, now_ms: int) -> float:
        """NaN where there was nothing, as with Kafka."""
        self._move_on(now_ms)
        count = self._now[0] + self._before[0]
        return (self._now[1] + self._before[1]) / count if count else NAN

    def most(self, now_ms: int) -> float:
        self._move_on(now_ms)
        count = self._now[0] + self._before[0]
        return max(self._most, self._most_before) if count else NAN

    def per_second(self, now_ms: int) -> float:
        """Over a span at least, as Kafka does."""
        self._move_on(now_ms)
        elapsed_ms = now_ms - self._began_ms + (SPAN_MS if self._before[0] else 0)
        return (self._now[1] + self._before[1]) * 1000 / max(elapsed_ms, SPAN_MS)


def _done(waiting: deque[tuple[int, int]], end: int, window: Window, now_ms: int) -> None:
    """Those up to this end have had their time."""
    while waiting and waiting[0][0] <= end:
        window.add(now_ms - waiting.popleft()[1], now_ms)


class QuorumLatency:
    """The driver says what happens; `moved_ms` is when the high watermark last did."""

    def __init__(self) -> None:
        #: From append to commit, and from standing to a known leader, in milliseconds.
        self.commits = Window()
        self.elections = Window()
        #: From a change that was proposed until it is committed and applied here.
        self.changes = Window()
        #: From an append, as the leader or not, until it is on this disk.
        self.flushes = Window()
        #: From knowing a commit until it is applied here, and how long applying itself takes.
        self.commits_to_applied = Window()
        self.applying = Window()
        #: Records that were appended as the leader, and that came from it.
        self.appended = Window()
        self.fetched = Window()
        self.moved_ms = -1
        #: What this node has appended as the leader and is not committed: (end, when).
        self._waiting: deque[tuple[int, int]] = deque()
        #: What is not on the disk, and what is not applied: (end, when it was appended, committed).
        self._unflushed: deque[tuple[int, int]] = deque()
        self._unapplied: deque[tuple[int, int]] = deque()
        self._campaigning_since_ms = -1

    def append(self, count: int, end: int, now_ms: int, *, leads: bool) -> None:
        self._unflushed.append((end, now_ms))
        if leads:
            self.appended.add(count, now_ms)
            self._waiting.append((end, now_ms))
        else:
            self.fetched.add(count, now_ms)

    def flush(self, end: int, now_ms: int) -> None:
        _done(self._unflushed, end, self.flushes, now_ms)

    def truncate(self, end: int) -> None:
        """What lay behind this is nobody's any more."""
        while self._unflushed and self._unflushed[-1][0] > end:
            self._unflushed.pop()

    def commit(self, high_watermark: int, now_ms: int) -> None:
        self.moved_ms = now_ms
        self._unapplied.append((high_watermark, now_ms))
        _done(self._waiting, high_watermark, self.commits, now_ms)

    def apply(self, end: int, now_ms: int) -> None:
        _done(self._unapplied, end, self.commits_to_applied, now_ms)

    def stand(self, now_ms: int) -> None:
        if self._campaigning_since_ms < 0:
            self._campaigning_since_ms = now_ms

    def know_leader(self, now_ms: int, *, leads: bool) -> None:
        if not leads:
            self._waiting.clear()
        if self._campaigning_since_ms >= 0:
            self.elections.add(now_ms - self._campaigning_since_ms, now_ms)
            self._campaigning_since_ms = -1

    def waiting_ms(self, now_ms: int) -> int:
        """For how long the oldest record of this leader waits to be committed."""
        return now_ms - self._waiting[0][1] if self._waiting else 0
