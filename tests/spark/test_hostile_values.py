"""A value becomes a row or a dead letter, whatever it is, and its neighbours become rows."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.records.varint import encode_varint
from kraftlog.spark.lake.decode import Decoding
from kraftlog.spark.schema import MAX_TIME_MS
from tests.spark.test_decode import JSON_SCHEMA, decode_values, framed_avro

if TYPE_CHECKING:
    from pathlib import Path


def nested(opening: bytes, depth: int, closing: bytes) -> bytes:
    return opening * depth + b"1" + closing * depth


#: Values with the columns of `JSON_SCHEMA`, and whether they become rows.
JSON_VALUES = {
    "byte-order mark": (b'\xef\xbb\xbf{"id": 1}', True),
    "two byte-order marks": (b'\xef\xbb\xbf\xef\xbb\xbf{"id": 1}', False),
    "UTF-16": ('{"id": 1}'.encode("utf-16"), False),
    "not UTF-8": (b'{"id": 1, "tags": ["\xff"]}', False),
    "a surrogate in UTF-8": (b'{"id": 1, "tags": ["\xed\xa0\x80"]}', False),
    "an escaped surrogate": (b'{"id": 1, "tags": ["\\ud800"]}', False),
    "a surrogate as name": (b'{"id": 1, "\\ud800": 1}', False),
    "a surrogate in an object": (b'{"id": 1, "o": {"a": "\\ud800"}}', False),
    "an escaped NUL": (b'{"id": 1, "tags": ["\\u0000"]}', True),
    "a NUL as name": (b'{"id": 1, "\\u0000": 1}', True),
    "an empty name": (b'{"id": 1, "": 1}', True),
    "an odd name": (b'{"id": 1, "a.b`c\\"\\r\\u2028": 1}', True),
    "NaN": (b'{"id": 1, "at": {"x": NaN}}', True),
    "a too large float": (b'{"id": 1, "at": {"x": 1e999}}', False),
    "a too large integer": (b'{"id": 18446744073709551616}', False),
    "5,000 digits": (b'{"id": ' + b"9" * 5000 + b"}", False),
    "a name twice": (b'{"id": 1, "id": 2}', False),
    "a nested name twice": (b'{"id": 1, "at": {"x": 1, "x": 2}}', False),
    "deep arrays": (b'{"id": 1, "d": ' + nested(b"[", 900, b"]") + b"}", True),
    "too deep arrays": (b'{"id": 1, "d": ' + nested(b"[", 100_000, b"]") + b"}", False),
    "too deep objects": (b'{"id": 1, "at": ' + nested(b'{"x":', 100_000, b"}") + b"}", False),
    "the year 0": (b'{"id": 1, "when": "0000-01-01T00:00:00Z"}', False),
    "the year 10000": (b'{"id": 1, "when": "9999-12-31T23:59:59-01:00"}', False),
    "the year 9999": (b'{"id": 1, "when": "9999-12-31T23:59:59Z"}', True),
    "a line break": (b'{"id":\r 1}', True),
    "two objects": (b'{"id": 1}\r{"id": 2}', False),
    "no object": (b"7", False),
    "nothing": (b"", False),
}


@pytest.mark.parametrize("name", JSON_VALUES)
@pytest.mark.parametrize("rule", ["ignore", "add"])
def test_a_json_value_is_a_row_or_a_dead_letter_wherever_it_is(name: str, rule: str) -> None:
    value, is_row = JSON_VALUES[name]
    decoding = Decoding("json", JSON_SCHEMA, on_drift=rule)
    for values in ([value], [value, b'{"id": 7}'], [b'{"id": 7}', value], [value, value]):
        decoded = decode_values(decoding, values)
        decoded.rows.validate(full=True)
        decoded.rows.to_pylist()
        json.dumps(dict(decoded.ignored)).encode()
        "".join(decoded.ignored).encode()
        ids = [1 if each == value else 7 for each in values if is_row or each != value]
        assert decoded.rows.column("id").to_pylist() == ids
        assert len(decoded.bad) == len(values) - len(ids)


def test_deeply_nested_json_is_a_row_or_a_dead_letter() -> None:
    """Python writes a little less deep JSON than it reads, as how deep depends on its stack."""
    decoding = Decoding("json", JSON_SCHEMA, on_drift="add")
    for depth in range(940, 1000):
        value = b'{"id": 1, "at": {"y": ' + nested(b'{"a":', depth, b"}") + b"}}"
        decoded = decode_values(decoding, [b'{"id": 7}', value])
        assert len(decoded.rows) + len(decoded.bad) == 2


AVRO_FIELDS: dict[str, Any] = {
    "when": {"type": "long", "logicalType": "timestamp-millis"},
    "local": {"type": "long", "logicalType": "local-timestamp-millis"},
    "day": {"type": "int", "logicalType": "date"},
    "time": {"type": "int", "logicalType": "time-millis"},
    "price": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
    "text": "string",
    "uuid": {"type": "string", "logicalType": "uuid"},
    "kind": {"type": "enum", "name": "Kind", "symbols": ["A"]},
    "map": {"type": "map", "values": "int"},
}


def number(value: int) -> bytes:
    return encode_varint(value)


def octets(value: bytes) -> bytes:
    return encode_varint(len(value)) + value


@pytest.mark.parametrize(
    ("field", "data", "is_row"),
    [
        ("when", number(2**63 - 1), False),
        ("when", number(-(2**63)), False),
        ("when", number(MAX_TIME_MS + 1), False),
        ("when", number(MAX_TIME_MS), True),
        ("local", number(2**55), False),
        ("day", number(2**31 - 1), False),
        ("time", number(2**31 - 1), False),
        ("price", octets(b"\x7f" * 40), False),
        ("price", octets(b"\x01\x00\x00"), False),
        ("price", octets(b""), True),
        ("text", octets(b"\xff"), False),
        ("text", number(2**62), False),
        ("text", number(-5), False),
        ("uuid", octets(b"none"), False),
        ("kind", number(9), False),
        ("map", number(2**40), False),
        ("map", number(1) + octets(b"\xff") + number(1) + number(0), False),
        ("map", b"\xff" * 30, False),
    ],
)
def test_an_avro_value_is_a_row_or_a_dead_letter(field: str, data: bytes, is_row: bool) -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": field, "type": ["null", AVRO_FIELDS[field]]},
        ],
    }
    good = number(7) + number(0)
    decoded = decode_values(
        Decoding("avro", json.dumps(schema)), [good, number(1) + number(1) + data, good]
    )
    decoded.rows.validate(full=True)
    assert decoded.rows.column("id").to_pylist() == ([7, 1, 7] if is_row else [7, 7])
    assert len(decoded.bad) == 1 - is_row


def test_avro_of_a_schema_that_does_not_fit_is_a_dead_letter(
    tmp_path: Path,
) -> None:
    """Anyone can produce a record with any schema of the registry; the table's types stay."""

    def record(*types: Any) -> dict[str, Any]:
        fields = [{"name": f"f{index}", "type": kind} for index, kind in enumerate(types)]
        return {"type": "record", "name": "R", "fields": fields}

    schemas = [record("long"), record("string"), record(["int", "string"]), "string", 5]
    for number_, schema in enumerate(schemas, 1):
        (tmp_path / f"{number_}.avsc").write_text(json.dumps(schema))
    decoding = Decoding("avro-confluent", json.dumps(schemas[0]), str(tmp_path), on_drift="add")
    frame = struct.Struct(">bI")
    values = [
        framed_avro(1, schemas[0], {"f0": 7}),
        framed_avro(2, schemas[1], {"f0": "seven"}),
        *[frame.pack(0, schema_id) + b"\0" for schema_id in (3, 4, 5)],
        b"\0\0",
        framed_avro(1, schemas[0], {"f0": 8}),
    ]
    decoded = decode_values(decoding, values)
    assert decoded.rows.column("f0").to_pylist() == [7, 8]
    assert sorted(decoded.bad) == [1, 2, 3, 4, 5]
    assert "no value of column f0, int64" in decoded.bad[1]
