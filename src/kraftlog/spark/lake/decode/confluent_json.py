"""Values that are JSON objects, each after the id of its JSON Schema in a registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from kraftlog.errors import ConfigError
from kraftlog.records.arrow import row_numbers
from kraftlog.spark.lake.decode.base import ADD, Decoded
from kraftlog.spark.lake.decode.json_values import JsonDecoder, columns_of
from kraftlog.spark.lake.decode.nested import merged_type
from kraftlog.spark.lake.decode.registry import (
    JSON,
    UnusableSchemaError,
    schema_id_of,
    schema_text,
)

if TYPE_CHECKING:
    from kraftlog.spark.lake.decode.base import Decoding


class ConfluentJsonDecoder(JsonDecoder):
    """With the drift rule `ADD`, the columns of fields have the types of the registry's schemas."""

    def __init__(self, decoding: Decoding, table: pa.Schema) -> None:
        super().__init__(decoding, table)
        #: By id: why there is no usable schema, or an empty text.
        self._unusable: dict[int, str] = {}

    def decode(self, raw: pa.RecordBatch) -> Decoded:
        bad: dict[int, str] = {}
        bodies: dict[int, bytes | None] = {}
        for row, value in enumerate(raw.column("value").to_pylist()):
            try:
                bodies[row] = None if value is None else self._body(value)
            except ValueError as error:
                bad[row] = f"not JSON after the id of a schema: {error}"
        rows = list(bodies)
        kept = raw.take(row_numbers(rows)) if bad else raw
        values = pa.array(list(bodies.values()), pa.binary())
        decoded = super().decode(
            kept.set_column(kept.schema.get_field_index("value"), "value", values)
        )
        bad.update({rows[row]: reason for row, reason in decoded.bad.items()})
        return Decoded(decoded.rows, raw, bad, decoded.ignored)

    def _body(self, value: bytes) -> bytes:
        schema_id, start = schema_id_of(value)
        if schema_id not in self._unusable:
            self._unusable[schema_id] = self._take_schema(schema_id)
        if self._unusable[schema_id]:
            raise ValueError(self._unusable[schema_id])
        return value[start:]

    def _take_schema(self, schema_id: int) -> str:
        """Take the columns of a schema over, by the rule for drift; return why it is unusable."""
        try:
            text = schema_text(self.decoding, schema_id, JSON)
        except UnusableSchemaError as error:
            return str(error)
        try:
            columns = columns_of(text, may_lack_types=True)
        except ConfigError as error:
            return f"schema {schema_id}: {error}"
        for name, column in columns.items():
            self._take_column(name, column)
        return ""

    def _take_column(self, field: str, column: pa.Field) -> None:
        existing = self.columns.get(column.name)
        if existing is None:
            if self.decoding.on_drift != ADD or not self._is_free(column.name):
                return  # the rule for drift decides about values with this field
            self.columns[column.name] = column
        elif (merged := merged_type(existing.type, column.type)) is None:
            return  # values of the column's type can still be read
        elif self.decoding.on_drift == ADD:
            self.columns[column.name] = existing.with_type(merged)
        self._fields[column.name] = field
        self._schema_types.setdefault(column.name, column.type)

    def _is_free(self, name: str) -> bool:
        return name.lower() not in {each.lower() for each in self.columns}
