"""Brokers follow the controller's log: what was ordered is seen a moment later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraftlog.client.deadline import Deadline
from tests.patience import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable


def until(ask: Callable[[], object], expected: object) -> None:
    """Ask again until the answer is what it should be; the last one is what a failure shows."""
    deadline = Deadline(LIMIT_S)
    while (outcome := ask()) != expected and not deadline.is_over:
        deadline.pause(0.01)
    assert outcome == expected
