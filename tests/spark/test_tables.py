"""`read_table` gives Spark the columns and the rows that Delta's log describes."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, write_deltalake

from kraftlog.errors import ConfigError
from kraftlog.spark.tables import read_table

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

DAYS = (date(2026, 1, 1), date(2026, 1, 2))


def rows_of_day(day: date, **columns: object) -> pa.Table:
    return pa.table({"date": pa.array([day], pa.date32()), **columns})


def test_columns_are_those_of_the_table_and_rows_those_of_live_files(
    spark: SparkSession, tmp_path: Path
) -> None:
    """New columns and fields, a column that no file has, dates, and a file that was replaced."""
    path = str(tmp_path / "a table")
    at = pa.struct([("x", pa.int64())])
    replaced = rows_of_day(DAYS[0], offset=[-1], at=pa.array([{"x": 0}], at))
    write_deltalake(path, replaced, partition_by=["date"])
    first = rows_of_day(DAYS[0], offset=[0], at=pa.array([{"x": 1}], at))
    write_deltalake(path, first, mode="overwrite")
    wide = pa.struct([("x", pa.int64()), ("y", pa.string())])
    second = rows_of_day(DAYS[1], offset=[1], at=pa.array([{"x": 2, "y": "z"}], wide), name=["n"])
    write_deltalake(path, second, mode="append", schema_mode="merge")
    table = DeltaTable(path)
    table.alter.add_columns([Field.from_json(
        '{"name": "later", "type": "string", "nullable": true, "metadata": {}}'
    )])  # fmt: skip

    rows = read_table(spark, path)
    assert rows.columns == [field.name for field in DeltaTable(path).schema().fields]
    found = [row.asDict(recursive=True) for row in rows.collect()]
    assert sorted(found, key=lambda row: row["offset"]) == [
        {"date": DAYS[0], "offset": 0, "at": {"x": 1, "y": None}, "name": None, "later": None},
        {"date": DAYS[1], "offset": 1, "at": {"x": 2, "y": "z"}, "name": "n", "later": None},
    ]


def test_special_characters_in_directory_names_are_literal(
    spark: SparkSession, tmp_path: Path
) -> None:
    """They are no glob patterns, nor decoded twice. Deltalake refuses `[` in a table's name."""
    path = str(tmp_path / "a {x}* table?")
    keys = ["a b", "50%", "x:y", "c%20d", "e[f]*{g}?h"]
    write_deltalake(path, pa.table({"key": keys, "n": [*range(5)]}), partition_by=["key"])
    found = [(row["key"], row["n"]) for row in read_table(spark, path).collect()]
    assert sorted(found, key=lambda row: row[1]) == [*zip(keys, range(5), strict=True)]


def test_a_table_without_rows_has_its_columns(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    DeltaTable.create(path, pa.schema([("offset", pa.int64()), ("value", pa.binary())]))
    rows = read_table(spark, path)
    assert rows.dtypes == [("offset", "bigint"), ("value", "binary")]
    assert rows.isEmpty()


def test_a_missing_table_and_deletion_vectors_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(
        ConfigError, match="is no table of Delta or Iceberg: expected the directory of one"
    ):
        read_table(spark, str(tmp_path / "none"))
    path = str(tmp_path / "t")
    DeltaTable.create(
        path,
        pa.schema([("offset", pa.int64())]),
        configuration={"delta.enableDeletionVectors": "true"},
    )
    with pytest.raises(ConfigError, match="a Delta table with deletionVectors, which its files"):
        read_table(spark, path)
