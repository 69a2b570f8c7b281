"""The columns of Iceberg tables as Arrow's, with the ids by which Iceberg knows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

#: The field of Parquet's metadata that has the id of a column.
FIELD_ID = b"PARQUET:field_id"
_TYPES: dict[type, pa.DataType] = {
    BinaryType: pa.binary(),
    BooleanType: pa.bool_(),
    DateType: pa.date32(),
    DoubleType: pa.float64(),
    FloatType: pa.float32(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    StringType: pa.string(),
    TimestamptzType: pa.timestamp("us", tz="UTC"),
}


def new_schema(columns: pa.Schema) -> Schema:
    """The columns with ids, which are the same for the same columns."""
    return assign_fresh_schema_ids(_pyarrow_to_schema_without_ids(columns))


def arrow_columns(schema: Schema) -> pa.Schema:
    """The columns with the types that decoders use; PyIceberg's own have 64-bit lengths."""
    return pa.schema([_arrow_field(field) for field in schema.fields])


def with_ids(columns: pa.Schema, schema: Schema) -> pa.Schema:
    """The columns of a file with their ids, or as they are if the table lacks one of them.

    A file without ids gets them from the table's mapping of names, which knows columns that were
    added after the file was written.
    """
    fields = _fields_with_ids(columns, schema.fields)
    return columns if fields is None else pa.schema(fields)


def _arrow_field(field: NestedField) -> pa.Field:
    return pa.field(field.name, _arrow_type(field.field_type))


def _arrow_type(kind: IcebergType) -> pa.DataType:
    if isinstance(kind, StructType):
        return pa.struct([_arrow_field(field) for field in kind.fields])
    if isinstance(kind, ListType):
        return pa.list_(_arrow_type(kind.element_type))
    if isinstance(kind, MapType):
        return pa.map_(_arrow_type(kind.key_type), _arrow_type(kind.value_type))
    if isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    # Other types are of columns that another program has added.
    return _TYPES.get(type(kind)) or pa.schema(Schema(_nested(kind)).as_arrow()).field(0).type


def _nested(kind: IcebergType) -> NestedField:
    return NestedField(field_id=1, name="column", field_type=kind, required=False)


def _fields_with_ids(
    fields: Iterable[pa.Field], known: Iterable[NestedField]
) -> list[pa.Field] | None:
    by_name = {each.name: each for each in known}
    found = []
    for field in fields:
        if field.name not in by_name:
            return None
        kind = _type_with_ids(field.type, by_name[field.name].field_type)
        if kind is None:
            return None
        found.append(
            _with_id(field.name, kind, by_name[field.name].field_id, nullable=field.nullable)
        )
    return found


def _with_id(name: str, kind: pa.DataType, number: int, *, nullable: bool = True) -> pa.Field:
    return pa.field(name, kind, nullable, metadata={FIELD_ID: str(number).encode()})


def _type_with_ids(kind: pa.DataType, known: Any) -> pa.DataType | None:
    if pa.types.is_struct(kind) and isinstance(known, StructType):
        fields = _fields_with_ids(list(kind), known.fields)
        return None if fields is None else pa.struct(fields)
    if pa.types.is_list(kind) and isinstance(known, ListType):
        element = _type_with_ids(kind.value_type, known.element_type)
        if element is None:
            return None
        return pa.list_(_with_id("element", element, known.element_id))
    if pa.types.is_map(kind) and isinstance(known, MapType):
        key = _type_with_ids(kind.key_type, known.key_type)
        item = _type_with_ids(kind.item_type, known.value_type)
        if key is None or item is None:
            return None
        return pa.map_(
            _with_id("key", key, known.key_id, nullable=False),
            _with_id("value", item, known.value_id),
        )
    return kind
