"""Quotas of the time that requests take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraftlog.quotas.time_quota import TimeQuota

if TYPE_CHECKING:
    from kraftlog.quotas.limits import Entity

WINDOWS, WINDOW_MS = 11, 1000
QUOTAS: dict[Entity, dict[str, float]] = {(("user", "u"),): {"request_percentage": 1.0}}
#: One percent of the ten windows that count as complete.
BURST_NS = 100_000_000


def test_a_client_has_its_percentage_of_a_thread() -> None:
    quota = TimeQuota(WINDOWS, WINDOW_MS)
    assert quota.record(QUOTAS, ("u", "c"), BURST_NS, 0) == 0
    assert quota.record(QUOTAS, ("u", "c"), 1_000_000, 0) == 100  # the time of which 1 ms is 1%
    assert quota.record(QUOTAS, ("v", "c"), 100 * BURST_NS, 0) == 0


def test_nobody_is_throttled_for_longer_than_a_window() -> None:
    quota = TimeQuota(WINDOWS, WINDOW_MS)
    assert quota.record(QUOTAS, ("u", "c"), 100 * BURST_NS, 0) == WINDOW_MS


def test_a_client_that_obeys_gets_its_percentage() -> None:
    """Each request takes 5 ms; with 1%, one in half a second."""
    quota, now_ms, spent_ms = TimeQuota(WINDOWS, WINDOW_MS), 0, 0
    while now_ms < 120_000:
        spent_ms += 5
        now_ms += 5 + quota.record(QUOTAS, ("u", "c"), 5_000_000, now_ms)
    assert 0.9 * 1_200 <= spent_ms <= 1.1 * 1_200 + 100


def test_a_quota_that_is_set_again_starts_anew() -> None:
    quota = TimeQuota(WINDOWS, WINDOW_MS)
    assert quota.record(QUOTAS, ("u", "c"), 2 * BURST_NS, 0) > 0
    quota.usages.forget((("user", "u"),))
    assert quota.record(QUOTAS, ("u", "c"), BURST_NS, 0) == 0
