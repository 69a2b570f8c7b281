"""Request latency: from the turn that reads a request until its response is sent.

Most responses are sent in the turn of their request, in less than a millisecond. These are not
recorded: they are the requests in `Counts.requests` without a bucket here. So a fast request costs
one comparison, and only slow or delayed ones cost more.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Protocol

    from kraftlog.wire.apis import Api

    class SentResponse(Protocol):
        """One response, or several to requests of the same time."""

        @property
        def api(self) -> Api | None: ...
        @property
        def received_ms(self) -> int: ...
        @property
        def count(self) -> int: ...


#: Below this each millisecond is a bucket; above it there are eight buckets per power of two.
EXACT = 16
BUCKETS = 240
#: Quantiles cover the last one to two spans, if they are read at least once per span.
SPAN_MS = 30_000


def bucket_of(ms: int) -> int:
    if ms < EXACT:
        return max(ms, 0)
    shift = ms.bit_length() - 4
    return min((shift << 3) + (ms >> shift), BUCKETS - 1)


def upper_bound(bucket: int) -> int:
    """The upper bound of a bucket."""
    if bucket < EXACT:
        return bucket
    shift = (bucket >> 3) - 1
    return (((bucket & 7) + 9) << shift) - 1


class RequestLatency:
    """The host reports the end of each turn, and the responses sent in it that are not quick.

    A response is quick if its request arrived in this turn and the turn took less than 1 ms.
    """

    __slots__ = ("_before", "_began_ms", "_ends_ms", "_latest", "quick_ms", "slow")

    def __init__(self) -> None:
        #: By API key: counts by latency bucket, without quick responses.
        self.slow: dict[int, list[int]] = {}
        #: Responses to requests received at this time are quick.
        self.quick_ms = -1
        self._ends_ms = 0
        #: The counts at the starts of the last two spans, quick ones in bucket 0.
        self._before: dict[int, list[int]] = {}
        self._latest: dict[int, list[int]] = {}
        self._began_ms = 0

    def turn_ends(self, began_ms: int, took_ms: int) -> None:
        self._ends_ms = began_ms + took_ms
        self.quick_ms = -1 if took_ms else began_ms

    def sent(self, pending: SentResponse) -> None:
        """Count a response by its `received_ms`."""
        if pending.api is not None:
            self.add(pending.api.key, self._ends_ms - pending.received_ms, pending.count)

    def add(self, key: int, ms: int, count: int = 1) -> None:
        bucket = bucket_of(ms)
        if not bucket:
            return
        buckets = self.slow.get(key)
        if buckets is None:
            buckets = self.slow[key] = [0] * BUCKETS
        buckets[bucket] += count

    def recent(self, totals: dict[int, int], now_ms: int) -> dict[int, list[int]]:
        """By API key, counts by bucket over the last one to two spans; `totals`: all requests.

        A pending request counts as quick until its response is sent. If it is slow then, there
        may be fewer quick ones than before: none are counted.
        """
        all_counts = self._all_counts(totals)
        if now_ms - self._began_ms >= SPAN_MS:
            self._before, self._latest, self._began_ms = self._latest, all_counts, now_ms
        zeros = [0] * BUCKETS
        return {
            key: [
                max(0, count - before)
                for count, before in zip(buckets, self._before.get(key, zeros), strict=True)
            ]
            for key, buckets in all_counts.items()
        }

    def _all_counts(self, totals: dict[int, int]) -> dict[int, list[int]]:
        """By API key: counts by bucket since the start, quick ones in bucket 0."""
        all_counts = {}
        for key, total in totals.items():
            buckets = self.slow.get(key)
            all_counts[key] = buckets = [0] * BUCKETS if buckets is None else buckets[:]
            buckets[0] = max(0, total - sum(buckets))
        return all_counts


def quantile(buckets: list[int], share: float) -> float:
    """The latency quantile for this share; NaN without requests."""
    remaining = share * sum(buckets)
    if not remaining:
        return float("nan")
    for bucket, count in enumerate(buckets):
        remaining -= count
        if remaining <= 0:
            return upper_bound(bucket)
    raise AssertionError("the share is larger than 1")
