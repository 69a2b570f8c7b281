"""Transactions of Apache Kafka: what is read and archived during one, and after its end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from kraftlog import Client
from kraftlog.spark.lake.delta_table import DeltaArchive
from kraftlog.spark.pipelines import replay
from kraftlog.spark.pipelines.verify import run as verify
from kraftlog.spark.replay.lane import HEADER
from tests.spark.archives import archive, record_positions
from tests.spark.parity import OURS, ordered, read, stream, write
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

#: The transaction timeout, so long that the broker never aborts a transaction by itself.
TIMEOUT_MS = 15 * 60 * 1000
COMMITTED = {"kafka.isolation.level": "read_committed"}
EARLIEST = {"startingOffsets": "earliest"}


@pytest.fixture
def client(kafka: str) -> Iterator[Client]:
    with Client(kafka, timeout_s=LIMIT_S) as connected:
        yield connected


class Transactions:
    """A transactional producer that writes to partition 0 of a topic."""

    def __init__(self, address: str, topic: str) -> None:
        self._topic = topic
        settings = {"bootstrap.servers": address, "transactional.id": topic}
        self._producer = Producer(settings | {"transaction.timeout.ms": TIMEOUT_MS})
        self._producer.init_transactions(LIMIT_S)

    def begin(self, count: int) -> None:
        """Begin a transaction, and write its records to the log."""
        self._producer.begin_transaction()
        for number in range(count):
            self._producer.produce(self._topic, b"%d" % number, partition=0)
        assert self._producer.flush(LIMIT_S) == 0

    def commit(self) -> None:
        self._producer.commit_transaction(LIMIT_S)

    def abort(self) -> None:
        self._producer.abort_transaction(LIMIT_S)


def test_both_sources_stop_at_an_open_transaction(
    spark: SparkSession,
    connector: str,
    kafka: str,
    client: Client,
    named: Callable[[str], str],
    tmp_path: Path,
) -> None:
    """Both end at the last stable offset, even if later records are in no transaction."""
    topic = named("t")
    client.create_topic(topic, partitions=1)
    write(client, topic, 5)
    transactions = Transactions(kafka, topic)
    transactions.begin(3)
    write(client, topic, 2)
    options = {"subscribe": topic, **COMMITTED}

    def read_offsets(source: str) -> list[object]:
        """The offsets of a batch read, and those that a stream has written until now."""
        batch = read(spark, source, kafka, options)
        stream(spark, source, kafka, tmp_path / source, **options, **EARLIEST)
        streamed = ordered(spark.read.parquet(str(tmp_path / source / "rows")))
        assert streamed == batch
        return [row[4] for row in batch]

    assert read_offsets(OURS) == read_offsets(connector) == [*range(5)]
    everything = read(spark, OURS, kafka, {"subscribe": topic})
    assert [row[4] for row in everything] == [*range(10)]

    transactions.commit()
    assert read_offsets(OURS) == read_offsets(connector) == [*range(10)]


@pytest.mark.long
def test_an_archive_has_only_committed_records(
    spark: SparkSession, kafka: str, client: Client, named: Callable[[str], str], tmp_path: Path
) -> None:
    """Each run stops before an open transaction; a replay of the table has the same records."""
    topic, replayed = named("t"), named("again")
    client.create_topic(topic, partitions=1)
    client.create_topic(replayed, partitions=1)
    transactions = Transactions(kafka, topic)
    transactions.begin(5)  # at offsets 0 to 4, with the marker at 5
    transactions.commit()
    transactions.begin(5)  # at 6 to 10, with the marker at 11
    transactions.abort()
    transactions.begin(3)  # at 12 to 14, still open

    def archived() -> list[int]:
        assert archive(kafka, tmp_path, topic) == 0
        assert verify([str(tmp_path), "-b", kafka]) == 0
        return [offset for _, offset in record_positions(tmp_path, topic)]

    assert archived() == [*range(5)]
    assert next_offsets(tmp_path, topic) == {0: 12}
    transactions.commit()
    assert archived() == [*range(5), *range(12, 15)]
    assert next_offsets(tmp_path, topic) == {0: 16}

    for _ in range(2):  # the second run has nothing to do
        assert replay.run([str(tmp_path / topic), "--to", replayed, "-b", kafka]) == 0
    with client.consume(replayed, start="beginning", until_end=True) as records:
        positions = [dict(record.headers)[HEADER] for record in records]
    assert [json.loads(position or b"")["offset"] for position in positions] == archived()


def next_offsets(lake: Path, topic: str) -> dict[int, int]:
    table = DeltaArchive.open(str(lake), topic)
    assert table is not None
    return dict(table.state.offsets)
