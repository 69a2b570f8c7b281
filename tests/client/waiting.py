"""Waits for brokers to apply a change of the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraftlog.client.deadline import Deadline
from kraftlog.errors import ErrorCode, RefusedError
from tests.patience import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraftlog import Client
    from kraftlog.client.model import Partition


def until(ask: Callable[[], object], expected: object) -> None:
    """Repeat `ask` until it returns `expected`; return the last result for the assertion."""
    deadline = Deadline(LIMIT_S)
    while (outcome := ask()) != expected and not deadline.is_over:
        deadline.pause(0.01)
    assert outcome == expected


def partitions_of(client: Client, topic: str) -> list[Partition]:
    """The partitions of a topic; none while the broker that is asked has not replayed it."""
    try:
        return list(client.describe_topic(topic).partitions)
    except RefusedError as error:
        if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return []
