"""Values become columns; undecodable ones are dead letters; new fields follow the drift rule."""

from __future__ import annotations

import json
import struct
import threading
from datetime import UTC, datetime, time
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from typing import TYPE_CHECKING, Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest

from kraftlog.errors import ConfigError
from kraftlog.spark.lake import layout
from kraftlog.spark.lake.decode import Decoding, DriftError, decoder_of, value_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kraftlog.spark.lake.decode import Decoded
    from kraftlog.spark.lake.decode.base import Decoder

JSON_SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "when": {"type": "string", "format": "date-time"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "at": {"type": "object", "properties": {"x": {"type": "number"}}},
        },
        "required": ["id"],
    }
)
AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "when", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
        {
            "name": "lines",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Line",
                    "fields": [{"name": "sku", "type": "string"}],
                },
            },
        },
    ],
}
ORDER = {
    "id": 5,
    "note": None,
    "when": datetime(2026, 1, 2, tzinfo=UTC),
    "price": Decimal("12.50"),
    "lines": [{"sku": "a"}, {"sku": "b"}],
}

#: What a local timestamp is decoded to: a datetime without a time zone.
LOCAL_TIME = datetime(2026, 1, 2, 3, tzinfo=UTC).replace(tzinfo=None)


def raw_records(values: Sequence[bytes | None]) -> pa.RecordBatch:
    """Records with these values at offsets 10, 11 and so on."""
    return pa.RecordBatch.from_pylist(
        [
            {"value": value, "partition": 0, "offset": 10 + row, "timestampType": 0}
            for row, value in enumerate(values)
        ],
        schema=layout.RAW,
    )


def decode_values(decoding: Decoding, values: Sequence[bytes | None]) -> Decoded:
    """Decode values for a table that has the columns of the schema."""
    return new_decoder(decoding).decode(raw_records(values))


def new_decoder(decoding: Decoding) -> Decoder:
    table_schema = layout.RAW.remove(layout.RAW.get_field_index("value"))
    for column in value_columns(decoding):
        table_schema = table_schema.append(column)
    decoder = decoder_of(decoding.__dict__, table_schema, is_new=False)
    assert decoder is not None
    return decoder


def avro(schema: Any, value: Any) -> bytes:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


def framed_avro(schema_id: int, schema: Any, value: Any) -> bytes:
    return struct.pack(">bI", 0, schema_id) + avro(schema, value)


def test_json_of_the_schema_becomes_columns() -> None:
    value = {"id": 1, "when": "2026-01-02T00:00:00Z", "tags": ["a"], "at": {"x": 1.5}}
    decoded = decode_values(Decoding("json", JSON_SCHEMA), [json.dumps(value).encode(), None])
    first, tombstone = decoded.rows.to_pylist()
    assert (first["id"], first["tags"], first["at"]) == (1, ["a"], {"x": 1.5})
    assert first["when"] == datetime(2026, 1, 2, tzinfo=UTC)
    assert (tombstone["offset"], tombstone["id"]) == (11, None)
    assert not decoded.bad


def test_json_that_is_broken_is_a_dead_letter_and_its_neighbours_are_not() -> None:
    values = [b'{"id": 1}', b"{", b'{"id": "x"}', b"[1]", b'{"tags": []}', b'{"id":\n 2}', b""]
    decoded = decode_values(Decoding("json", JSON_SCHEMA), values)
    assert decoded.rows.column("id").to_pylist() == [1, 2]
    assert sorted(decoded.bad) == [1, 2, 3, 4, 6]
    assert decoded.bad[3] == "not a JSON object"
    assert decoded.bad[4] == "without the required field id"


def test_json_with_two_objects_in_a_value_is_a_dead_letter() -> None:
    decoded = decode_values(Decoding("json", JSON_SCHEMA), [b'{"id": 1} {"id": 2}', b'{"id": 3}'])
    assert (decoded.rows.column("id").to_pylist(), list(decoded.bad)) == ([3], [0])


