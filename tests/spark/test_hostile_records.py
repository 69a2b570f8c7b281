"""No record stops an archive or is lost: odd times, headers, keys and values."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from kraftlog import Client
from kraftlog.client.range_reader import FetchedBatches
from kraftlog.records.builder import BatchBuilder
from kraftlog.records.header import BatchHeader
from kraftlog.records.walk import walk
from kraftlog.spark.lake.files import FileWriter
from kraftlog.spark.pipelines.verify import run as verify
from kraftlog.spark.ranges import OffsetRange
from kraftlog.spark.rows import RowMaker
from kraftlog.spark.schema import MAX_TIME_MS, MIN_TIME_MS, OUT_OF_RANGE
from tests.spark.archives import archive, dead_letters, rows
from tests.spark.test_decode import JSON_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

#: Times in milliseconds that a record can have, and whether a table's timestamp can hold them.
TIMES = [
    (0, True),
    (-1, True),
    (MIN_TIME_MS, True),
    (MAX_TIME_MS, True),
    (MIN_TIME_MS - 1, False),
    (MAX_TIME_MS + 1, False),
    (864_000_000_000_000, False),
    (9_223_372_036_854_775, False),
    (9_223_372_036_854_776, False),
    (-9_223_372_036_854_775, False),
    (-(2**55), False),
    (2**55, False),
    (2**63 - 1, False),
    (-(2**63), False),
]
#: The times of these that 64 bits of microseconds can hold.
SPARK_TIMES = [time for time, _ in TIMES if -(2**63) <= time * 1000 < 2**63]


def made_rows(times: Sequence[int], *, for_table: bool) -> pa.RecordBatch:
    builder = BatchBuilder()
    for time in times:
        builder.append(time, None, None)
    data = builder.build()
    batches = [(position, BatchHeader(*fields)) for position, fields in walk(data)]
    maker = RowMaker(OffsetRange("t", 0, 0, len(times)), with_headers=True, for_table=for_table)
    [made] = maker.rows(FetchedBatches(data, batches, 0, len(times)))
    made.validate(full=True)
    return made


def millis(column: pa.Array) -> list[int | None]:
    micros: list[int | None] = column.cast(pa.int64()).to_pylist()
    return [None if each is None else each // 1000 for each in micros]


def test_a_table_has_exact_milliseconds_of_times_out_of_range() -> None:
    made = made_rows([time for time, _ in TIMES], for_table=True)
    assert millis(made.column("timestamp")) == [time if fits else None for time, fits in TIMES]
    assert made.column(OUT_OF_RANGE).to_pylist() == [None if fits else ms for ms, fits in TIMES]


def test_a_time_that_spark_cannot_hold_is_null_in_the_source() -> None:
    """It is not wrapped: the largest time would be in the year 1969."""
    made = made_rows([time for time, _ in TIMES], for_table=False)
    expected = [time if time in SPARK_TIMES else None for time, _ in TIMES]
    assert millis(made.column("timestamp")) == expected
    assert len(SPARK_TIMES) == 9


@pytest.mark.parametrize("by_date", [False, True])
def test_the_bounds_of_a_file_leave_out_times_that_are_null(tmp_path: Path, by_date: bool) -> None:
    writer = FileWriter(str(tmp_path), "f", by_date=by_date)
    writer.write(made_rows([time for time, _ in TIMES], for_table=True).drop_columns(["topic"]))
    files = {each.date: json.loads(each.stats) for each in writer.close()}
    assert sum(each["numRecords"] for each in files.values()) == len(TIMES)
    assert sum(each["nullCount"]["timestamp"] for each in files.values()) == 10
    if not by_date:
        [stats] = files.values()
        assert stats["minValues"]["timestamp"] == "0001-01-01T00:00:00.000Z"
        assert stats["maxValues"]["timestamp"] == "9999-12-31T23:59:59.999Z"
        return
    dates = {"0001-01-01", "1969-12-31", "1970-01-01", "9999-12-31", "__HIVE_DEFAULT_PARTITION__"}
    assert set(files) == dates
    assert "timestamp" not in files["__HIVE_DEFAULT_PARTITION__"]["minValues"]


def produce_hostile(client: Client, topic: str) -> int:
    """Write a record of each odd kind to partition 0; return their number."""
    headers = [
        [("a", None), ("a", b""), ("a", b"1"), ("", b"2")],
        [("\udcff\udcfe", b"not UTF-8"), ("\0", b"\0"), ("date", b"x" * 100_000)],
        [(f"h{index}", None) for index in range(1000)],
    ]
    contents = [None, b"", b"\0", b"\xff\xfe", b"x" * 900_000]
    records: list[dict[str, Any]] = [{"timestamp_ms": time, "value": b"t"} for time, _ in TIMES]
    records += [{"headers": each, "value": b"h"} for each in headers]
    records += [{"key": key, "value": value} for key in contents for value in contents[:4]]
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        with client.producer(compression=codec) as producer:
            for record in records:
                producer.send(topic, partition=0, **record)
    return 5 * len(records)


def test_hostile_records_are_archived_and_equal_to_the_log(
    spark: SparkSession,
    our_node: str,
    our_client: Client,
    named: Callable[[str], str],
    tmp_path: Path,
) -> None:
    topic = named("hostile")
    limit = str(2**63 - 1)
    configs = {"message.timestamp.before.max.ms": limit, "message.timestamp.after.max.ms": limit}
    our_client.create_topic(topic, partitions=1, configs=configs)
    count = produce_hostile(our_client, topic)
    for lake, options in (
        (tmp_path / "raw", ["--partition-by", "date", "--compact"]),
        (tmp_path / "text", ["--decode", "string"]),
    ):
        for _ in range(2):
            assert archive(our_node, lake, topic, "--max-records-per-batch", "50", *options) == 0
        assert verify([str(lake), "-b", our_node]) == 0
        letters = dead_letters(lake) if lake.name == "text" else []
        archived = rows(lake, topic) + letters
        assert sorted(each["offset"] for each in archived) == list(range(count))
        assert {each[OUT_OF_RANGE] for each in archived} == {
            None, *[time for time, fits in TIMES if not fits]
        }  # fmt: skip


def test_new_fields_that_conflict_do_not_stop_an_archive(
    spark: SparkSession,
    our_node: str,
    our_client: Client,
    named: Callable[[str], str],
    tmp_path: Path,
) -> None:
    """The first type becomes the column's; names that differ only in case get one column."""
    topic = named("drift")
    our_client.create_topic(topic, partitions=3)
    values: list[dict[str, Any]] = [{"n": 1, "Case": 1}, {"n": 1.5}, {"n": "a", "case": 2}]
    with our_client.producer() as producer:
        for partition, value in enumerate(values):
            producer.send(topic, json.dumps({"id": partition, **value}), partition=partition)
    schema = tmp_path / "schema.json"
    schema.write_text(JSON_SCHEMA)
    lake = tmp_path / "lake"
    decode = ("--decode", "json", "--schema", str(schema), "--on-drift", "add")
    assert archive(our_node, lake, topic, *decode) == 0
    places = [
        (each["partition"], each["offset"]) for each in rows(lake, topic) + dead_letters(lake)
    ]
    assert sorted(places) == [(0, 0), (1, 0), (2, 0)]
    names = [name.lower() for name in rows(lake, topic)[0]]
    assert len(names) == len(set(names))
    assert verify([str(lake), "-b", our_node]) == 0
