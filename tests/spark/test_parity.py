"""`format("kraftlog")` gives the rows and offsets that `format("kafka")` gives."""

from __future__ import annotations

import glob
import json
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import Row

from tests.client.fixtures import KAFKA
from tests.spark import parity
from tests.spark.parity import (
    ALL,
    CODECS,
    COMPACTED,
    MIXED,
    OURS,
    PLAIN,
    PLAIN_START,
    T0_MS,
    offsets,
    ordered,
    read,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from kraftlog import Client

HEADERS = {"includeHeaders": "true"}
COMMITTED_ONLY = {"kafka.isolation.level": "read_committed"}


def numbers_of_mixed(**by_partition: int) -> str:
    """JSON with a number for each partition of `MIXED`: `p0=5` is that of partition 0."""
    return json.dumps({MIXED: {name[1:]: number for name, number in by_partition.items()}})


#: Options of batch reads.
BATCHES = {
    "everything": {"subscribe": ALL, **HEADERS},
    "committed": {"subscribe": MIXED, **COMMITTED_ONLY, **HEADERS},
    "committed split": {"subscribe": MIXED, **COMMITTED_ONLY, "minPartitions": "9"},
    "assigned": {
        "assign": json.dumps({MIXED: [0, 3], COMPACTED: [0]}),
        "startingOffsets": json.dumps({MIXED: {"0": 33, "3": -2}, COMPACTED: {"0": 4}}),
        "endingOffsets": json.dumps({MIXED: {"0": 61, "3": 9}, COMPACTED: {"0": -1}}),
        **HEADERS,
    },
    "pattern": {"subscribePattern": r"parity\.[ac].*", "maxRecordsPerPartition": "40"},
    "composed": {"subscribe": ALL, "maxRecordsPerPartition": "30", "minPartitions": "9"},
    "times": {
        "subscribe": ALL,
        "startingTimestamp": str(T0_MS + 4500),
        "endingTimestamp": str(T0_MS + 16_000),
        "startingOffsetsByTimestampStrategy": "latest",
        "startingOffsets": "earliest",
    },
    "times by partition": {
        "subscribe": MIXED,
        "startingOffsetsByTimestamp": numbers_of_mixed(
            p0=T0_MS + 1, p1=T0_MS, p2=0, p3=T0_MS + 10**9
        ),
        "startingOffsetsByTimestampStrategy": "latest",
        "endingOffsetsByTimestamp": numbers_of_mixed(
            p0=T0_MS + 50_000, p1=T0_MS + 9000, p2=0, p3=T0_MS + 10**9
        ),
        "endingOffsets": "latest",
    },
    "lost records": {
        "assign": json.dumps({MIXED: [PLAIN]}),
        "startingOffsets": json.dumps({MIXED: {f"{PLAIN}": PLAIN_START - 2}}),
        "failOnDataLoss": "false",
    },
}

#: Options of streams. If they split ranges into tasks, each task writes a file, which is counted.
STREAMS = {
    "everything": {
        **BATCHES["everything"],
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "200",
        "minPartitions": "9",
        "maxRecordsPerPartition": "50",
    },
    "committed": {
        **BATCHES["committed"],
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "90",
        "maxRecordsPerPartition": "30",
    },
    "pattern, from a time": {
        **BATCHES["pattern"],
        "startingTimestamp": str(T0_MS + 190_500),
        "maxOffsetsPerTrigger": "8",
    },
    "assigned, with lost records": {
        "assign": json.dumps({MIXED: [CODECS, PLAIN]}),
        "startingOffsets": json.dumps({MIXED: {f"{CODECS}": 61, f"{PLAIN}": PLAIN_START - 2}}),
        "maxOffsetsPerTrigger": "25",
        "failOnDataLoss": "false",
    },
}


@pytest.fixture(scope="module", params=["our_node", KAFKA])
def filled(request: pytest.FixtureRequest) -> str:
    """The address of a cluster that has the topics of `parity`."""
    address: str = request.getfixturevalue(request.param)
    parity.fill(address, has_transactions=request.param != "our_node")
    return address


@pytest.mark.parametrize("case", BATCHES)
def test_a_batch_has_the_same_rows(
    spark: SparkSession, connector: str, filled: str, case: str
) -> None:
    ours = read(spark, OURS, filled, BATCHES[case])
    assert ours == read(spark, connector, filled, BATCHES[case])
    assert len(ours) > 10


def test_the_topics_of_parity_have_all_compared_cases(spark: SparkSession, filled: str) -> None:
    """Otherwise comparing both sources would prove little."""
    rows = read(spark, OURS, filled, BATCHES["everything"])
    compacted = [row[4] for row in rows if row[2] == COMPACTED]
    assert compacted != list(range(len(compacted))), "gaps"
    assert {row[6] for row in rows} == {0, 1}, "both types of timestamps"
    keys = [row[0] for row in rows]
    assert None in keys
    assert b"" in keys
    assert {row[1] for row in rows} > {None, b""}, "null values, which are not empty ones"
    headers = [row[7] for row in rows]
    assert None in headers, "no headers"
    assert [Row(key="none", value=None), Row(key="", value=b"")] in headers
    assert "Row(key='\ufffd', value=None)" in str(headers), "a lone surrogate, not UTF-8"
    assert next(row[4] for row in rows if row[2:4] == (MIXED, PLAIN)) == PLAIN_START
    codecs = [row for row in rows if row[2:4] == (MIXED, parity.CODECS)]
    assert len(codecs) == 5 * 16


@pytest.mark.parametrize("case", STREAMS)
def test_a_stream_has_the_same_batches(
    spark: SparkSession, connector: str, filled: str, tmp_path: Path, case: str
) -> None:
    results = {}
    for source in (OURS, connector):
        folder = tmp_path / source
        query = parity.stream(spark, source, filled, folder, **STREAMS[case])
        files = glob.glob(str(folder / "rows" / "*.parquet"))
        rows = ordered(spark.read.parquet(str(folder / "rows")))
        results[source] = (offsets(query), rows, len(files))
    assert results[OURS] == results[connector]
    assert len(results[OURS][0]) > 1


@pytest.fixture
def rows_to_write(spark: SparkSession, connector: str) -> DataFrame:
    """Rows with all kinds of values that both sinks accept; a single task writes them in order."""
    return (
        spark.range(60)
        .coalesce(1)
        .selectExpr(
            "if(id % 10 = 9, null, cast(concat('key ', id % 7) as binary)) key",
            "if(id % 4 = 3, null, concat('größe ', id)) value",
            "case id % 5 when 0 then null when 1 then array() else array("
            "named_struct('key', 'h', 'value', cast(cast(id as string) as binary)),"
            "named_struct('key', 'h', 'value', cast(null as binary)),"
            "named_struct('key', '', 'value', cast('' as binary))) end headers",
            # Without a key each producer chooses a partition at random.
            "cast(if(id % 10 = 9, id % 3, null) as int) partition",
        )
    )


def test_both_sinks_write_the_same_records(
    spark: SparkSession,
    connector: str,
    address: str,
    client: Client,
    rows_to_write: DataFrame,
    named: Callable[[str], str],
) -> None:
    """Also in the same partitions, at the same offsets."""
    results = {}
    for sink in (OURS, connector):
        topic = named(sink)
        client.create_topic(topic, partitions=5)
        options = {"kafka.bootstrap.servers": address, "topic": topic}
        rows_to_write.write.format(sink).mode("append").options(**options).save()
        rows = read(spark, OURS, address, {"subscribe": topic, **HEADERS})
        results[sink] = [(row[:2], row[3:5], row[7]) for row in rows]
    assert results[OURS] == results[connector]
    assert len(results[OURS]) == 60
    assert {partition for _, (partition, _), _ in results[OURS]} == {*range(5)}
