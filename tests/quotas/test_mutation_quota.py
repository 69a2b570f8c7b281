"""Quotas of created and deleted partitions: Kafka's token bucket, strict and permissive."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftlog.quotas.mutation_quota import MutationQuota, Mutations
from kraftlog.quotas.rate import MAX_THROTTLE_MS
from kraftlog.quotas.token_bucket import TokenBucket

if TYPE_CHECKING:
    from kraftlog.quotas.limits import Entity

WINDOWS, WINDOW_MS = 11, 1000
#: Two tokens a second, and a full bucket has 22.
LIMIT, BURST = 2.0, 22
QUOTAS: dict[Entity, dict[str, float]] = {(("user", "u"),): {"controller_mutation_rate": LIMIT}}
CLIENT = ("u", "c")


def begin(quota: MutationQuota, now_ms: int, *, is_strict: bool = True) -> Mutations:
    mutations = quota.begin(QUOTAS, CLIENT, now_ms, is_strict=is_strict)
    assert mutations is not None
    return mutations


@pytest.mark.parametrize(
    ("taken", "at_ms", "tokens", "throttle_ms"),
    [
        (0, 0, 22, 0),
        (22, 0, 0, 0),
        (23, 0, -1, 500),
        (23, 300, -0.4, 200),
        (23, 500, 0, 0),
        (23, 100_000, 22, 0),
        (-5, 0, 22, 0),  # what is given back does not overflow
    ],
)
def test_a_bucket_is_refilled_at_the_rate(
    taken: int, at_ms: int, tokens: float, throttle_ms: int
) -> None:
    bucket = TokenBucket(11)
    bucket.take(taken, LIMIT, 0)
    assert bucket.tokens(LIMIT, at_ms) == pytest.approx(tokens)
    assert bucket.throttle_ms(LIMIT, at_ms) == throttle_ms


def test_a_changed_limit_applies_to_what_is_in_the_bucket() -> None:
    bucket = TokenBucket(11)
    bucket.take(32, LIMIT, 0)
    assert bucket.throttle_ms(LIMIT, 0) == 5_000
    assert bucket.throttle_ms(10 * LIMIT, 0) == 500
    assert bucket.tokens(10 * LIMIT, 1_000) == 10
    assert bucket.tokens(0.5, 1_000) == 5.5  # no more than a full bucket


@pytest.mark.parametrize("limit", [5e-324, 1e-300, 1e300, 1.7e308])
def test_extreme_limits_have_times(limit: float) -> None:
    bucket = TokenBucket(11)
    bucket.take(10_000, limit, 0)
    assert bucket.throttle_ms(limit, 1) == (0 if limit > 1 else MAX_THROTTLE_MS)


def test_a_strict_quota_permits_a_burst_and_then_nothing_until_it_is_paid() -> None:
    quota = MutationQuota(WINDOWS, WINDOW_MS)
    first = begin(quota, 0)
    assert first.permits(BURST + 10, 0)
    assert first.throttle_ms(0) == 0
    assert not first.permits(1, 0)  # also in one request
    assert first.throttle_ms(0) == 5_000
    assert first.throttle_ms(1_000) == 4_000  # the request has waited for its commit
    second = begin(quota, 4_999)
    assert not second.permits(1, 4_999)
    third = begin(quota, 5_000)
    assert third.permits(7, 5_000)
    assert third.throttle_ms(5_000) == 0


def test_a_permissive_quota_permits_all_and_throttles() -> None:
    quota = MutationQuota(WINDOWS, WINDOW_MS)
    mutations = begin(quota, 0, is_strict=False)
    assert mutations.permits(BURST, 0)
    assert mutations.throttle_ms(0) == 0
    assert mutations.permits(10, 0)
    assert mutations.permits(10, 0)
    assert mutations.throttle_ms(0) == 10_000


def test_what_is_not_carried_out_is_given_back() -> None:
    quota = MutationQuota(WINDOWS, WINDOW_MS)
    mutations = begin(quota, 0, is_strict=False)
    assert mutations.permits(BURST + 2, 0)
    mutations.take_back(0)
    assert mutations.throttle_ms(0) == 0
    assert begin(quota, 0, is_strict=False).permits(BURST, 0)
    assert begin(quota, 0).permits(1, 0)  # the bucket is empty, and not exhausted


def test_buckets_are_of_entities_and_scopes() -> None:
    quota = MutationQuota(WINDOWS, WINDOW_MS)
    assert quota.begin(QUOTAS, ("v", "c"), 0, is_strict=True) is None
    begin(quota, 0).permits(BURST + 1, 0)
    other = quota.begin(QUOTAS, ("u", "d"), 0, is_strict=True)  # another client id of the user
    assert other is not None
    assert not other.permits(1, 0)
    quota.usages.forget((("user", "u"),))
    assert begin(quota, 0).permits(1, 0)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3_000), st.integers(1, 50)), max_size=60))
def test_what_is_permitted_never_exceeds_rate_and_bursts(steps: list[tuple[int, int]]) -> None:
    """Until any time: a full bucket, the refill since, and one request beyond it."""
    quota, now_ms, permitted = MutationQuota(WINDOWS, WINDOW_MS), 0, 0
    for wait_ms, count in steps:
        now_ms += wait_ms
        mutations = begin(quota, now_ms)
        if mutations.permits(count, now_ms):
            assert permitted <= BURST + LIMIT * now_ms / 1000 + 1e-6
            permitted += count
        else:
            now_ms += mutations.throttle_ms(now_ms)
            assert begin(quota, now_ms).permits(0, now_ms)  # who waits as told is not refused
