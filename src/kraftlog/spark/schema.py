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


def arrow_schema(*, with_headers: bool) -> pa.Schema:
    return _ARROW.append(pa.field("headers", HEADERS)) if with_headers else _ARROW
