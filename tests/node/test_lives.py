"""What plausible requests leave in the logs, all who read them replay alike (see `lives`)."""

from __future__ import annotations

from random import Random

import pytest

from tests.node.lives import Life

LIVES, STEPS = 4, 100


@pytest.mark.parametrize("first", range(0, 60, LIVES))
def test_what_requests_leave_is_replayed_by_all(first: int) -> None:
    for seed in range(first, first + LIVES):
        Life(Random(seed)).go_on(STEPS)
