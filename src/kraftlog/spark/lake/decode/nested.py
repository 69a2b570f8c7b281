"""Compares and merges the types of columns that are objects, or arrays of objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator


def merged_type(known: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """`known` and the fields that only `other` has; None if the types of a field conflict."""
    if pa.types.is_struct(known) and pa.types.is_struct(other):
        others = {field.name: field for field in other}
        fields = []
        for field in known:
            counterpart = others.pop(field.name, field)
            kind = merged_type(field.type, counterpart.type)
            if kind is None:
                return None
            fields.append(pa.field(field.name, kind, field.nullable))
        return pa.struct([*fields, *others.values()])
    if pa.types.is_list(known) and pa.types.is_list(other):
        kind = merged_type(known.value_type, other.value_type)
        return None if kind is None else pa.list_(kind)
    return known if known == other else None


def missing_fields(name: str, known: pa.DataType, other: pa.DataType) -> Iterator[str]:
    """The fields within a column that `other` has and `known` lacks, such as `address.city`."""
    if pa.types.is_struct(known) and pa.types.is_struct(other):
        known_types = {field.name: field.type for field in known}
        for field in other:
            if field.name in known_types:
                yield from missing_fields(
                    f"{name}.{field.name}", known_types[field.name], field.type
                )
            else:
                yield f"{name}.{field.name}"
    elif pa.types.is_list(known) and pa.types.is_list(other):
        yield from missing_fields(f"{name}[]", known.value_type, other.value_type)
