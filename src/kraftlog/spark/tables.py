"""Reads a table in Spark without a jar of its format: with its schema, and only its live files."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from kraftlog.errors import ConfigError
from kraftlog.spark.lake.archives import ICEBERG, check_pyiceberg, format_of

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame, SparkSession

#: Features of Delta with which a table has other rows or columns than its files.
_UNSUPPORTED = ("columnMapping", "deletionVectors")


def read_table(spark: SparkSession, path: str) -> DataFrame:
    """The newest version of a Delta or Iceberg table; columns that a file lacks are null.

    Without the table's schema, Spark's `read.parquet` would take the columns of a single file.
    Without the base path, it would leave out the partition columns, which are in directory names.
    """
    base = path if "://" in path else os.path.abspath(path)
    if format_of(path) == ICEBERG:
        schema, files = _of_iceberg(path)
        base = os.path.realpath(path)
    else:
        table = _opened(path)
        # Delta's JSON of a schema is Spark's.
        schema = StructType.fromJson(json.loads(table.schema().to_json()))
        files = _files(table, base)
    if not files:
        return spark.createDataFrame([], schema)
    # Spark takes each file as a glob pattern, but the base path literally.
    patterns = [re.sub(r"([\\*?{}\[\]])", r"\\\1", file) for file in files]
    rows = spark.read.schema(schema).option("basePath", base).parquet(*patterns)
    return rows.select([f"`{name.replace('`', '``')}`" for name in schema.names])


def iceberg_table(path: str) -> Table:
    """PyIceberg's object of a table in a directory, by which it can be changed as well.

    For instance `iceberg_table(path).maintenance.expire_snapshots()`.
    """
    check_pyiceberg()
    from kraftlog.spark.lake.iceberg.table import opened

    return opened(path)


def _of_iceberg(path: str) -> tuple[StructType, list[str]]:
    check_pyiceberg()
    from kraftlog.spark.lake.iceberg.reading import live_files

    columns, files = live_files(path)
    return from_arrow_schema(columns), [*files]


def _files(table: DeltaTable, base: str) -> list[str]:
    """The files of the newest version as paths, because Spark does not decode URLs."""
    if "://" in base:
        return [*table.file_uris()]
    actions = pa.table(table.get_add_actions(flatten=True))
    return [os.path.join(base, unquote(path)) for path in actions.column("path").to_pylist()]


def _opened(path: str) -> DeltaTable:
    try:
        table = DeltaTable(path)
    except TableNotFoundError:
        raise ConfigError(
            f"{path} is no table of Delta or Iceberg: expected the directory of one, such as "
            "lake/orders"
        ) from None
    protocol = table.protocol()
    features = {*(protocol.reader_features or ())}
    if protocol.min_reader_version == 2:  # version 2 means column mapping
        features.add(_UNSUPPORTED[0])
    if unsupported := [name for name in _UNSUPPORTED if name in features]:
        raise ConfigError(
            f"{path} is a Delta table with {' and '.join(unsupported)}, which its files do not "
            "show: read it with Spark's connector for Delta"
        )
    return table
