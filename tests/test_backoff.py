"""Backoff: the wait before the next attempt."""

from __future__ import annotations

from kraftlog.backoff import Backoff


def test_the_wait_doubles_up_to_its_maximum_and_is_reset_by_a_success() -> None:
    backoff = Backoff(50, 500)
    assert [backoff.next_ms() for _ in range(6)] == [50, 100, 200, 400, 500, 500]
    backoff.reset()
    assert backoff.next_ms() == 50
