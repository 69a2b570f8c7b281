"""`Rate`: Kafka's rate over sampled windows, and its formula for the throttle time."""

from __future__ import annotations

from collections import deque
from math import floor

#: The longest time to wait: `throttle_time_ms` is an INT32.
MAX_THROTTLE_MS = (1 << 31) - 1


class _Sample:
    __slots__ = ("last_ms", "started_ms", "total")

    def __init__(self, now_ms: int) -> None:
        self.started_ms = self.last_ms = now_ms
        self.total = 0.0


class Rate:
    """The rate over `windows` windows; a window begins with the first value after the last one."""

    __slots__ = ("_samples", "_window_ms", "_windows")

    def __init__(self, windows: int, window_ms: int) -> None:
        self._windows, self._window_ms = windows, window_ms
        self._samples: deque[_Sample] = deque()

    def record(self, value: float, now_ms: int) -> None:
        """Count a value; a negative one takes back what was counted."""
        self._drop_old(now_ms)
        samples = self._samples
        if not samples or now_ms - samples[-1].started_ms >= self._window_ms:
            samples.append(_Sample(now_ms))
        samples[-1].total += value
        samples[-1].last_ms = now_ms

    def _drop_old(self, now_ms: int) -> None:
        kept_ms = self._windows * self._window_ms
        while self._samples and now_ms - self._samples[0].last_ms >= kept_ms:
            self._samples.popleft()

    def _span_ms(self, now_ms: int) -> int:
        """The time that the rate is measured over: all windows but one are taken as complete."""
        elapsed_ms = now_ms - self._samples[0].started_ms
        missing = self._windows - 1 - elapsed_ms // self._window_ms
        return max(elapsed_ms + max(missing, 0) * self._window_ms, self._window_ms)

    def per_second(self, now_ms: int) -> float:
        self._drop_old(now_ms)
        if not self._samples:
            return 0.0
        return sum([sample.total for sample in self._samples]) * 1000 / self._span_ms(now_ms)

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """How long to wait until the rate is down to the limit; 0 if it is."""
        rate = self.per_second(now_ms)
        if rate <= limit:
            return 0
        # Divided by a tiny limit it may be infinite.
        return floor(min((rate - limit) / limit * self._span_ms(now_ms) + 0.5, MAX_THROTTLE_MS))
