"""Reads a Delta table in Spark without Delta's jar: its own schema, and its live files alone."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from pyspark.sql.types import StructType

from kraftlog.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Features of Delta after which a table is more than the rows of its files.
_BEYOND_FILES = ("columnMapping", "deletionVectors")


def read_table(spark: SparkSession, path: str) -> DataFrame:
    """The newest version of a Delta table; columns that a file does not have are null.

    Spark's `read.parquet` of the files alone takes the columns of one of them, and leaves out
    those that are in the names of directories.
    """
    table = _opened(path)
    # Delta writes a schema as Spark does.
    schema = StructType.fromJson(json.loads(table.schema().to_json()))
    base = path if "://" in path else os.path.abspath(path)
    files = _files(table, base)
    if not files:
        return spark.createDataFrame([], schema)
    # Spark takes each of these as a pattern, the base path as it is.
    patterns = [re.sub(r"([\\*?{}\[\]])", r"\\\1", file) for file in files]
    rows = spark.read.schema(schema).option("basePath", base).parquet(*patterns)
    return rows.select([f"`{name.replace('`', '``')}`" for name in schema.names])


def _files(table: DeltaTable, base: str) -> list[str]:
    """The files of the newest version, as Spark takes paths: not as URLs."""
    if "://" in base:
        return [*table.file_uris()]
    actions = pa.table(table.get_add_actions(flatten=True))
    return [os.path.join(base, unquote(path)) for path in actions.column("path").to_pylist()]


def _opened(path: str) -> DeltaTable:
    try:
        table = DeltaTable(path)
    except TableNotFoundError:
        raise ConfigError(
            f"{path} is not a Delta table: expected the directory of one, such as lake/orders"
        ) from None
    protocol = table.protocol()
    features = {*(protocol.reader_features or ())}
    if protocol.min_reader_version == 2:  # it has this feature alone
        features.add(_BEYOND_FILES[0])
    if beyond := [name for name in _BEYOND_FILES if name in features]:
        raise ConfigError(
            f"{path} is a Delta table with {' and '.join(beyond)}, which its files do not show: "
            "read it with Spark's connector for Delta"
        )
    return table
