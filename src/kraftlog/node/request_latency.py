"""Request latency: from the turn that read a request until its response is sent.

Most are answered in the turn in which they came, within half a millisecond. Those are not noted at
all: they are the ones that were counted (`Counts.requests`) and are in no bucket here. So serving
costs a comparison, and only what was slow, or had to wait, costs more.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

#: Up to this many milliseconds each has its own bucket; from there on eight share a doubling.
EXACT = 16
BUCKETS = 240
#: What is told is of the last one to two of these, if somebody looks as often as that.
SPAN_MS = 30_000


def bucket_of(ms: int) -> int:
    if ms < EXACT:
        return max(ms, 0)
    shift = ms.bit_length() - 4
    return min((shift << 3) + (ms >> shift), BUCKETS - 1)


def most_of(bucket: int) -> int:
    """The upper bound of a bucket."""
    if bucket < EXACT:
        return bucket
    shift = (bucket >> 3) - 1
    return (((bucket & 7) + 9) << shift) - 1


class RequestLatency:
    """Who carries the node says when a turn ends, and which answers leave then that are not quick.

    An answer is quick when its request came in the turn that ends and that took no time.
    """

    __slots__ = ("_before", "_began_ms", "_ends_ms", "_latest", "quick_ms", "slow")

    def __init__(self) -> None:
        #: By API: how many took how long, without the quick ones.
        self.slow: dict[int, list[int]] = {}
        #: When the requests came whose answers need not be noted.
        self.quick_ms = -1
        self._ends_ms = 0
        #: What was counted by these moments: quick ones are in bucket 0.
        self._before: dict[int, list[int]] = {}
        self._latest: dict[int, list[int]] = {}
        self._began_ms = 0

    def turn_ends(self, began_ms: int, took_ms: int) -> None:
        self._ends_ms = began_ms + took_ms
        self.quick_ms = -1 if took_ms else began_ms

    def answered(self, slot: Any) -> None:
        """Count a response by its `asked_ms`."""
        if slot.api is not None:
            self.add(slot.api.key, self._ends_ms - slot.asked_ms, slot.count)

    def add(self, key: int, ms: int, count: int = 1) -> None:
        bucket = bucket_of(ms)
        if not bucket:
            return
        buckets = self.slow.get(key)
        if buckets is None:
            buckets = self.slow[key] = [0] * BUCKETS
        buckets[bucket] += count

    def lately(self, totals: dict[int, int], now_ms: int) -> dict[int, list[int]]:
        """By API: how many took how long in the last span or two; `totals` are all ever asked.

        What is under way counts as quick until it is answered.
        """
        result = self._all(totals)
        if now_ms - self._began_ms >= SPAN_MS:
            self._before, self._latest, self._began_ms = self._latest, result, now_ms
        none = [0] * BUCKETS
        return {
            key: [
                now - then for now, then in zip(buckets, self._before.get(key, none), strict=True)
            ]
            for key, buckets in result.items()
        }

    def _all(self, totals: dict[int, int]) -> dict[int, list[int]]:
        found = {}
        for key, total in totals.items():
            buckets = self.slow.get(key)
            found[key] = buckets = [0] * BUCKETS if buckets is None else buckets[:]
            buckets[0] = max(0, total - sum(buckets))
        return found


def quantile(buckets: list[int], share: float) -> float:
    """The percentile for this share; NaN without requests."""
    left = share * sum(buckets)
    if not left:
        return float("nan")
    for bucket, count in enumerate(buckets):
        left -= count
        if left <= 0:
            return most_of(bucket)
    raise AssertionError("a share of all is within all")
