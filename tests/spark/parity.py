"""Fills topics and reads them, to compare our source with Spark's own Kafka connector."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer

from kraftlog import Client
from kraftlog.client.deadline import Deadline
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

OURS = "kraftlog"
#: The timestamp of the first record; the following ones are a second apart.
T0_MS = 1_700_000_000_000
MIXED, COMPACTED, APPENDED = "parity.mixed", "parity.compacted", "parity.appended"
#: Partitions of `MIXED`: all codecs and headers; transactions, or deleted records; no records; one
#: batch, of which the first records are deleted.
CODECS, TRANSACTIONS, EMPTY, PLAIN = range(4)
#: The log start of `PLAIN`, after the deleted records.
PLAIN_START = 4
ALL = f"{MIXED},{COMPACTED},{APPENDED}"
_KEYS = 5
#: Names of headers that are not UTF-8: lone surrogates, truncated, overlong, beyond Unicode.
NOT_UTF8 = [
    name.decode("utf-8", "surrogateescape")
    for name in (
        *(b"\xff\xfea", b"a\x80", b"\xe2\x82", b"\xe2\x82a", b"\xe0\x80\x80", b"\xc0\x80"),
        *(
            b"\xed\xa0",
            b"\xed\xa0\x80",
            b"\xed\xa0\x80\xed\xb0\x80",
            b"\xed\xbf\xbfa",
            b"\xed\xa0a",
        ),
        *(b"\xed", b"\xed\x9f", b"\xf0\x9f\x98", b"\xf4\x90\x80\x80", b"\xf8\x88\x80\x80\x80"),
    )
]


def read(
    spark: SparkSession, source: str, address: str, options: Mapping[str, str]
) -> list[tuple[object, ...]]:
    return ordered(
        spark.read.format(source)
        .option("kafka.bootstrap.servers", address)
        .options(**options)
        .load()
    )


def ordered(frame: DataFrame) -> list[tuple[object, ...]]:
    rows = frame.collect()
    return [tuple(row) for row in sorted(rows, key=lambda r: (r.topic, r.partition, r.offset))]


def stream(
    spark: SparkSession, source: str, address: str, folder: Path, **options: str
) -> StreamingQuery:
    """Stream all available records into Parquet files of `folder`; return the ended query."""
    query = (
        spark.readStream.format(source)
        .option("kafka.bootstrap.servers", address)
        .options(**options)
        .load()
        .writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "rows"))
    )
    query.awaitTermination()
    return query


def offsets(query: StreamingQuery) -> list[tuple[Any, Any]]:
    """The start and end offsets of each batch with rows."""
    sources = [json.loads(each.json)["sources"][0] for each in query.recentProgress]
    return [(each["startOffset"], each["endOffset"]) for each in sources if each["numInputRows"]]


def fill(address: str, *, has_transactions: bool) -> None:
    """Create the three topics, with all kinds of records and batches."""
    with Client(address, timeout_s=LIMIT_S) as client:
        client.create_topic(MIXED, partitions=4)
        client.create_topic(
            APPENDED, partitions=1, configs={"message.timestamp.type": "LogAppendTime"}
        )
        times = iter(range(T0_MS, T0_MS + 10_000_000, 1000))
        _write_codecs(client, times)
        if has_transactions:
            _write_transactions(address)
        else:
            write(client, MIXED, 30, TRANSACTIONS)
            client.delete_records({(MIXED, TRANSACTIONS): 7})
        write(client, MIXED, 20, PLAIN)
        client.delete_records({(MIXED, PLAIN): PLAIN_START})
        write(client, APPENDED, 5, 0)
        _write_compacted(client)


def write(client: Client, topic: str, count: int, partition: int = 0) -> None:
    with client.producer() as producer:
        for number in range(count):
            producer.send(
                topic, f"value {number}", partition=partition, timestamp_ms=T0_MS + number * 1000
            )


def _write_codecs(client: Client, times: Iterator[int]) -> None:
    values: list[tuple[bytes | None, bytes | None]] = [
        (None, None),
        (b"", b""),
        (b"\xff\x00", b"x" * 300),
        ("größe".encode(), b"y"),
    ]
    headers: list[list[tuple[str, bytes | str | None]]] = [
        [],
        [("a", b"1"), ("a", b"2")],
        [("größe", b"\xff"), *[(name, None) for name in NOT_UTF8]],
        [("none", None), ("", b"")],
    ]
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        with client.producer(compression=codec) as producer:
            for key, value in values:
                for record_headers in headers:
                    producer.send(
                        MIXED,
                        value,
                        key=key,
                        partition=CODECS,
                        headers=record_headers,
                        timestamp_ms=next(times),
                    )


def _write_transactions(address: str) -> None:
    """Write committed and aborted transactions alternately."""
    producer = Producer({"bootstrap.servers": address, "transactional.id": MIXED})
    producer.init_transactions()
    for number in range(4):
        producer.begin_transaction()
        for record in range(5):
            producer.produce(
                MIXED,
                b"%d-%d" % (number, record),
                partition=TRANSACTIONS,
                timestamp=T0_MS + 1000 * (5 * number + record),
            )
        assert producer.flush(LIMIT_S) == 0
        if number % 2:
            producer.abort_transaction()
        else:
            producer.commit_transaction()


def _write_compacted(client: Client) -> None:
    """Create a topic whose offsets have gaps: the cleaner has removed older records of its keys."""
    settings = {
        "cleanup.policy": "compact",
        "internal.segment.bytes": "2000",
        "min.cleanable.dirty.ratio": "0.01",
    }
    client.create_topic(COMPACTED, partitions=1, configs=settings)
    client.alter_configs("brokers", "", {"log.cleaner.backoff.ms": 20})
    for number in range(40):
        with client.producer() as producer:  # its records are one batch
            for key in range(_KEYS):
                time_ms = T0_MS + 1000 * (_KEYS * number + key)
                producer.send(COMPACTED, "v" * 40, key=f"{key}", timestamp_ms=time_ms)
    deadline = Deadline(LIMIT_S)
    while _count(client, COMPACTED) == 40 * _KEYS:
        assert not deadline.is_over
        deadline.pause(0.05)
    client.alter_configs("brokers", "", {"log.cleaner.backoff.ms": None})
    # No more compaction, so that both sources read the same records.
    client.alter_configs("topics", COMPACTED, {"cleanup.policy": "delete"})


def _count(client: Client, topic: str) -> int:
    with client.consume(topic, "beginning", until_end=True) as records:
        return sum(1 for _ in records)
