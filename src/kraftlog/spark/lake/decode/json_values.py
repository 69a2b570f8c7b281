"""Values that are JSON objects, with the columns of a JSON Schema.

Arrow parses all values of a batch at once if each is a line with known fields, and none lacks a
required one. Otherwise the values are parsed one by one.
"""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from collections import Counter
from contextlib import suppress
from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.json as pj

from kraftlog.errors import ConfigError
from kraftlog.spark.lake.decode.base import ADD, Decoded, Decoder, check_times, column_name

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence
    from typing import Any

    from kraftlog.spark.lake.decode.base import Decoding

_SCALARS = {
    "string": pa.string(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
}
_FORMATS = {"date-time": pa.timestamp("us", tz="UTC"), "date": pa.date32()}
_OPEN, _CLOSE, _NEWLINE = b"{}\n"


def columns_of(text: str, *, may_lack_types: bool = False) -> dict[str, pa.Field]:
    """The columns that a JSON Schema defines, by the name of their field.

    Fields without a type that a column can have are left out with `may_lack_types`.
    """
    schema = _parsed(text)
    properties = schema.get("properties")
    if schema.get("type", "object") != "object" or not isinstance(properties, dict):
        raise ConfigError(
            'the JSON Schema has no properties: expected {"type": "object", "properties": {…}}'
        )
    columns: dict[str, pa.Field] = {}
    for name, kind in properties.items():
        try:
            columns[name] = pa.field(column_name(name), _type_of(name, kind))
        except ConfigError:
            if not may_lack_types:
                raise
    return columns


def _parsed(text: str) -> dict[str, Any]:
    try:
        schema = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"the JSON Schema is not JSON: {error}") from None
    if not isinstance(schema, dict):
        raise ConfigError("the JSON Schema is not an object")
    return schema


def _type_of(name: str, schema: Any) -> pa.DataType:
    schema = _without_null(schema)
    kind = schema.get("type") if isinstance(schema, dict) else None
    if isinstance(kind, list):
        types = [entry for entry in kind if entry != "null"]
        kind = types[0] if len(types) == 1 else None
    if kind == "string" and schema.get("format") in _FORMATS:
        return _FORMATS[schema["format"]]
    if kind in _SCALARS:
        return _SCALARS[kind]
    if kind == "array" and "items" in schema:
        return pa.list_(_type_of(f"{name}[]", schema["items"]))
    if kind == "object" and schema.get("properties"):
        return pa.struct(
            [
                (field, _type_of(f"{name}.{field}", field_schema))
                for field, field_schema in schema["properties"].items()
            ]
        )
    raise ConfigError(
        f"the JSON Schema's field {name} has no type that a column can have: expected "
        f"{', '.join(_SCALARS)}, an array with items, or an object with properties"
    )


def _without_null(schema: Any) -> Any:
    """The schema, or the only alternative to null, as generators write optional fields."""
    for name in ("oneOf", "anyOf"):
        alternatives = schema.get(name) if isinstance(schema, dict) else None
        if isinstance(alternatives, list):
            others = [each for each in alternatives if each != {"type": "null"}]
            return others[0] if len(others) == 1 else schema
    return schema


