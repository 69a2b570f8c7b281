"""Waits for brokers to apply a change of the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraftlog.client.deadline import Deadline
from tests.patience import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable


def until(ask: Callable[[], object], expected: object) -> None:
    """Repeat `ask` until it returns `expected`; return the last result for the assertion."""
    deadline = Deadline(LIMIT_S)
    while (outcome := ask()) != expected and not deadline.is_over:
        deadline.pause(0.01)
    assert outcome == expected
