"""Backoff: the wait before the next attempt."""

from __future__ import annotations

from kraftlog.backoff import Backoff


def test_a_backoff_doubles_up_to_the_longest_until_a_success() -> None:
    backoff = Backoff(50, 500)
    assert [backoff.next_ms() for _ in range(6)] == [50, 100, 200, 400, 500, 500]
    backoff.reset()
    assert backoff.next_ms() == 50
