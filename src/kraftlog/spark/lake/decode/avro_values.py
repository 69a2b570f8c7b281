"""Values that are Avro records: plain, or each after the id of its schema (Confluent's form)."""

from __future__ import annotations

import json
import struct
from collections import Counter
from datetime import datetime, time
from io import BytesIO
from typing import TYPE_CHECKING
from uuid import UUID

import fastavro
import pyarrow as pa

from kraftlog.spark.lake.decode.base import ADD, Decoded, Decoder, check_times, column_name
from kraftlog.spark.lake.decode.nested import merged_type, missing_fields
from kraftlog.spark.lake.decode.registry import (
    AVRO,
    UnusableSchemaError,
    schema_id_of,
    schema_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from kraftlog.spark.lake.decode.base import Decoding

_PRIMITIVES = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "fixed": pa.binary(),
    "enum": pa.string(),
}
#: Times of day are text, because Delta has no type for them; so are local timestamps, whose type
#: not every version of a Delta table has.
_LOGICAL = {
    "date": pa.date32(),
    "timestamp-millis": pa.timestamp("us", tz="UTC"),
    "timestamp-micros": pa.timestamp("us", tz="UTC"),
    "local-timestamp-millis": pa.string(),
    "local-timestamp-micros": pa.string(),
    "time-millis": pa.string(),
    "time-micros": pa.string(),
    "uuid": pa.string(),
}


class AvroSchema:
    """A record schema: as fastavro reads it, and as columns by the name of their field."""

    def __init__(self, text: str, label: str = "the Avro schema") -> None:
        try:
            schema = json.loads(text)
            self.parsed = fastavro.parse_schema(schema)
        except (ValueError, KeyError, TypeError, fastavro.schema.SchemaParseException) as error:
            raise UnusableSchemaError(f"{label} is invalid: {error}") from None
        if not isinstance(schema, dict) or schema.get("type") != "record":
            raise UnusableSchemaError(f"{label} is not a record")
        named: dict[str, Any] = {}
        self.columns = {
            field["name"]: pa.field(
                column_name(field["name"]), _type_of(field["type"], named, label)
            )
            for field in schema["fields"]
        }


def columns_of(text: str) -> dict[str, pa.Field]:
    return AvroSchema(text).columns


def _type_of(schema: Any, named: dict[str, Any], label: str) -> pa.DataType:
    if isinstance(schema, list):
        types = [branch for branch in schema if branch != "null"]
        if len(types) == 1:
            return _type_of(types[0], named, label)
    elif isinstance(schema, str):
        if schema in _PRIMITIVES:
            return _PRIMITIVES[schema]
        if named.get(schema) is not None:
            return named[schema]
    else:
        return _complex_type(schema, named, label)
    raise UnusableSchemaError(
        f"{label}: {json.dumps(schema)} has no type that a column can have (unions of several "
        "types and records within themselves have none)"
    )


def _complex_type(schema: Any, named: dict[str, Any], label: str) -> pa.DataType:
    kind = schema["type"]
    logical = schema.get("logicalType")
    if logical == "decimal":
        return pa.decimal128(schema["precision"], schema.get("scale", 0))
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    if kind == "array":
        return pa.list_(_type_of(schema["items"], named, label))
    if kind == "map":
        return pa.map_(pa.string(), _type_of(schema["values"], named, label))
    if kind == "record":
        named[schema["name"]] = None  # a record that contains itself has no type
        fields = [
            (field["name"], _type_of(field["type"], named, label)) for field in schema["fields"]
        ]
        named[schema["name"]] = pa.struct(fields)
        return named[schema["name"]]
    column_type = _type_of(kind, named, label)
    if "name" in schema:
        named[schema["name"]] = column_type
    return column_type


