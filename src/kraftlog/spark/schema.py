"""The columns of a topic's records: those of Spark's own Kafka connector, in its order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from kraftlog.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_COLUMNS = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "timestampType int"
)
_HEADERS = "headers array<struct<key:string,value:binary>>"
_ARROW = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
    ]
)
#: The first and last millisecond of the years 1 to 9999. Other times stop many readers of tables.
MIN_TIME_MS, MAX_TIME_MS = -62_135_596_800_000, 253_402_300_799_999
#: A column of archive tables: the record's time in milliseconds where it is outside these years and
#: `timestamp` is therefore null; null for all other records.
OUT_OF_RANGE = "timestampOutOfRangeMs"
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def spark_schema(*, with_headers: bool) -> str:
    return f"{_COLUMNS}, {_HEADERS}" if with_headers else _COLUMNS


def check_schema(given: StructType, *, with_headers: bool) -> None:
    """Raise ConfigError if the user asks for other columns with `.schema(…)`."""
    expected = spark_schema(with_headers=with_headers)
    if ", ".join(f"{each.name} {each.dataType.simpleString()}" for each in given) != expected:
        raise ConfigError(
            f"the columns are always {expected}: leave out .schema(…), and select or cast columns "
            "after load()"
        )


def arrow_schema(*, with_headers: bool, for_table: bool = False) -> pa.Schema:
    """The columns as Arrow's; `for_table` adds the one that only archive tables have."""
    schema = _ARROW.append(pa.field("headers", HEADERS)) if with_headers else _ARROW
    return schema.append(pa.field(OUT_OF_RANGE, pa.int64())) if for_table else schema