def test_new_fields_that_differ_in_case_alone_get_one_column() -> None:
    """Delta and Spark take such names for one column."""
    decoding = Decoding("json", JSON_SCHEMA, on_drift="add")
    decoded = decode_values(decoding, [b'{"id": 1, "New": 7, "new": 8}'])
    assert decoded.rows.column("New").to_pylist() == [7]
    assert (decoded.ignored, "new" in decoded.rows.schema.names) == ({"new": 1}, False)


@pytest.mark.parametrize("rule", ["fail", "ignore", "add"])
def test_fields_without_a_column_follow_the_rule(rule: str) -> None:
    values = [b'{"id": 1, "new": 7}', b'{"id": 2}']
    if rule == "fail":
        with pytest.raises(DriftError, match="fields without a column: new"):
            decode_values(Decoding("json", JSON_SCHEMA, on_drift=rule), values)
        return
    decoded = decode_values(Decoding("json", JSON_SCHEMA, on_drift=rule), values)
    assert ("new" in decoded.rows.schema.names) == (rule == "add")
    if rule == "add":
        assert decoded.rows.column("new").to_pylist() == [7, None]
    else:
        assert decoded.ignored == {"new": 1}


def test_added_objects_and_arrays_are_columns_of_their_json() -> None:
    decoder = new_decoder(Decoding("json", JSON_SCHEMA, on_drift="add"))
    values = ['{"id": 1, "to": {"city": "Köln"},\n "n": [1, 2.5]}', '{"id": 2, "at": {"y": 1}}']
    decoded = decoder.decode(raw_records([value.encode() for value in values]))
    later = decoder.decode(raw_records([b'{"id": 3, "to": {"zip": "1"}, "n": null}', b'{"id": 4}']))
    rows = [(row["id"], row["to"], row["n"]) for row in decoded.rows.to_pylist()]
    assert rows == [(1, '{"city": "Köln"}', "[1, 2.5]"), (2, None, None)]
    assert later.rows.column("to").to_pylist() == ['{"zip": "1"}', None]
    assert (decoded.bad, later.bad, decoded.ignored) == ({}, {}, {})


@pytest.mark.parametrize("rule", ["fail", "ignore", "add"])
def test_new_fields_within_an_object_follow_the_rule(rule: str) -> None:
    """Fields of objects in an array are included; a field that is null is not new."""
    schema = json.loads(JSON_SCHEMA)
    schema["properties"]["lines"] = {"type": "array", "items": schema["properties"]["at"]}
    values = [
        b'{"id": 1, "at": {"x": 1, "y": 2, "z": {"a": 1}}, "lines": [{"x": 1}, {"n": "b"}]}',
        b'{"id": 2, "at": {"x": 3, "none": null}, "lines": []}',
    ]
    decoder = new_decoder(Decoding("json", json.dumps(schema), on_drift=rule))
    if rule == "fail":
        with pytest.raises(DriftError, match=r"without a column: at.y, at.z, lines\[\].n: --on-"):
            decoder.decode(raw_records(values))
        return
    decoded = decoder.decode(raw_records(values))
    later = decoder.decode(raw_records([b'{"id": 3, "at": {"z": [1]}}']))
    first, second, third = decoded.rows.to_pylist() + later.rows.to_pylist()
    assert not decoded.bad
    if rule == "ignore":
        assert decoded.ignored == {"at.y": 1, "at.z": 1, "lines[].n": 1}
        assert (first["at"], first["lines"]) == ({"x": 1.0}, [{"x": 1.0}, {"x": None}])
        return
    assert decoded.ignored == {}
    assert first["at"] == {"x": 1.0, "y": 2, "z": '{"a": 1}'}
    assert first["lines"] == [{"x": 1.0, "n": None}, {"x": None, "n": "b"}]
    assert second["at"] == {"x": 3.0, "y": None, "z": None}
    assert third["at"] == {"x": None, "y": None, "z": "[1]"}


def test_new_fields_of_two_types_or_with_a_taken_name_are_ignored() -> None:
    """`X` differs from the existing field `x` only in case."""
    decoder = new_decoder(Decoding("json", JSON_SCHEMA, on_drift="add"))
    values = [b'{"id": 1, "at": {"y": 1, "X": 1}}', b'{"id": 2, "at": {"y": "a"}}']
    decoded = decoder.decode(raw_records(values))
    assert decoded.ignored == {"at.y": 2, "at.X": 1}
    assert decoded.rows.schema.field("at").type == pa.struct([("x", pa.float64())])


