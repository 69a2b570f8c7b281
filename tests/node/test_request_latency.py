"""Request latency: which requests are measured, in which buckets, and the quantiles."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftlog.node.pending_response import PendingResponse
from kraftlog.node.request_latency import (
    BUCKETS,
    EXACT,
    SPAN_MS,
    RequestLatency,
    bucket_of,
    quantile,
    upper_bound,
)
from kraftlog.wire.apis import APIS, ApiKey

PRODUCE, FETCH = int(ApiKey.PRODUCE), int(ApiKey.FETCH)


@given(st.integers(0, 1 << 30))
def test_a_bucket_holds_times_that_differ_by_an_eighth_at_most(ms: int) -> None:
    upper = upper_bound(bucket_of(ms))
    assert ms <= upper <= ms + ms // 8
    assert bucket_of(upper) == bucket_of(ms)


def test_buckets_are_contiguous() -> None:
    limits = [upper_bound(bucket) for bucket in range(BUCKETS)]
    assert limits[:EXACT] == list(range(EXACT))
    assert [bucket_of(limit + 1) for limit in limits[:-1]] == list(range(1, BUCKETS))
    assert bucket_of(1 << 62) == BUCKETS - 1


@pytest.mark.parametrize(
    ("received_ms", "took_ms", "is_quick", "recorded_ms"),
    [
        (1000, 0, True, None),
        (1000, 3, False, 3),
        (960, 0, False, 40),
        (960, 3, False, 43),
    ],
    ids=["this turn", "a long turn", "has waited", "both"],
)
def test_responses_in_a_quick_turn_are_not_recorded(
    received_ms: int, took_ms: int, is_quick: bool, recorded_ms: int | None
) -> None:
    latency = RequestLatency()
    latency.turn_ends(1000, took_ms)
    assert (received_ms == latency.quick_ms) == is_quick
    pending = PendingResponse(None)
    pending.api, pending.received_ms = APIS[FETCH], received_ms
    latency.sent(pending)
    buckets = [bucket for bucket, count in enumerate(latency.slow.get(FETCH, [])) if count]
    assert buckets == ([] if recorded_ms is None else [bucket_of(recorded_ms)])


def test_quick_requests_are_counted_in_bucket_0() -> None:
    latency = RequestLatency()
    latency.add(PRODUCE, 7, 2)
    latency.add(FETCH, 500)
    counts = latency.recent({PRODUCE: 10, FETCH: 1}, SPAN_MS)
    assert [quantile(counts[PRODUCE], share) for share in (0.5, 0.8, 0.81, 0.99)] == [0, 0, 7, 7]
    assert quantile(counts[FETCH], 0.5) == upper_bound(bucket_of(500))


def test_a_request_that_was_pending_at_the_start_of_a_span_counts_as_slow() -> None:
    latency = RequestLatency()
    latency.recent({FETCH: 1}, SPAN_MS)
    latency.recent({FETCH: 1}, 2 * SPAN_MS)
    latency.add(FETCH, 500)
    counts = latency.recent({FETCH: 1}, 2 * SPAN_MS + 1)
    assert quantile(counts[FETCH], 0.5) == upper_bound(bucket_of(500))


def test_requests_before_the_last_span_are_dropped() -> None:
    latency = RequestLatency()
    latency.add(PRODUCE, 9)
    assert quantile(latency.recent({PRODUCE: 1}, SPAN_MS)[PRODUCE], 0.5) == 9
    latency.add(PRODUCE, 5)
    now_ms = SPAN_MS + 1
    assert sum(latency.recent({PRODUCE: 2}, now_ms)[PRODUCE]) == 2, "both are of the same span"
    assert quantile(latency.recent({PRODUCE: 2}, 2 * SPAN_MS)[PRODUCE], 0.99) == 5
    assert math.isnan(quantile(latency.recent({PRODUCE: 2}, 3 * SPAN_MS)[PRODUCE], 0.5))
