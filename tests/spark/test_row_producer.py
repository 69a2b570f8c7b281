"""The sink's rows become records: partitions, timestamps, headers, size limits; without Spark."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import chain, pairwise
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from kraftlog.client.batch_sender import BatchSender
from kraftlog.errors import ConfigError
from kraftlog.spark.row_producer import RowProducer
from kraftlog.spark.sink_columns import check_columns
from kraftlog.spark.sink_options import SinkOptions, sink_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kraftlog import Client
    from kraftlog.client.model import ConsumedRecord

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}


def write(
    client: Client, options: Mapping[str, str], *batches: Mapping[str, object], task: str = ""
) -> None:
    parsed = sink_options(SERVERS | dict(options))
    sender = BatchSender(client.cluster, is_idempotent=parsed.is_idempotent)
    try:
        producer = RowProducer(client.cluster, sender, parsed, task)
        for batch in batches:
            producer.add(pa.record_batch(dict(batch)))
        producer.flush()
    finally:
        sender.close()


def read(client: Client, *topics: str) -> list[ConsumedRecord]:
    found = []
    for topic in topics:
        with client.consume(topic, start="beginning", until_end=True) as records:
            found += list(records)
    return found


def values(records: Iterable[ConsumedRecord]) -> list[bytes | None]:
    return [record.value for record in records]


def test_keys_get_the_partitions_that_the_producer_chooses(
    client: Client, named: Callable[[str], str]
) -> None:
    sink_topic, producer_topic = named("sink"), named("producer")
    keys = [f"key {number % 50}" for number in range(300)]
    for topic in (sink_topic, producer_topic):
        client.create_topic(topic, partitions=5)
    with client.producer() as producer:
        for number, key in enumerate(keys):
            producer.send(producer_topic, f"{number}", key=key)

    write(client, {"topic": sink_topic}, {"key": keys, "value": [f"{n}" for n in range(300)]})

    def positions(topic: str) -> set[tuple[int, int, bytes | None, bytes | None]]:
        return {(r.partition, r.offset, r.key, r.value) for r in read(client, topic)}

    assert positions(sink_topic) == positions(producer_topic)
    assert len(positions(sink_topic)) == 300


def test_a_row_sets_topic_partition_time_and_headers(
    client: Client, named: Callable[[str], str]
) -> None:
    a, b = named("a"), named("b")
    client.create_topic(a, partitions=3)
    client.create_topic(b, partitions=2)
    when = datetime(2026, 5, 1, 12, 0, 0, 123000, tzinfo=UTC)

    write(
        client,
        {},
        {
            "topic": [a, b, a],
            "partition": pa.array([2, 1, 0], pa.int32()),
            "key": pa.array([None, b"k", b""]),
            "value": pa.array(["text", None, ""]),
            "timestamp": pa.array([when] * 3, pa.timestamp("us", tz="UTC")),
            "headers": pa.array([[{"key": "h", "value": b"1"}], None, []], HEADERS),
            "offset": [7, 8, 9],
        },
    )

    assert [
        (r.topic, r.partition, r.key, r.value, [*r.headers], r.timestamp_ms)
        for r in sorted(read(client, a, b), key=lambda r: (r.topic, -r.partition))
    ] == [
        (a, 2, None, b"text", [("h", b"1")], 1777636800123),
        (a, 0, b"", b"", [], 1777636800123),
        (b, 1, b"k", None, [], 1777636800123),
    ]


def test_rows_without_a_key_fill_one_partition_after_the_other(
    client: Client, named: Callable[[str], str]
) -> None:
    topic = named("t")
    client.create_topic(topic, partitions=3)

    write(
        client,
        {"topic": topic, "kafka.batch.size": "5000"},
        {"value": [f"{number:04}".ljust(100) for number in range(300)]},
    )

    by_partition: dict[int, list[int]] = {}
    for record in read(client, topic):
        by_partition.setdefault(record.partition, []).append(int(record.value or b""))
    assert sorted(chain(*by_partition.values())) == list(range(300))
    assert len(by_partition) == 3
    for numbers in by_partition.values():
        assert numbers == sorted(numbers)
        # Consecutive rows share a batch, and so a partition; only the next batch may go elsewhere.
        assert sum(after != before + 1 for before, after in pairwise(numbers)) < 5


def test_keys_can_be_ignored_by_option(client: Client, named: Callable[[str], str]) -> None:
    topic = named("t")
    client.create_topic(topic, partitions=3)

    write(
        client,
        {"topic": topic, "kafka.partitioner.ignore.keys": "true"},
        {"key": [f"{number}" for number in range(30)], "value": ["v"] * 30},
    )

    assert len({record.partition for record in read(client, topic)}) == 1


def test_batches_respect_a_small_limit_of_the_topic(
    client: Client, named: Callable[[str], str]
) -> None:
    topic = named("t")
    client.create_topic(topic, partitions=1, configs={"max.message.bytes": "2000"})

    write(client, {"topic": topic}, {"value": [f"{n:03}".ljust(500) for n in range(40)]})

    assert [int(value or b"") for value in values(read(client, topic))] == list(range(40))


def test_each_record_has_task_and_row_number_in_a_header(
    client: Client, named: Callable[[str], str]
) -> None:
    topic = named("t")
    client.create_topic(topic, partitions=1)

    write(
        client,
        {"topic": topic},
        {"value": ["a"], "headers": pa.array([[{"key": "h", "value": None}]], HEADERS)},
        {"value": ["b"], "headers": pa.array([None], HEADERS)},
        task="q:3:0",
    )

    assert [[*record.headers] for record in read(client, topic)] == [
        [("h", None), ("kraftlog.batch", b"q:3:0:0")],
        [("kraftlog.batch", b"q:3:0:1")],
    ]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"topic": [None], "value": ["v"]}, "a row has no topic"),
        ({"partition": pa.array([3], pa.int32()), "value": ["v"]}, "it has 3 partitions, 0 to 2"),
        ({"partition": pa.array([-1], pa.int32()), "value": ["v"]}, "partition -1: expected at"),
        (
            {"timestamp": pa.array([-1000], pa.timestamp("us", tz="UTC")), "value": ["v"]},
            "timestamp -1 ms: expected a time from 1970 on",
        ),
    ],
)
def test_an_invalid_row_is_refused(
    client: Client, named: Callable[[str], str], rows: dict[str, object], message: str
) -> None:
    topic = named("t")
    client.create_topic(topic, partitions=3)
    options = {} if "topic" in rows else {"topic": topic}

    with pytest.raises(ConfigError, match=message):
        write(client, options, rows)

    assert read(client, topic) == []


PLAIN = {"key": "binary", "value": "string", "topic": "string", "offset": "bigint"}


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ({"key": "string", "topic": "string"}, "a column value is required; the columns are key"),
        ({"value": "string"}, "set the option topic, or give the rows a column topic"),
        (PLAIN | {"value": "int"}, "column value is of type int; expected string or binary"),
        (PLAIN | {"key": "bigint"}, "column key is of type bigint; expected string or binary"),
        (PLAIN | {"topic": "binary"}, "column topic is of type binary; expected string"),
        (PLAIN | {"partition": "bigint"}, "column partition is of type bigint; expected int"),
        (PLAIN | {"headers": "string"}, "column headers is of type string; expected array<struct"),
    ],
)
def test_missing_columns_and_columns_of_wrong_type_are_refused(
    types: dict[str, str], message: str
) -> None:
    check_columns(PLAIN, SinkOptions("localhost:9092"))

    with pytest.raises(ConfigError, match=message):
        check_columns(types, SinkOptions("localhost:9092"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kafka.acks": "2"}, "option kafka.acks=2: expected 0, 1, -1, all"),
        ({"kafka.acks": "1", "kafka.enable.idempotence": "true"}, "idempotence=true needs acks"),
        ({"kafka.compression.type": "brotli"}, "expected none, gzip, snappy, lz4, zstd"),
        ({"kafka.max.in.flight.requests.per.connection": "6"}, "at most 5 with idempotence"),
        ({"kafka.batch.size": "big"}, "option kafka.batch.size=big: expected a whole number"),
        ({"kafka.transactional.id": "t"}, "kafka.transactional.id can't be set"),
        ({"kafka.key.serializer": "x.Y"}, "kafka.key.serializer can't be set"),
        ({"kafka.partitioner.class": "x.Y"}, "set the column partition instead"),
        ({"kafka.security.protocol": "SASL_SSL"}, "option kafka.sasl.mechanism=GSSAPI"),
        ({"topic": " "}, "expected the name of a topic"),
    ],
)
def test_unsupported_sink_options_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        sink_options(SERVERS | options)


def test_options_have_kafkas_names_and_defaults() -> None:
    plain = sink_options(SERVERS)
    chosen = sink_options(
        SERVERS
        | {
            "TOPIC": "t",
            "kafka.acks": "1",
            "kafka.compression.type": "zstd",
            "kafka.compression.zstd.level": "7",
            "kafka.batch.size": "100000",
            "kafka.linger.ms": "5",
            "kafka.delivery.timeout.ms": "5000",
        }
    )

    assert (plain.acks, plain.is_idempotent, plain.compression) == ("all", True, "none")
    assert (plain.delivery_timeout_s, plain.request_timeout_s) == (120.0, 30.0)
    assert chosen.topic == "t"
    assert (chosen.acks, chosen.is_idempotent, chosen.delivery_timeout_s) == ("1", False, 5.0)
    assert (chosen.compression, chosen.level, chosen.batch_bytes) == ("zstd", 7, 100000)


def test_a_batch_size_of_0_turns_batching_off() -> None:
    """A batch has at least one record, also if that is larger than the limit."""
    assert sink_options(SERVERS | {"kafka.batch.size": "0"}).batch_bytes == 1