def test_text_that_is_not_utf8_is_a_dead_letter() -> None:
    decoder = decoder_of(Decoding("string").__dict__, layout.RAW, is_new=False)
    assert decoder is not None
    decoded = decoder.decode(raw_records([b"a", b"\xff", None]))
    assert decoded.rows.column("value").to_pylist() == ["a", None]
    assert list(decoded.bad) == [1]
    assert "not UTF-8" in decoded.bad[1]


def test_avro_of_the_schema_becomes_columns() -> None:
    decoded = decode_values(Decoding("avro", json.dumps(AVRO)), [avro(AVRO, ORDER), None])
    first, tombstone = decoded.rows.to_pylist()
    assert {name: first[name] for name in ORDER} == ORDER
    assert tombstone["id"] is None


@pytest.mark.parametrize(
    ("kind", "logical", "value", "text"),
    [
        ("int", "time-millis", time(3, 4, 5), "03:04:05"),
        ("long", "time-micros", time(3, 4, 5, 6), "03:04:05.000006"),
        ("long", "local-timestamp-millis", LOCAL_TIME, "2026-01-02T03:00:00"),
        ("long", "local-timestamp-micros", LOCAL_TIME, "2026-01-02T03:00:00"),
        ("string", "uuid", UUID(int=1), str(UUID(int=1))),
    ],
)
def test_avro_of_a_logical_type_without_a_delta_type_becomes_text(
    kind: str, logical: str, value: Any, text: str
) -> None:
    item = {"type": kind, "logicalType": logical}
    record = {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": item}]}
    types = [item, {"type": "array", "items": item}, {"type": "map", "values": item}, record]
    fields = [{"name": f"f{number}", "type": each} for number, each in enumerate(types)]
    schema = {"type": "record", "name": "Outer", "fields": fields}
    outer = {"f0": value, "f1": [value], "f2": {"k": value}, "f3": {"x": value}}
    decoded = decode_values(Decoding("avro", json.dumps(schema)), [avro(schema, outer)])
    [row] = decoded.rows.to_pylist()
    expected = {"f0": text, "f1": [text], "f2": [("k", text)], "f3": {"x": text}}
    assert {name: row[name] for name in expected} == expected


def test_avro_that_is_cut_or_too_long_is_a_dead_letter() -> None:
    good = avro(AVRO, ORDER)
    decoded = decode_values(Decoding("avro", json.dumps(AVRO)), [good[:-3], good, good + b"x", b""])
    assert decoded.rows.column("id").to_pylist() == [5]
    assert sorted(decoded.bad) == [0, 2, 3]
    assert "1 bytes follow the record" in decoded.bad[2]


def test_framed_avro_is_read_with_the_schema_of_its_id(tmp_path: Path) -> None:
    newer = {**AVRO, "fields": [*AVRO["fields"], {"name": "extra", "type": "int"}]}
    (tmp_path / "1.avsc").write_text(json.dumps(AVRO))
    (tmp_path / "2.avsc").write_text(json.dumps(newer))
    values = [
        framed_avro(1, AVRO, ORDER),
        framed_avro(2, newer, {**ORDER, "extra": 9}),
        framed_avro(3, AVRO, ORDER),
        b"\x01" + framed_avro(1, AVRO, ORDER)[1:],
    ]
    decoding = Decoding("avro-confluent", json.dumps(AVRO), str(tmp_path), on_drift="add")
    decoded = decode_values(decoding, values)
    assert decoded.rows.column("extra").to_pylist() == [None, 9]
    assert decoded.bad[2].endswith("the registry has no schema 3")
    assert "begins with byte 1" in decoded.bad[3]


@pytest.mark.parametrize("rule", ["ignore", "add"])
def test_new_fields_within_an_avro_record_follow_the_rule(tmp_path: Path, rule: str) -> None:
    lines = {**AVRO["fields"][4]["type"]}
    lines["items"] = {
        **lines["items"],
        "fields": [*lines["items"]["fields"], {"name": "count", "type": "int"}],
    }
    newer = {**AVRO, "fields": [*AVRO["fields"][:4], {"name": "lines", "type": lines}]}
    (tmp_path / "1.avsc").write_text(json.dumps(newer))
    values = [framed_avro(1, newer, {**ORDER, "lines": [{"sku": "a", "count": 3}]})]
    decoding = Decoding("avro-confluent", json.dumps(AVRO), str(tmp_path), on_drift=rule)
    decoded = decode_values(decoding, values)
    (row,) = decoded.rows.to_pylist()
    if rule == "add":
        assert (row["lines"], decoded.ignored) == ([{"sku": "a", "count": 3}], {})
    else:
        assert (row["lines"], decoded.ignored) == ([{"sku": "a"}], {"lines[].count": 1})


#: What a generator of JSON Schemas writes: a field may be null, `free` has no type.
REGISTERED_JSON = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "when": {"oneOf": [{"type": "null"}, {"type": "string", "format": "date-time"}]},
        "to": {
            "anyOf": [{"type": "null"}, {"type": "object", "properties": {"x": {"type": "number"}}}]
        },
        "offset": {"type": "integer"},
        "free": {},
    },
}


