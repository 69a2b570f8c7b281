"""Values that are Avro records: plain, or each after the id of its schema (Confluent's form).

Confluent's form is a zero byte, the schema's id in four bytes, and the record. The schema of an id
is the file `ID.avsc` of a directory, or comes from a schema registry over HTTP.
"""

from __future__ import annotations

import json
import os
import struct
from collections import Counter
from io import BytesIO
from typing import TYPE_CHECKING
from urllib.error import URLError
from urllib.request import urlopen
from uuid import UUID

import fastavro
import pyarrow as pa

from kraftlog.errors import ConfigError
from kraftlog.spark.lake.decode.base import ADD, Decoded, Decoder, column_name
from kraftlog.spark.lake.decode.nested import merged_type, missing_fields

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from kraftlog.spark.lake.decode.base import Decoding

_MAGIC = 0
_FRAME = struct.Struct(">bI")
_REGISTRY_TIMEOUT_S = 30
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
#: Times of day are text, because Delta has no type for them.
_LOGICAL = {
    "date": pa.date32(),
    "timestamp-millis": pa.timestamp("us", tz="UTC"),
    "timestamp-micros": pa.timestamp("us", tz="UTC"),
    "time-millis": pa.string(),
    "time-micros": pa.string(),
    "uuid": pa.string(),
}


class AvroSchema:
    """A record schema: as fastavro reads it, and as columns by the name of their field."""

    def __init__(self, text: str, about: str = "the Avro schema") -> None:
        try:
            found = json.loads(text)
            self.parsed = fastavro.parse_schema(found)
        except (ValueError, KeyError, fastavro.schema.SchemaParseException) as error:
            raise ConfigError(f"{about} is invalid: {error}") from None
        if not isinstance(found, dict) or found.get("type") != "record":
            raise ConfigError(f"{about} is not a record")
        named: dict[str, Any] = {}
        self.columns = {
            each["name"]: pa.field(column_name(each["name"]), _type_of(each["type"], named, about))
            for each in found["fields"]
        }


def columns_of(text: str) -> dict[str, pa.Field]:
    return AvroSchema(text).columns


def _type_of(schema: Any, named: dict[str, Any], about: str) -> pa.DataType:
    if isinstance(schema, list):
        left = [each for each in schema if each != "null"]
        if len(left) == 1:
            return _type_of(left[0], named, about)
    elif isinstance(schema, str):
        if schema in _PRIMITIVES:
            return _PRIMITIVES[schema]
        if named.get(schema) is not None:
            return named[schema]
    else:
        return _complex_type(schema, named, about)
    raise ConfigError(
        f"{about}: {json.dumps(schema)} has no type that a column can have (unions of several "
        "types and records within themselves have none)"
    )


