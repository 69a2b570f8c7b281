"""Metrics of quotas: what clients use, and how long they are throttled."""

from __future__ import annotations

from itertools import islice

from kraftlog.node.metrics.family import GAUGE, Family
from kraftlog.quotas.limits import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraftlog.node.metrics.family import Samples
    from kraftlog.node.node import Node
    from kraftlog.quotas.usages import Usage
    from kraftlog.types import Now

#: The most series of a family: a default quota may have thousands of clients.
MAX_SERIES = 200


def _family(
    name: str, help_text: str, key: str, value: Callable[[Usage, float, int], float]
) -> Family:
    """A sample for each user and client id that share a quota; an empty label stands for all."""

    def measure(node: Node, now: Now) -> Samples:
        usages = node.client_quotas.usages(key)
        for (user, client_id), limit, usage in islice(usages.each(node.image.quotas), MAX_SERIES):
            labels = ("user", user or ""), ("client_id", client_id or "")
            yield labels, value(usage, limit, now.monotonic_ms)

    return Family(f"kafka_server_{name}", GAUGE, help_text, measure)


def _rate(usage: Usage, _: float, now_ms: int) -> float:
    rate: float = usage.used.per_second(now_ms)
    return rate


def _tokens(usage: Usage, limit: float, now_ms: int) -> float:
    tokens: float = usage.used.tokens(limit, now_ms)
    return tokens


def _throttle_time(usage: Usage, _: float, now_ms: int) -> float:
    return usage.throttles.average_ms(now_ms)


_THROTTLED = "Average throttle time of a client, in ms, of the last 30 to 60 s."

FAMILIES = (
    _family("produce_byte_rate", "Bytes per second produced.", PRODUCER_BYTE_RATE, _rate),
    _family("produce_throttle_time", _THROTTLED, PRODUCER_BYTE_RATE, _throttle_time),
    _family("fetch_byte_rate", "Bytes per second fetched.", CONSUMER_BYTE_RATE, _rate),
    _family("fetch_throttle_time", _THROTTLED, CONSUMER_BYTE_RATE, _throttle_time),
    _family("request_request_time", "Percent of the loop's time.", REQUEST_PERCENTAGE, _rate),
    _family("request_throttle_time", _THROTTLED, REQUEST_PERCENTAGE, _throttle_time),
    _family(
        "controllermutation_tokens",
        "Partitions that a client may create or delete at once, on the active controller.",
        CONTROLLER_MUTATION_RATE,
        _tokens,
    ),
    _family(
        "controllermutation_throttle_time", _THROTTLED, CONTROLLER_MUTATION_RATE, _throttle_time
    ),
)