class JsonDecoder(Decoder):
    def __init__(self, decoding: Decoding, table: pa.Schema) -> None:
        super().__init__(decoding, table)
        schema_columns = columns_of(decoding.schema) if decoding.schema else {}
        #: The field of each column; an added column has the name of its field.
        self._fields = {name: name for name in self.columns}
        self._fields.update(
            {
                each.name: field
                for field, each in schema_columns.items()
                if each.name in self.columns
            }
        )
        #: The types that a schema gives to columns; all other columns and fields were added.
        self._schema_types = {each.name: each.type for each in schema_columns.values()}
        self._required = frozenset(
            _parsed(decoding.schema).get("required", ()) if decoding.schema else ()
        )

    def decode(self, raw: pa.RecordBatch) -> Decoded:
        values = raw.column("value")
        if not values.null_count and _are_lines(values):
            with suppress(ValueError):
                columns = self._read(values.to_pylist(), "error")
                if not self._lacks_required(columns):
                    return self.result(raw, None, columns, {}, Counter())
        return self._decode_one_by_one(raw, values.to_pylist())

    def _lacks_required(self, columns: Mapping[str, pa.Array]) -> bool:
        return any(
            columns[column].null_count
            for column, field in self._fields.items()
            if field in self._required
        )

    def _decode_one_by_one(self, raw: pa.RecordBatch, values: Sequence[bytes | None]) -> Decoded:
        bad: dict[int, str] = {}
        parsed: dict[int, dict[str, Any]] = {}
        for row, value in enumerate(values):
            record = {} if value is None else _object(value)
            if isinstance(record, str):
                bad[row] = record
            elif value is not None and (missing := self._missing_required(record)):
                bad[row] = f"without the required field {missing}"
            else:
                parsed[row] = record
        ignored = self._apply_drift_rule(parsed, raw)
        lines: dict[int, bytes] = {}
        for row, record in parsed.items():
            try:
                lines[row] = self._line(values[row], record)
            except RecursionError:
                bad[row] = "objects or arrays are nested too deeply"
        parts = list(self._read_parts(list(lines), lines, bad))
        columns = {
            name: pa.concat_arrays([part[name] for part in parts])
            if parts
            else pa.nulls(0, column.type)
            for name, column in self.columns.items()
        }
        good = [row for row in lines if row not in bad]
        return self.result(raw, good, columns, bad, ignored)

    def _missing_required(self, record: Mapping[str, Any]) -> str:
        return next((name for name in sorted(self._required) if record.get(name) is None), "")

    def _apply_drift_rule(
        self, parsed: Mapping[int, dict[str, Any]], raw: pa.RecordBatch
    ) -> Counter[str]:
        """Add unknown fields to the columns if the drift rule is `ADD`; count the ignored ones."""
        fields_with_column = set(self._fields.values())
        unknown: dict[str, list[Any]] = {}
        for record in parsed.values():
            for name, value in record.items():
                if name not in fields_with_column and value is not None:
                    unknown.setdefault(name, []).append(value)
        nested = self._count_nested(parsed)
        self.check_drift({**dict.fromkeys(unknown, 1), **nested}, raw)
        if self.decoding.on_drift == ADD and nested:
            for column, name in self._fields.items():
                kind = self.columns[column].type
                examples = [record.get(name) for record in parsed.values()]
                self.columns[column] = self.columns[column].with_type(
                    _extended_type(kind, examples)
                )
            nested = self._count_nested(parsed)
        ignored = nested
        taken = {name.lower() for name in self.columns}
        for name, examples in unknown.items():
            kind = _inferred_type(examples) if _is_free(name, taken) else None
            if self.decoding.on_drift != ADD or kind is None:
                ignored[name] += len(examples)
                continue
            self.columns[name] = pa.field(name, kind)
            self._fields[name] = name
            taken.add(name.lower())
        return ignored

    def _count_nested(self, parsed: Mapping[int, dict[str, Any]]) -> Counter[str]:
        """Count the fields, within objects, that the types of their columns lack."""
        counts: Counter[str] = Counter()
        for column, name in self._fields.items():
            kind = self.columns[column].type
            if pa.types.is_nested(kind):
                for record in parsed.values():
                    counts.update(_extra_fields(name, record.get(name), kind))
        return counts

    def _line(self, value: bytes | None, record: Mapping[str, Any]) -> bytes:
        """The value as a line of JSON, with objects and arrays as text in added string columns."""
        if value is None:
            return b"{}"
        texts = {
            name: _with_texts(
                record[name], self.columns[column].type, self._schema_types.get(column)
            )
            for column, name in self._fields.items()
            if isinstance(record.get(name), dict | list)
        }
        if any(texts[name] != record[name] for name in texts):
            return json.dumps({**record, **texts}).encode()
        # Valid JSON has line breaks only between its tokens.
        return value.removeprefix(BOM_UTF8).replace(b"\n", b" ").replace(b"\r", b" ")

    def _read_parts(
        self, rows: Sequence[int], lines: Mapping[int, bytes], bad: dict[int, str]
    ) -> Iterator[dict[str, pa.Array]]:
        """The columns of all rows that Arrow can read, in parts; bisection finds the bad ones."""
        if not rows:
            return
        try:
            yield self._read([lines[row] for row in rows], "ignore")
        except ValueError as error:
            if len(rows) == 1:
                bad[rows[0]] = str(error)
                return
            middle = len(rows) // 2
            yield from self._read_parts(rows[:middle], lines, bad)
            yield from self._read_parts(rows[middle:], lines, bad)

    def _read(self, lines: Sequence[bytes], unexpected: str) -> dict[str, pa.Array]:
        """The columns of lines of JSON; ValueError if they can't be columns of these types.

        `unexpected` is what Arrow does with unknown fields: "error" or "ignore".
        """
        data = b"\n".join(lines)
        data.decode()  # Arrow would put bytes that are not UTF-8 into columns of text
        schema = pa.schema(
            [(field, self.columns[name].type) for name, field in self._fields.items()]
        )
        table = pj.read_json(
            BytesIO(data),
            pj.ReadOptions(use_threads=False, block_size=len(data) + 1),
            pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected),
        )
        if len(table) != len(lines):
            raise ValueError(f"{len(lines)} values are {len(table)} lines of JSON")
        columns = {
            name: _as_array(table.column(field), self.columns[name].type)
            for name, field in self._fields.items()
        }
        for column in columns.values():
            check_times(column)
        return columns


