"""Waits until brokers have applied what the controller has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraftlog.client.deadline import Deadline
from kraftlog.errors import ErrorCode, RefusedError
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraftlog import Client
    from kraftlog.client.model import Partition


def until(request_result: Callable[[], object], expected: object) -> None:
    """Repeat `request_result` until it returns `expected`; fail after LIMIT_S."""
    deadline = Deadline(LIMIT_S)
    while (result := request_result()) != expected and not deadline.is_over:
        deadline.pause(0.01)
    assert result == expected


def partitions_of(client: Client, topic: str) -> list[Partition]:
    """The partitions of a topic; none until the broker has replayed its creation."""
    try:
        return list(client.describe_topic(topic).partitions)
    except RefusedError as error:
        if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return []
