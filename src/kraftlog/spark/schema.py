"""The columns of a topic's records: those of Spark's own Kafka connector, in its order."""

from __future__ import annotations

import pyarrow as pa

_COLUMNS = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset LONG, timestamp TIMESTAMP, "
    "timestampType INT"
)
_HEADERS = "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
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


def arrow_schema(*, with_headers: bool) -> pa.Schema:
    return _ARROW.append(pa.field("headers", HEADERS)) if with_headers else _ARROW