def framed_json(schema_id: int, text: str) -> bytes:
    return struct.pack(">bI", 0, schema_id) + text.encode()


def test_framed_json_gets_the_columns_of_the_schemas_of_its_ids(tmp_path: Path) -> None:
    """A field without a type is inferred from its values; a tombstone has no schema."""
    newer = json.loads(json.dumps(REGISTERED_JSON))
    newer["properties"] |= {"more": {"type": "array", "items": {"type": "number"}}}
    newer["properties"]["to"]["anyOf"][1]["properties"]["y"] = {"type": "integer"}
    (tmp_path / "1.json").write_text(json.dumps(REGISTERED_JSON))
    (tmp_path / "2.json").write_text(json.dumps(newer))
    (tmp_path / "3.json").write_text('"string"')
    (tmp_path / "4.avsc").write_text(json.dumps(AVRO))
    values = [
        framed_json(1, '{"id": 1, "when": "2026-01-02T00:00:00Z", "to": {"x": 1}, "offset": 9}'),
        None,
        framed_json(1, '{"id": 2, "when": null, "to": null, "free": {"a": 1}}'),
        framed_json(2, '{"id": 3, "to": {"x": 2, "y": 5}, "more": [1]}'),
        *[framed_json(schema_id, '{"id": 4}') for schema_id in (3, 4, 5)],
        b'{"id": 1}',
        b"\0\0",
        framed_json(1, "{"),
        framed_json(1, '{"id": "x"}'),
    ]
    decoder = new_decoder(Decoding("json-confluent", registry=str(tmp_path), on_drift="add"))
    raw = raw_records(values)
    decoded = decoder.decode(raw)
    rows = decoded.rows.to_pylist()
    assert [(row["offset"], row["id"]) for row in rows] == [(10, 1), (11, None), (12, 2), (13, 3)]
    assert [row["to"] for row in rows] == [{"x": 1, "y": None}, None, None, {"x": 2, "y": 5}]
    assert (rows[0]["when"], rows[0]["value_offset"]) == (datetime(2026, 1, 2, tzinfo=UTC), 9)
    assert (rows[2]["free"], rows[3]["more"]) == ('{"a": 1}', [1.0])
    assert (sorted(decoded.bad), decoded.raw) == ([4, 5, 6, 7, 8, 9, 10], raw)
    assert "schema 3: the JSON Schema is not an object" in decoded.bad[4]
    assert "schema 4 is of type AVRO: --decode avro-confluent decodes it" in decoded.bad[5]
    assert decoded.bad[6].endswith("the registry has no schema 5")
    assert "begins with byte 123" in decoded.bad[7]
    assert "it has 2 bytes" in decoded.bad[8]