def _as_array(column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    combined = column.combine_chunks()
    array = combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)
    return array if array.type == kind else array.cast(kind)


def _are_lines(values: pa.Array) -> bool:
    """Whether each value is a single line from { to }, so that Arrow reads one row for each record.

    Arrow skips empty lines, and reads two objects of a line as two rows.
    """
    _, offsets, data = values.buffers()
    if data is None or not len(values):
        return False
    edges = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    octets = np.frombuffer(data, np.uint8)
    starts, ends = edges[:-1], edges[1:]
    if not (ends > starts).all():
        return False
    used = octets[edges[0] : edges[-1]]
    return bool(
        (octets[starts] == _OPEN).all()
        and (octets[ends - 1] == _CLOSE).all()
        and not (used == _NEWLINE).any()
    )


def _object(value: bytes) -> dict[str, Any] | str:
    """The parsed object, or why there is none. It is UTF-8, perhaps with a byte-order mark."""
    try:
        parsed = json.loads(value.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        return f"not UTF-8: {error.reason} at byte {error.start}"
    except (ValueError, RecursionError) as error:
        return f"not JSON: {error}"
    return parsed if isinstance(parsed, dict) else "not a JSON object"


def _with_texts(value: Any, kind: pa.DataType, schema_type: pa.DataType | None) -> Any:
    """The value; objects and arrays are JSON text where an added column or field is a string."""
    if schema_type is None:
        is_text = pa.types.is_string(kind) and isinstance(value, dict | list)
        return json.dumps(value, ensure_ascii=False) if is_text else value
    if pa.types.is_struct(kind) and isinstance(value, dict):
        schema_types = {field.name: field.type for field in schema_type}
        types = {field.name: field.type for field in kind}
        return {
            name: _with_texts(item, types[name], schema_types.get(name)) if name in types else item
            for name, item in value.items()
        }
    if pa.types.is_list(kind) and isinstance(value, list):
        return [_with_texts(item, kind.value_type, schema_type.value_type) for item in value]
    return value


def _extended_type(kind: pa.DataType, values: Sequence[Any]) -> pa.DataType:
    """The type extended by the fields of these values; fields of conflicting types are left out."""
    if pa.types.is_list(kind):
        items = [item for value in values if isinstance(value, list) for item in value]
        return pa.list_(_extended_type(kind.value_type, items))
    if not pa.types.is_struct(kind):
        return kind
    by_field: dict[str, list[Any]] = {field.name: [] for field in kind}
    for value in values:
        for name, item in value.items() if isinstance(value, dict) else ():
            if item is not None:
                by_field.setdefault(name, []).append(item)
    fields = [
        field.with_type(_extended_type(field.type, by_field.pop(field.name))) for field in kind
    ]
    taken = {field.name.lower() for field in fields}
    for name, examples in by_field.items():
        added = _inferred_type(examples) if _is_free(name, taken) else None
        if added is not None:
            fields.append(pa.field(name, added))
            taken.add(name.lower())
    return pa.struct(fields)


def _is_free(name: str, taken: Container[str]) -> bool:
    """Whether a new column or field can have this name unchanged."""
    return column_name(name) == name and name.lower() not in taken


def _extra_fields(name: str, value: Any, kind: pa.DataType) -> Iterator[str]:
    """The paths of the fields within a value that the type of its column lacks."""
    if pa.types.is_struct(kind) and isinstance(value, dict):
        types = {field.name: field.type for field in kind}
        for field_name, item in value.items():
            if field_name not in types and item is not None:
                yield f"{name}.{field_name}"
            elif field_name in types:
                yield from _extra_fields(f"{name}.{field_name}", item, types[field_name])
    elif pa.types.is_list(kind) and isinstance(value, list):
        for item in value:
            yield from _extra_fields(f"{name}[]", item, kind.value_type)


def _inferred_type(examples: Sequence[Any]) -> pa.DataType | None:
    """The type of a new column; None if the values do not agree on one.

    Objects and arrays become text: their content may differ from record to record, and tasks that
    add a column at the same time have to choose the same type.
    """
    kinds = {type(value) for value in examples}
    if kinds == {int}:
        return pa.int64()
    if kinds <= {int, float}:
        return pa.float64()
    if kinds == {str} or kinds <= {dict, list}:
        return pa.string()
    return pa.bool_() if kinds == {bool} else None
