"""`TokenBucket`: Kafka's, which is refilled at the rate of the quota."""

from __future__ import annotations

from math import ceil, inf

from kraftlog.quotas.rate import MAX_THROTTLE_MS

#: What refilling in many small steps may lack.
ROUNDING = 1e-6


class TokenBucket:
    """Starts full. Taking may make it negative: then the quota is exhausted until it is 0 again.

    So a burst of any size passes once, and is paid for afterwards; a sampled rate would stay
    exceeded until the burst leaves its windows.
    """

    __slots__ = ("_refilled_ms", "_tokens", "_window_seconds")

    def __init__(self, window_seconds: float) -> None:
        """It holds what the quota adds in this time, that of all windows."""
        self._window_seconds = window_seconds
        self._tokens = inf
        self._refilled_ms = 0

    def tokens(self, limit: float, now_ms: int) -> float:
        refill = limit * max(now_ms - self._refilled_ms, 0) / 1000
        self._tokens = min(limit * self._window_seconds, self._tokens + refill)
        self._refilled_ms = now_ms
        return self._tokens

    def take(self, count: float, limit: float, now_ms: int) -> None:
        """Take tokens, or give them back if `count` is negative."""
        most = limit * self._window_seconds
        self._tokens = min(most, self.tokens(limit, now_ms) - count)

    def is_exhausted(self, limit: float, now_ms: int) -> bool:
        return self.tokens(limit, now_ms) < -ROUNDING

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """How long to wait until it is not negative.

        Kafka rounds to the nearest millisecond, after which it may still be exhausted.
        """
        if not self.is_exhausted(limit, now_ms):
            return 0
        # Divided by a tiny limit it may be infinite.
        return ceil(min((-self._tokens - ROUNDING) / limit * 1000, MAX_THROTTLE_MS))
