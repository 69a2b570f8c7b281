"""Invalid arguments: the error has the argument's name, its value and what is expected.

No broker listens at the client's address: a request would raise another error.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog import Client
from kraftlog.client.arguments import time_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

A_DICT = 'expected a dict such as {("a-topic", 0): 42}'
A_NUMBER = "expected a whole number"
MAX_INT64 = "9223372036854775807"
AN_OFFSET = f"expected 0 to {MAX_INT64}"
A_PAIR = 'expected a topic and a partition: ("a-topic", 0)'
A_COLLECTION = 'expected a collection such as [("a-topic", 0)]'

#: Untyped, so that mypy accepts wrong arguments.
untyped: Any = Client

INVALID_CALLS: list[tuple[Callable[[Any], object], str]] = [
    (lambda c: c.create_topic("t", "3"), "partitions '3': expected a whole number"),
    (lambda c: c.create_topic("t", 1.5), "partitions 1.5: expected a whole number"),
    (lambda c: c.create_topic("t", True), "partitions True: expected a whole number"),
    (lambda c: c.create_topic("t", -5), "partitions -5: expected -1 to 2147483647"),
    (lambda c: c.create_topic("t", 1, "1"), "replication_factor '1': expected a whole number"),
    (lambda c: c.create_topic(None), "topic None: expected a str"),
    (
        lambda c: c.create_topic("t", configs=["retention.ms=5"]),
        "configs ['retention.ms=5']: expected a dict such as {\"retention.ms\": 60_000}",
    ),
    (
        lambda c: c.create_topic("t", assignment=[[1]]),
        "assignment [[1]]: expected a dict such as {0: [1, 2]}",
    ),
    (lambda c: c.delete_topic(["t"]), "topic ['t']: expected a str"),
    (lambda c: c.describe_topics("t"), "names 't': expected a collection such as [\"a-topic\"]"),
    (lambda c: c.create_partitions("t", "5"), "count '5': expected a whole number"),
    (lambda c: c.create_partitions("t", 0), "count 0: expected 1 to 2147483647"),
    (lambda c: c.remove_partitions("t", 0), "count 0: expected 1 to 2147483647"),
    (lambda c: c.produce(b"t", "x"), "topic b't': expected a str"),
    (lambda c: c.produce("t", "x", partition="0"), "partition '0': expected a whole number"),
    (lambda c: c.produce("t", "x", timestamp_ms="now"), f"timestamp_ms 'now': {A_NUMBER}"),
    (lambda c: c.producer(batch_size="big"), "batch_size 'big': expected a whole number"),
    (lambda c: c.consume(None), "topics None: expected a collection such as [\"a-topic\"]"),
    (lambda c: c.consume("t", partitions=0), "partitions 0: expected a collection such as [0, 1]"),
    (lambda c: c.consume("t", group=5), "group 5: expected a str"),
    (lambda c: c.consume("t", at_ms="today"), "at_ms 'today': expected a whole number"),
    (lambda c: c.consume("t", timeout_s="5"), "timeout_s '5': expected a number of seconds"),
    (lambda c: c.offsets("t", partitions=["0"]), "partitions '0': expected a whole number"),
    (lambda c: c.delete_records([("t", 0)]), f"offsets [('t', 0)]: {A_DICT}"),
    (
        lambda c: c.delete_records({("t", 0): -2}),
        f"offsets of t-0 -2: expected -1 to {MAX_INT64}",
    ),
    (lambda c: c.describe_group(None), "group None: expected a str"),
    (lambda c: c.committed("g", "t"), f"partitions 't': {A_COLLECTION}"),
    (lambda c: c.committed("g", ["t"]), f"partitions: 't': {A_PAIR}"),
    (lambda c: c.reset_offsets("g", "t"), f"offsets 't': {A_DICT}"),
    (lambda c: c.reset_offsets("g", {"t": 0}), f"offsets: 't': {A_PAIR}"),
    (lambda c: c.reset_offsets("g", [("t", 0, 5)]), f"offsets [('t', 0, 5)]: {A_DICT}"),
    (lambda c: c.reset_offsets("g", {("t", 0): "5"}), f"offsets of t-0 '5': {A_NUMBER}"),
    (lambda c: c.reset_offsets("g", {("t", 0): -5}), f"offsets of t-0 -5: {AN_OFFSET}"),
    (lambda c: c.delete_offsets("g", "t"), f"partitions 't': {A_COLLECTION}"),
    (
        lambda c: c.alter_configs("topics", "t", ["retention.ms=5"]),
        "changes ['retention.ms=5']: expected a dict such as {\"retention.ms\": 60_000}",
    ),
    (lambda c: c.describe_configs("brokers", "x"), "broker 'x': expected its number"),
    (lambda c: c.unregister_broker("1"), "broker '1': expected a whole number"),
    (lambda c: c.unregister_controller("1"), "controller '1': expected a whole number"),
    (lambda c: c.log_dirs(1), "brokers 1: expected a collection such as [0, 1]"),
    (
        lambda c: c.update_features(["metadata.version"]),
        "levels ['metadata.version']: expected a dict such as {\"metadata.version\": 30}",
    ),
    (
        lambda c: c.request("Metadata", None, "t"),
        "message 't': expected a MetadataRequest of kraftlog.wire.messages",
    ),
    (lambda _: untyped(None), "servers None: expected a str such as 'localhost:9092'"),
    (lambda _: untyped(["a:1"]), "servers ['a:1']: expected a str such as 'localhost:9092'"),
    (lambda _: untyped("http://localhost:9092"), "'http://localhost:9092': expected host:port"),
    (lambda _: untyped("localhost:99999"), "'localhost:99999': expected host:port"),
    (lambda _: untyped(client_id=5), "client_id 5: expected a str"),
    (lambda _: untyped(timeout_s="5"), "timeout_s '5': expected a number of seconds"),
    (lambda _: untyped(timeout_s=-1), "timeout_s -1: expected at least 0"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("invalid_call", "expected"),
    INVALID_CALLS,
    ids=[expected[:40] for _, expected in INVALID_CALLS],
)
def test_invalid_arguments_are_refused_before_connecting(
    invalid_call: Callable[[Any], object], expected: str
) -> None:
    with (
        Client("127.0.0.1:1") as client,
        pytest.raises((TypeError, ValueError)) as raised,
    ):
        invalid_call(client)
    assert str(raised.value) == expected


@pytest.fixture
def new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The time zone of a machine that is not in UTC."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "America/New_York")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("new_york")
@pytest.mark.parametrize(
    ("given", "ms"),
    [
        ("2026-01-31T12:00", 1_769_860_800_000),
        ("2026-01-31T12:00:00.005", 1_769_860_800_005),
        ("2026-01-31T12:00Z", 1_769_860_800_000),
        ("2026-01-31T14:00+02:00", 1_769_860_800_000),
        ("2026-01-31", 1_769_817_600_000),
    ],
)
def test_a_time_without_a_zone_is_in_utc(given: str, ms: int) -> None:
    """As in `kafka-consumer-groups --to-datetime`, whatever the time zone of the machine."""
    assert time_ms(given) == ms
