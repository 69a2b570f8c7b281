"""Rates of new connections: of the node, its listeners, and addresses."""

from __future__ import annotations

import pytest

from kraftlog.quotas.connection_rates import ConnectionRates

WINDOWS, WINDOW_MS = 11, 1000
ADDRESS, OTHERS = (("ip", "10.0.0.1"),), (("ip", None),)


def accepted_in(rates: ConnectionRates, limits: dict[str, float], seconds: int) -> int:
    """How many connections are accepted if there is always another one that waits."""
    now_ms, accepted = 0, 0
    while now_ms < 1000 * seconds:
        wait_ms = rates.wait_ms(limits, now_ms)
        now_ms += wait_ms
        if not wait_ms:
            rates.accepted(limits, now_ms)
            accepted += 1
    return accepted


@pytest.mark.parametrize("limit", [1, 5, 100])
def test_accepted_connections_are_the_rate_and_a_first_burst(limit: int) -> None:
    rates = ConnectionRates(WINDOWS, WINDOW_MS)
    assert 55 * limit <= accepted_in(rates, {"a": limit}, 60) <= 60 * limit + 10 * limit + 1


def test_the_lowest_of_several_rates_counts() -> None:
    rates = ConnectionRates(WINDOWS, WINDOW_MS)
    assert accepted_in(rates, {"": 2, "a": 50}, 30) <= 30 * 2 + 20 + 1
    assert rates.wait_ms({"a": 50}, 30_000) == 0
    assert rates.wait_ms({"": 2, "b": 50}, 30_000) > 0


def test_who_asks_again_and_again_waits_no_longer() -> None:
    rates = ConnectionRates(WINDOWS, WINDOW_MS)
    for _ in range(10):
        rates.accepted({"a": 1}, 0)
    for now_ms in range(0, 10_000, 10):
        assert rates.wait_ms({"a": 1}, now_ms) > 0
    assert rates.wait_ms({"a": 1}, WINDOWS * WINDOW_MS) == 0


@pytest.mark.parametrize("limit", [0, 1e-9])
def test_nobody_waits_longer_than_a_window(limit: float) -> None:
    rates = ConnectionRates(WINDOWS, WINDOW_MS)
    rates.accepted({"a": limit}, 0)
    assert rates.wait_ms({"a": limit}, 0) == WINDOW_MS


def test_connections_of_throttled_addresses_do_not_count() -> None:
    rates = ConnectionRates(WINDOWS, WINDOW_MS)
    for _ in range(10):
        assert rates.address_wait_ms(ADDRESS, "10.0.0.1", 1, 0) == 0
    for _ in range(100):
        assert rates.address_wait_ms(ADDRESS, "10.0.0.1", 1, 0) == WINDOW_MS
    assert rates.address_wait_ms(ADDRESS, "10.0.0.1", 1, WINDOWS * WINDOW_MS) == 0


def test_addresses_under_the_default_have_rates_of_their_own() -> None:
    rates = ConnectionRates(WINDOWS, WINDOW_MS)
    for host in ("10.0.0.2", "10.0.0.3"):
        for _ in range(10):
            assert rates.address_wait_ms(OTHERS, host, 1, 0) == 0
        assert rates.address_wait_ms(OTHERS, host, 1, 0) > 0
    rates.addresses.forget(OTHERS)
    assert rates.address_wait_ms(OTHERS, "10.0.0.2", 1, 0) == 0