def _complex_type(schema: Any, named: dict[str, Any], about: str) -> pa.DataType:
    kind = schema["type"]
    logical = schema.get("logicalType")
    if logical == "decimal":
        return pa.decimal128(schema["precision"], schema.get("scale", 0))
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    if kind == "array":
        return pa.list_(_type_of(schema["items"], named, about))
    if kind == "map":
        return pa.map_(pa.string(), _type_of(schema["values"], named, about))
    if kind == "record":
        named[schema["name"]] = None  # not known before it is complete
        fields = [(it["name"], _type_of(it["type"], named, about)) for it in schema["fields"]]
        named[schema["name"]] = pa.struct(fields)
        return named[schema["name"]]
    found = _type_of(kind, named, about)
    if "name" in schema:
        named[schema["name"]] = found
    return found


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
        found: dict[int, dict[str, Any]] = {}
        used: dict[int, AvroSchema] = {}
        for row, value in enumerate(raw.column("value").to_pylist()):
            try:
                found[row] = {} if value is None else self._record(value, used)
            except _UNREADABLE as error:
                bad[row] = f"not Avro of this schema: {str(error) or type(error).__name__}"
        ignored = self._learn(found, list(used.values()), raw)
        good = list(found)
        values: dict[str, pa.Array] = {}
        for name, column in self.columns.items():
            field = self._fields[name]
            values[name] = _array([found[row].get(field) for row in good], column.type)
        return self.result(raw, good if bad else None, values, bad, ignored)

    def _record(self, value: bytes, used: dict[int, AvroSchema]) -> dict[str, Any]:
        schema, place = self._schema, 0
        if schema is None:
            magic, number = _FRAME.unpack_from(value)
            if magic != _MAGIC:
                raise ValueError(f"it begins with byte {magic}, not with 0 and the id of a schema")
            schema, place = self._schema_of(number), _FRAME.size
            used[number] = schema
        else:
            used[0] = schema
        stream = BytesIO(value)
        stream.seek(place)
        found = fastavro.schemaless_reader(stream, schema.parsed, None)
        if stream.tell() != len(value):
            raise ValueError(f"{len(value) - stream.tell()} bytes follow the record")
        assert isinstance(found, dict)
        return found

    def _schema_of(self, number: int) -> AvroSchema:
        if number not in self._by_id:
            text = schema_text(self.decoding.registry, number)
            self._by_id[number] = (
                f"the registry has no schema {number}"
                if text is None
                else AvroSchema(text, f"schema {number}")
            )
        schema = self._by_id[number]
        if isinstance(schema, str):
            raise ValueError(schema)
        return schema

    def _learn(
        self, found: Mapping[int, dict[str, Any]], used: Sequence[AvroSchema], raw: pa.RecordBatch
    ) -> Counter[str]:
        """Add columns for fields without one if the rule is to add; otherwise count the fields."""
        unknown: dict[str, pa.Field] = {}
        lacks: dict[str, str] = {}
        for schema in used:
            for name, column in schema.columns.items():
                known = self.columns.get(column.name)
                if known is None:
                    unknown[name] = column
                    continue
                self._fields[column.name] = name
                paths = [*missing_fields(name, known.type, column.type)]
                kind = (
                    merged_type(known.type, column.type) if self.decoding.on_drift == ADD else None
                )
                if paths and kind is not None:
                    self.columns[column.name] = known.with_type(kind)
                else:
                    lacks.update(dict.fromkeys(paths, name))
        counts = {name: sum(name in each for each in found.values()) for name in unknown}
        counts |= {path: sum(name in it for it in found.values()) for path, name in lacks.items()}
        ignored = Counter({name: count for name, count in counts.items() if count})
        self.check_drift(ignored, raw)
        if self.decoding.on_drift != ADD:
            return ignored
        for name, column in unknown.items():
            self.columns[column.name] = column
            self._fields[column.name] = name
        return Counter({path: ignored[path] for path in lacks})


#: What fastavro raises for bytes that are not a record of the schema.
_UNREADABLE = (ValueError, EOFError, IndexError, KeyError, TypeError, OverflowError, struct.error)


def schema_text(registry: str, number: int) -> str | None:
    """The schema of an id; None if the registry has none."""
    if "://" not in registry:
        path = os.path.join(registry, f"{number}.avsc")
        if not os.path.isdir(registry):
            raise ConfigError(f"--registry {registry}: not a directory, and not a URL")
        if not os.path.exists(path):
            return None
        with open(path, encoding="utf-8") as file:
            return file.read()
    if not registry.startswith(("http://", "https://")):
        raise ConfigError(
            f"--registry {registry}: expected a directory, or a URL with http or https"
        )
    url = f"{registry.rstrip('/')}/schemas/ids/{number}"
    try:
        with urlopen(url, timeout=_REGISTRY_TIMEOUT_S) as response:  # noqa: S310 - checked above
            found: str = json.load(response)["schema"]
            return found
    except URLError as error:
        if getattr(error, "code", 0) == 404:
            return None
        raise ConfigError(f"schema registry {registry}: {error}") from None


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """An array of the column's type; times of day and UUIDs become text."""
    if pa.types.is_string(kind):
        values = [each if each is None or isinstance(each, str) else str(each) for each in values]
    return pa.array([_plain(each) for each in values], kind)


def _plain(value: Any) -> Any:
    """The value with UUIDs as text, within lists and records, too."""
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return value
