"""Values that are JSON objects, with the columns of a JSON Schema.

Arrow parses all values of a batch at once. Only if it refuses them are they parsed one by one.
"""

from __future__ import annotations

import json
from collections import Counter
from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.json as pj

from kraftlog.errors import ConfigError
from kraftlog.spark.lake.decode.base import ADD, Decoded, Decoder, column_name

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


def columns_of(text: str) -> dict[str, pa.Field]:
    """The columns by the name of their field; a required field can't be null."""
    schema = _parsed(text)
    properties = schema.get("properties")
    if schema.get("type", "object") != "object" or not isinstance(properties, dict):
        raise ConfigError(
            'the JSON Schema has no properties: expected {"type": "object", "properties": {…}}'
        )
    return {
        name: pa.field(column_name(name), _type_of(name, kind)) for name, kind in properties.items()
    }


def _parsed(text: str) -> dict[str, Any]:
    try:
        schema = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"the JSON Schema is not JSON: {error}") from None
    if not isinstance(schema, dict):
        raise ConfigError("the JSON Schema is not an object")
    return schema


def _type_of(name: str, schema: Any) -> pa.DataType:
    kind = schema.get("type") if isinstance(schema, dict) else None
    if isinstance(kind, list):
        left = [each for each in kind if each != "null"]
        kind = left[0] if len(left) == 1 else None
    if kind == "string" and schema.get("format") in _FORMATS:
        return _FORMATS[schema["format"]]
    if kind in _SCALARS:
        return _SCALARS[kind]
    if kind == "array" and "items" in schema:
        return pa.list_(_type_of(f"{name}[]", schema["items"]))
    if kind == "object" and schema.get("properties"):
        return pa.struct(
            [(each, _type_of(f"{name}.{each}", it)) for each, it in schema["properties"].items()]
        )
    raise ConfigError(
        f"the JSON Schema's field {name} has no type that a column can have: expected "
        f"{', '.join(_SCALARS)}, an array with items, or an object with properties"
    )


class JsonDecoder(Decoder):
    def __init__(self, decoding: Decoding, table: pa.Schema) -> None:
        super().__init__(decoding, table)
        given = columns_of(decoding.schema)
        #: The field of each column; one that was added has its name.
        self._fields = dict.fromkeys(self.columns, "")
        self._fields.update({name: name for name in self.columns})
        self._fields.update(
            {each.name: field for field, each in given.items() if each.name in self.columns}
        )
        #: The types that --schema gives to columns; what it does not have was added.
        self._given = {each.name: each.type for each in given.values()}
        self._required = frozenset(_parsed(decoding.schema).get("required", ()))

    def decode(self, raw: pa.RecordBatch) -> Decoded:
        values = raw.column("value")
        if not values.null_count and _are_lines(values):
            data = b"\n".join(values.to_pylist())
            found = self._read(data, len(raw), "error")
            if found is not None and not self._lacks(found):
                return self.result(raw, None, found, {}, Counter())
        return self._one_by_one(raw, values.to_pylist())

    def _lacks(self, found: Mapping[str, pa.Array]) -> bool:
        return any(
            found[column].null_count
            for column, field in self._fields.items()
            if field in self._required
        )

    def _one_by_one(self, raw: pa.RecordBatch, values: Sequence[bytes | None]) -> Decoded:
        bad: dict[int, str] = {}
        parsed: dict[int, dict[str, Any]] = {}
        for row, value in enumerate(values):
            found = {} if value is None else _object(value)
            if isinstance(found, str):
                bad[row] = found
            elif value is not None and (missing := self._missing(found)):
                bad[row] = f"without the required field {missing}"
            else:
                parsed[row] = found
        ignored = self._learn(parsed, raw)
        lines = {row: self._line(values[row], found) for row, found in parsed.items()}
        bad.update(self._unfit(list(parsed), lines))
        good = [row for row in parsed if row not in bad]
        columns = self._read(b"\n".join(lines[row] for row in good), len(good), "ignore")
        assert columns is not None, "each half of the rows was read before"
        return self.result(raw, good, columns, bad, ignored)

    def _missing(self, found: Mapping[str, Any]) -> str:
        return next((name for name in sorted(self._required) if found.get(name) is None), "")

    def _learn(self, parsed: Mapping[int, dict[str, Any]], raw: pa.RecordBatch) -> Counter[str]:
        """Count fields without a column, and add columns for them if the rule is to add."""
        known = set(self._fields.values())
        unknown: dict[str, list[Any]] = {}
        for found in parsed.values():
            for name, value in found.items():
                if name not in known and value is not None:
                    unknown.setdefault(name, []).append(value)
        nested = self._count_nested(parsed)
        self.check_drift({**dict.fromkeys(unknown, 1), **nested}, raw)
        if self.decoding.on_drift == ADD and nested:
            for column, name in self._fields.items():
                kind = self.columns[column].type
                examples = [found.get(name) for found in parsed.values()]
                self.columns[column] = self.columns[column].with_type(_extended(kind, examples))
            nested = self._count_nested(parsed)
        ignored = nested
        taken = {name.lower() for name in self.columns}
        for name, examples in unknown.items():
            kind = _inferred(examples) if _is_free(name, taken) else None
            if self.decoding.on_drift != ADD or kind is None:
                ignored[name] += len(examples)
                continue
            self.columns[name] = pa.field(name, kind)
            self._fields[name] = name
        return ignored

    def _count_nested(self, parsed: Mapping[int, dict[str, Any]]) -> Counter[str]:
        """Fields within objects that the types of columns do not have."""
        counts: Counter[str] = Counter()
        for column, name in self._fields.items():
            kind = self.columns[column].type
            if pa.types.is_nested(kind):
                for found in parsed.values():
                    counts.update(_extra(name, found.get(name), kind))
        return counts

    def _line(self, value: bytes | None, found: Mapping[str, Any]) -> bytes:
        """The value in one line, with objects and arrays as their JSON in columns for texts."""
        if value is None:
            return b"{}"
        texts = {
            name: _with_texts(found[name], self.columns[column].type, self._given.get(column))
            for column, name in self._fields.items()
            if isinstance(found.get(name), dict | list)
        }
        if any(texts[name] != found[name] for name in texts):
            return json.dumps({**found, **texts}).encode()
        # Line breaks of JSON are only between its words.
        return value.replace(b"\n", b" ").replace(b"\r", b" ")

    def _unfit(self, rows: Sequence[int], lines: Mapping[int, bytes]) -> Iterator[tuple[int, str]]:
        """The rows that Arrow can't read as the columns' types, found by halving."""
        reasons: list[str] = []
        data = b"\n".join(lines[row] for row in rows)
        if not rows or self._read(data, len(rows), "ignore", reasons) is not None:
            return
        if len(rows) == 1:
            yield rows[0], reasons[-1]
            return
        middle = len(rows) // 2
        yield from self._unfit(rows[:middle], lines)
        yield from self._unfit(rows[middle:], lines)

    def _read(
        self, data: bytes, count: int, unexpected: str, reasons: list[str] | None = None
    ) -> dict[str, pa.Array] | None:
        """The columns of `count` objects; None if they can't be read."""
        if not count:
            return {name: pa.nulls(0, each.type) for name, each in self.columns.items()}
        schema = pa.schema(
            [(field, self.columns[name].type) for name, field in self._fields.items()]
        )
        try:
            found = pj.read_json(
                BytesIO(data),
                pj.ReadOptions(use_threads=False, block_size=len(data) + 1),
                pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected),
            )
        except pa.ArrowInvalid as error:
            if reasons is not None:
                reasons.append(str(error))
            return None
        if len(found) != count:
            return None
        return {
            name: _whole(found.column(field), self.columns[name].type)
            for name, field in self._fields.items()
        }


