"""Client quotas: precedence, Kafka's rate and throttle time, against a plain model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftlog.quotas.byte_quota import MAX_BYTES, ByteQuota
from kraftlog.quotas.limits import limit_for
from kraftlog.quotas.rate import MAX_THROTTLE_MS, Rate
from kraftlog.quotas.usages import SPAN_MS, SWEEP_MS, UNUSED_MS, ThrottleTimes

if TYPE_CHECKING:
    from kraftlog.quotas.limits import Entity

KEY = "producer_byte_rate"
WINDOWS, WINDOW_MS = 11, 1000


def quota_of(kind: str, name: str | None, value: float) -> dict[Entity, dict[str, float]]:
    return {((kind, name),): {KEY: value}}


#: Entities in Kafka's order of precedence, and whose requests count together.
PRECEDENCE: list[tuple[Entity, tuple[str | None, str | None]]] = [
    ((("client-id", "c"), ("user", "u")), ("u", "c")),
    ((("client-id", None), ("user", "u")), ("u", "c")),
    ((("user", "u"),), ("u", None)),
    ((("client-id", "c"), ("user", None)), ("u", "c")),
    ((("client-id", None), ("user", None)), ("u", "c")),
    ((("user", None),), ("u", None)),
    ((("client-id", "c"),), (None, "c")),
    ((("client-id", None),), (None, "c")),
]


@pytest.mark.parametrize("first", range(len(PRECEDENCE)))
def test_the_most_specific_quota_applies(first: int) -> None:
    quotas = {
        entity: {KEY: float(number + 1)}
        for number, (entity, _) in enumerate(PRECEDENCE)
        if number >= first
    }
    assert limit_for(quotas, "u", "c", KEY) == (
        first + 1,
        PRECEDENCE[first][1],
        PRECEDENCE[first][0],
    )
    assert limit_for(quotas, "u", "c", "consumer_byte_rate") is None


def test_quotas_of_others_do_not_apply() -> None:
    quotas = quota_of("user", "v", 1) | quota_of("client-id", "d", 2)
    assert limit_for(quotas, "u", "c", KEY) is None


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_what_is_no_number_above_0_limits_nothing(value: float) -> None:
    """Also where a less specific quota would: it stands for the client."""
    quotas = quota_of("user", "u", value) | quota_of("client-id", "c", 5)
    assert limit_for(quotas, "u", "c", KEY) is None
    quota = ByteQuota(KEY, WINDOWS, WINDOW_MS)
    assert quota.record(quotas, ("u", "c"), 1 << 40, 0) == 0
    assert quota.most_at_once(quotas, ("u", "c")) is None


@pytest.mark.parametrize("value", [5e-324, 1e-300, 1.0, 1e300, 1.7e308])
def test_times_and_sizes_of_extreme_quotas_are_numbers(value: float) -> None:
    quotas = quota_of("user", "u", value)
    quota = ByteQuota(KEY, WINDOWS, WINDOW_MS)
    throttle_ms = quota.record(quotas, ("u", "c"), 1 << 40, 0)
    assert throttle_ms == (0 if value > 1e12 else MAX_THROTTLE_MS)
    most = quota.most_at_once(quotas, ("u", "c"))
    assert most is not None
    assert 0 <= most <= MAX_BYTES


class Model:
    """Every value with its time; the windows are found again for each question."""

    def __init__(self) -> None:
        self.values: list[tuple[int, int]] = []

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        windows: list[list[tuple[int, int]]] = []
        for at_ms, value in self.values:
            windows = [it for it in windows if at_ms - it[-1][0] < WINDOWS * WINDOW_MS]
            if windows and at_ms - windows[-1][0][0] < WINDOW_MS:
                windows[-1].append((at_ms, value))
            else:
                windows.append([(at_ms, value)])
        windows = [it for it in windows if now_ms - it[-1][0] < WINDOWS * WINDOW_MS]
        if not windows:
            return 0
        elapsed_ms = now_ms - windows[0][0][0]
        span_ms = elapsed_ms
        if elapsed_ms // WINDOW_MS < WINDOWS - 1:
            span_ms = elapsed_ms % WINDOW_MS + (WINDOWS - 1) * WINDOW_MS
        rate = sum(value for it in windows for _, value in it) / span_ms * 1000
        return max(0, int((rate - limit) / limit * span_ms + 0.5))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 15_000), st.integers(0, 10_000)), max_size=40),
    st.integers(1, 5_000),
)
def test_rates_agree_with_a_plain_model(steps: list[tuple[int, int]], limit: int) -> None:
    rate, model, now_ms = Rate(WINDOWS, WINDOW_MS), Model(), 0
    for wait_ms, value in steps:
        now_ms += wait_ms
        assert abs(rate.throttle_ms(limit, now_ms) - model.throttle_ms(limit, now_ms)) <= 1
        rate.record(value, now_ms)
        model.values.append((now_ms, value))
        assert abs(rate.throttle_ms(limit, now_ms) - model.throttle_ms(limit, now_ms)) <= 1


@pytest.mark.parametrize(
    ("size", "at_ms", "expected_ms"),
    [
        (10_000, 0, 0),  # ten complete windows of 1,000 bytes
        (11_000, 0, 1_000),
        (20_000, 0, 10_000),
        (11_000, 500, 500),
        (11_000, 1_000, 1_000),  # one window is complete, nine are taken as such
    ],
)
def test_throttle_times_of_kafkas_formula(size: int, at_ms: int, expected_ms: int) -> None:
    rate = Rate(WINDOWS, WINDOW_MS)
    rate.record(size, 0)
    assert rate.throttle_ms(1_000, at_ms) == expected_ms


def test_a_client_that_obeys_is_within_its_quota() -> None:
    """A producer that waits as it is told sends its quota over a minute, and a first burst."""
    quota, quotas = ByteQuota(KEY, WINDOWS, WINDOW_MS), quota_of("user", "u", 1_000_000)
    now_ms, sent = 0, 0
    while now_ms < 120_000:
        sent += 100_000
        now_ms += max(1, quota.record(quotas, ("u", "c"), 100_000, now_ms))
    assert 0.95 * 120_000_000 <= sent <= 1.05 * 120_000_000 + 10_000_000


def test_bytes_that_are_not_sent_do_not_count() -> None:
    quota, quotas = ByteQuota(KEY, WINDOWS, WINDOW_MS), quota_of("user", "u", 10)
    assert quota.record(quotas, ("u", "c"), 1_000, 0, unless_throttled=True) > 0
    assert quota.record(quotas, ("u", "c"), 100, 0, unless_throttled=True) == 0
    assert quota.most_at_once(quotas, ("u", "c")) == 100
    assert quota.most_at_once(quotas, ("v", "c")) is None


def test_unused_rates_are_forgotten() -> None:
    quota, quotas = ByteQuota(KEY, WINDOWS, WINDOW_MS), quota_of("client-id", None, 10)
    for number in range(100):
        quota.record(quotas, ("u", f"c{number}"), 1, 0)
    assert len(quota.usages) == 100
    quota.record(quotas, ("u", "d"), 1, UNUSED_MS + SWEEP_MS)
    assert len(quota.usages) == 1


def test_a_quota_that_is_set_again_starts_anew() -> None:
    """A removed quota takes along what its clients have used, and nothing of other quotas."""
    quota = ByteQuota(KEY, WINDOWS, WINDOW_MS)
    quotas = quota_of("user", "u", 10) | quota_of("client-id", "c", 10)
    for client in (("u", "d"), ("v", "c")):
        assert quota.record(quotas, client, 1_000, 0) > 0
    quota.usages.forget((("user", "u"),))
    assert quota.record(quotas, ("u", "d"), 1, 0) == 0
    assert quota.record(quotas, ("v", "c"), 1, 0) > 0


@pytest.mark.parametrize(
    ("at_ms", "average_ms"),
    [
        (SPAN_MS, 200),
        (2 * SPAN_MS - 1, 200),
        (2 * SPAN_MS, 300),  # the first span is forgotten
        (3 * SPAN_MS, 0),
        (10 * SPAN_MS, 0),
    ],
)
def test_throttle_times_are_averaged_over_one_to_two_spans(at_ms: int, average_ms: float) -> None:
    times = ThrottleTimes()
    assert times.average_ms(0) == 0
    times.add(100, 1)
    times.add(200, SPAN_MS - 1)
    times.add(300, SPAN_MS)
    assert times.average_ms(at_ms) == average_ms