@pytest.mark.parametrize("rule", ["fail", "ignore"])
def test_new_fields_of_framed_json_follow_the_rule(tmp_path: Path, rule: str) -> None:
    (tmp_path / "1.json").write_text(json.dumps(REGISTERED_JSON))
    given = json.dumps({"type": "object", "properties": {"id": {"type": "integer"}}})
    decoding = Decoding("json-confluent", given, str(tmp_path), on_drift=rule)
    values = [framed_json(1, '{"id": 1}'), framed_json(1, '{"id": 2, "to": {"x": 1}}')]
    if rule == "fail":
        with pytest.raises(DriftError, match="fields without a column: to"):
            decode_values(decoding, values)
        return
    decoded = decode_values(decoding, values)
    assert (decoded.rows.column("id").to_pylist(), decoded.ignored) == ([1, 2], {"to": 1})


#: By schema id: what a registry responds; only the first and the last are right.
BODIES = {
    1: json.dumps({"schema": json.dumps(AVRO)}).encode(),
    2: b"<html>",
    3: b"{}",
    4: b"[]",
    5: json.dumps({"schema": 'syntax = "proto3";', "schemaType": "PROTOBUF"}).encode(),
    6: json.dumps({"schema": json.dumps(AVRO), "references": [{"name": "A"}]}).encode(),
    7: json.dumps({"schema": json.dumps(REGISTERED_JSON), "schemaType": "JSON"}).encode(),
}


@pytest.fixture
def registry() -> Iterator[str]:
    """A schema registry with these bodies."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            schema_id = int(self.path.removeprefix("/schemas/ids/"))
            self.send_response(200 if schema_id in BODIES else 404)
            self.end_headers()
            self.wfile.write(BODIES.get(schema_id, b""))

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_schemas_come_from_a_registry(registry: str) -> None:
    decoding = Decoding("avro-confluent", registry=registry, on_drift="add")
    decoded = decode_values(decoding, [framed_avro(1, AVRO, ORDER), framed_avro(9, AVRO, ORDER)])
    assert decoded.rows.column("id").to_pylist() == [5]
    assert decoded.bad[1].endswith("the registry has no schema 9")


def test_values_with_schemas_of_other_types_are_dead_letters(registry: str) -> None:
    decoding = Decoding("avro-confluent", registry=registry, on_drift="add")
    decoded = decode_values(decoding, [framed_avro(number, AVRO, ORDER) for number in (5, 6, 7, 1)])
    assert decoded.rows.column("id").to_pylist() == [5]
    reasons = [decoded.bad[row].partition(": ")[2] for row in range(3)]
    assert reasons == [
        "schema 5 is of type PROTOBUF: it can't be decoded",
        "schema 6 refers to other schemas: it can't be decoded",
        "schema 7 is of type JSON: --decode json-confluent decodes it",
    ]
    decoding = Decoding("json-confluent", registry=registry, on_drift="add")
    assert not decode_values(decoding, [framed_json(7, '{"id": 1}')]).bad


@pytest.mark.parametrize("schema_id", [2, 3, 4])
def test_a_wrong_response_of_the_registry_makes_no_dead_letters(
    registry: str, schema_id: int
) -> None:
    decoding = Decoding("avro-confluent", registry=registry, on_drift="add")
    with pytest.raises(ConfigError, match="no schema in the response"):
        decode_values(decoding, [framed_avro(schema_id, AVRO, ORDER)])


@pytest.mark.parametrize(
    ("encoding", "schema"),
    [
        ("json", "{"),
        ("json", '{"type": "array"}'),
        ("json", '{"properties": {"a": {"type": ["string", "number"]}}}'),
        ("avro", "{"),
        ("avro", '"string"'),
        ("avro", '{"type": "record", "name": "A", "fields": [{"name": "a", "type": "B"}]}'),
        (
            "avro",
            '{"type": "record", "name": "A", "fields": [{"name": "a", "type": ["int", "string"]}]}',
        ),
    ],
)
def test_a_schema_that_gives_no_columns_is_refused(encoding: str, schema: str) -> None:
    with pytest.raises(ConfigError):
        value_columns(Decoding(encoding, schema))
