"""`format("kraftlog")` gives the rows and offsets that `format("kafka")` gives."""

from __future__ import annotations

import glob
import json
from typing import TYPE_CHECKING

import pytest

from tests.client.fixtures import KAFKA
from tests.spark import parity
from tests.spark.parity import ALL, COMPACTED, MIXED, OURS, T0_MS, offsets, ordered, read

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

HEADERS = {"includeHeaders": "true"}
COMMITTED_ONLY = {"kafka.isolation.level": "read_committed"}


def at(**by_partition: int) -> str:
    """JSON with a number for each partition of `MIXED`, from p0 on."""
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
        "startingOffsetsByTimestamp": at(p0=T0_MS + 1, p1=T0_MS, p2=0, p3=T0_MS + 10**9),
        "startingOffsetsByTimestampStrategy": "latest",
        "endingOffsetsByTimestamp": at(p0=T0_MS + 50_000, p1=T0_MS + 9000, p2=0, p3=T0_MS + 10**9),
        "endingOffsets": "latest",
    },
}


#: Options that split the ranges of a stream into tasks, each of which writes a file.
SPLITS = {
    "everything": {"minPartitions": "9", "maxRecordsPerPartition": "50"},
    "committed": {"maxRecordsPerPartition": "30"},
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


def test_the_topics_have_what_parity_is_about(spark: SparkSession, filled: str) -> None:
    """The comparison above would mean little on plain data."""
    rows = read(spark, OURS, filled, BATCHES["everything"])
    compacted = [row[4] for row in rows if row[2] == COMPACTED]
    assert compacted != list(range(len(compacted))), "gaps"
    assert {row[6] for row in rows} == {0, 1}, "both types of timestamps"
    keys = [row[0] for row in rows]
    assert None in keys
    assert b"" in keys
    assert any(row[7] is None for row in rows)
    codecs = [row for row in rows if row[2:4] == (MIXED, parity.CODECS)]
    assert len(codecs) == 5 * 16


@pytest.mark.parametrize("case", ["everything", "committed"])
def test_a_stream_has_the_same_batches(
    spark: SparkSession, connector: str, filled: str, tmp_path: Path, case: str
) -> None:
    found = {}
    for source in (OURS, connector):
        folder = tmp_path / source
        query = parity.stream(
            spark,
            source,
            filled,
            folder,
            startingOffsets="earliest",
            maxOffsetsPerTrigger="200" if case == "everything" else "90",
            **SPLITS[case],
            **BATCHES[case],
        )
        files = glob.glob(str(folder / "rows" / "*.parquet"))
        rows = ordered(spark.read.parquet(str(folder / "rows")))
        found[source] = (offsets(query), rows, len(files))
    assert found[OURS] == found[connector]
    assert len(found[OURS][0]) > 1