def _whole(column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    found = column.combine_chunks()
    array = found if isinstance(found, pa.Array) else pa.concat_arrays(found.chunks)
    return array if array.type == kind else array.cast(kind)


def _are_lines(values: pa.Array) -> bool:
    """Whether each value is one line from { to }, so that lines stay with their records.

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
    """The object, or a text that says what is wrong."""
    try:
        found = json.loads(value)
    except (ValueError, RecursionError) as error:
        return f"not JSON: {error}"
    return found if isinstance(found, dict) else "not a JSON object"


def _with_texts(value: Any, kind: pa.DataType, given: pa.DataType | None) -> Any:
    """The value with objects and arrays as their JSON where a column was added for texts."""
    if given is None:
        is_text = pa.types.is_string(kind) and isinstance(value, dict | list)
        return json.dumps(value, ensure_ascii=False) if is_text else value
    if pa.types.is_struct(kind) and isinstance(value, dict):
        own = {field.name: field.type for field in given}
        types = {field.name: field.type for field in kind}
        return {
            name: _with_texts(it, types[name], own.get(name)) if name in types else it
            for name, it in value.items()
        }
    if pa.types.is_list(kind) and isinstance(value, list):
        return [_with_texts(it, kind.value_type, given.value_type) for it in value]
    return value


def _extended(kind: pa.DataType, values: Sequence[Any]) -> pa.DataType:
    """The type with the fields that only these values have, unless their types do not agree."""
    if pa.types.is_list(kind):
        items = [it for value in values if isinstance(value, list) for it in value]
        return pa.list_(_extended(kind.value_type, items))
    if not pa.types.is_struct(kind):
        return kind
    found: dict[str, list[Any]] = {field.name: [] for field in kind}
    for value in values:
        for name, it in value.items() if isinstance(value, dict) else ():
            if it is not None:
                found.setdefault(name, []).append(it)
    fields = [field.with_type(_extended(field.type, found.pop(field.name))) for field in kind]
    taken = {field.name.lower() for field in fields}
    for name, examples in found.items():
        added = _inferred(examples) if _is_free(name, taken) else None
        if added is not None:
            fields.append(pa.field(name, added))
            taken.add(name.lower())
    return pa.struct(fields)


def _is_free(name: str, taken: Container[str]) -> bool:
    """Whether a new column or field can have its own name."""
    return column_name(name) == name and name.lower() not in taken


def _extra(name: str, value: Any, kind: pa.DataType) -> Iterator[str]:
    """Fields within objects that the type of a column does not have."""
    if pa.types.is_struct(kind) and isinstance(value, dict):
        known = {field.name: field.type for field in kind}
        for each, it in value.items():
            if each not in known and it is not None:
                yield f"{name}.{each}"
            elif each in known:
                yield from _extra(f"{name}.{each}", it, known[each])
    elif pa.types.is_list(kind) and isinstance(value, list):
        for it in value:
            yield from _extra(f"{name}[]", it, kind.value_type)


def _inferred(examples: Sequence[Any]) -> pa.DataType | None:
    """The type of a new column; None if the values do not agree on one.

    That of objects and arrays is text: what is in them may differ from record to record, and tasks
    that add a column at the same time have to choose the same type.
    """
    kinds = {type(value) for value in examples}
    if kinds == {int}:
        return pa.int64()
    if kinds <= {int, float}:
        return pa.float64()
    if kinds == {str} or kinds <= {dict, list}:
        return pa.string()
    return pa.bool_() if kinds == {bool} else None