class AvroDecoder(Decoder):
    def __init__(self, decoding: Decoding, table: pa.Schema) -> None:
        super().__init__(decoding, table)
        self._is_framed = decoding.kind == "avro-confluent"
        self._schema = None if self._is_framed else AvroSchema(decoding.schema)
        #: By id: the schema, or the reason why there is none.
        self._by_id: dict[int, AvroSchema | str] = {}
        #: The field of each column.
        self._fields = {name: name for name in self.columns}

    def decode(self, raw: pa.RecordBatch) -> Decoded:
        bad: dict[int, str] = {}
        records: dict[int, dict[str, Any]] = {}
        used: dict[int, AvroSchema] = {}
        for row, value in enumerate(raw.column("value").to_pylist()):
            try:
                records[row] = {} if value is None else self._record(value, used)
            except _UNREADABLE as error:
                bad[row] = f"not Avro of this schema: {str(error) or type(error).__name__}"
        ignored = self._apply_drift_rule(records, list(used.values()), raw)
        parts = list(self._arrays(list(records), records, bad))
        values = {
            name: pa.concat_arrays([part[name] for part in parts])
            for name in (self.columns if parts else ())
        }
        good = [row for row in records if row not in bad]
        return self.result(raw, good if bad else None, values, bad, ignored)

    def _arrays(
        self, rows: Sequence[int], records: Mapping[int, dict[str, Any]], bad: dict[int, str]
    ) -> Iterator[dict[str, pa.Array]]:
        """The columns of all rows whose values have their types; bisection finds the bad ones.

        A schema of the registry may have another type for a field, or a decimal more digits.
        """
        if not rows:
            return
        name = ""
        arrays: dict[str, pa.Array] = {}
        try:
            for name, column in self.columns.items():
                field = self._fields[name]
                arrays[name] = _array([records[row].get(field) for row in rows], column.type)
            yield arrays
        except _UNREADABLE as error:
            if len(rows) == 1:
                bad[rows[0]] = f"no value of column {name}, {self.columns[name].type}: {error}"
                return
            middle = len(rows) // 2
            yield from self._arrays(rows[:middle], records, bad)
            yield from self._arrays(rows[middle:], records, bad)

    def _record(self, value: bytes, used: dict[int, AvroSchema]) -> dict[str, Any]:
        schema, start = self._schema, 0
        if schema is None:
            schema_id, start = schema_id_of(value)
            schema = used[schema_id] = self._schema_of(schema_id)
        else:
            used[0] = schema
        stream = BytesIO(value)
        stream.seek(start)
        record = fastavro.schemaless_reader(stream, schema.parsed, None)
        if stream.tell() != len(value):
            raise ValueError(f"{len(value) - stream.tell()} bytes follow the record")
        assert isinstance(record, dict)
        return record

    def _schema_of(self, schema_id: int) -> AvroSchema:
        if schema_id not in self._by_id:
            try:
                text = schema_text(self.decoding, schema_id, AVRO)
                self._by_id[schema_id] = AvroSchema(text, f"schema {schema_id}")
            except UnusableSchemaError as error:
                self._by_id[schema_id] = str(error)
        schema = self._by_id[schema_id]
        if isinstance(schema, str):
            raise ValueError(schema)
        return schema

    def _apply_drift_rule(
        self,
        records: Mapping[int, dict[str, Any]],
        schemas: Sequence[AvroSchema],
        raw: pa.RecordBatch,
    ) -> Counter[str]:
        """Add unknown fields to the columns if the drift rule is `ADD`; count the ignored ones."""
        unknown: dict[str, pa.Field] = {}
        #: By path of a nested field that its column lacks: the field of the record.
        missing: dict[str, str] = {}
        for schema in schemas:
            for name, column in schema.columns.items():
                existing = self.columns.get(column.name)
                if existing is None:
                    unknown[name] = column
                    continue
                self._fields[column.name] = name
                paths = [*missing_fields(name, existing.type, column.type)]
                merged = (
                    merged_type(existing.type, column.type)
                    if self.decoding.on_drift == ADD
                    else None
                )
                if paths and merged is not None:
                    self.columns[column.name] = existing.with_type(merged)
                else:
                    missing.update(dict.fromkeys(paths, name))
        counts = {name: sum(name in record for record in records.values()) for name in unknown}
        counts |= {
            path: sum(name in record for record in records.values())
            for path, name in missing.items()
        }
        ignored = Counter({name: count for name, count in counts.items() if count})
        self.check_drift(ignored, raw)
        if self.decoding.on_drift != ADD:
            return ignored
        for name, column in unknown.items():
            self.columns[column.name] = column
            self._fields[column.name] = name
        return Counter({path: ignored[path] for path in missing})


#: What fastavro, `_record` and Arrow raise for bytes that are not a record of a known schema, or
#: for values that are not of a column's type.
_UNREADABLE = (
    ValueError, EOFError, LookupError, TypeError, ArithmeticError, MemoryError, struct.error,
)  # fmt: skip


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """An array of the column's type; a column of text takes any value."""
    plain = [_plain(each) for each in values]
    if pa.types.is_string(kind):
        plain = [each if each is None or isinstance(each, str) else str(each) for each in plain]
    array = pa.array(plain, kind)
    check_times(array)
    return array


def _plain(value: Any) -> Any:
    """The value with UUIDs, times of day and local timestamps as text, also if they are nested."""
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, time) or (isinstance(value, datetime) and value.tzinfo is None):
        return value.isoformat()
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return value
