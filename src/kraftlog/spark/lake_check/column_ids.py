"""The ids that a table's format gives to columns, and whether a file's columns have these ids.

Readers of Iceberg take a file's columns by their ids, whatever their names are; they take the names
only in files without ids, if the table has a mapping of names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: The field of Parquet's metadata that has the id of a column.
_FIELD_ID = b"PARQUET:field_id"


class ColumnIds(NamedTuple):
    #: By dotted path of a column.
    ids: Mapping[str, int]
    #: Whether the table maps these paths to these ids.
    is_mapped: bool

    def wrong(self, schema: pa.Schema) -> str:
        """What readers would take for other columns in a file; empty if there is nothing."""
        found = dict(_ids(list(schema)))
        numbers = {path: number for path, number in found.items() if number is not None}
        if not numbers:
            return "" if self.is_mapped else "its columns have no ids, and the table maps no names"
        texts = [
            f"its column {path} has id {numbers.get(path, 'none')}, the table's has {number}"
            for path, number in self.ids.items()
            if path in found and numbers.get(path) != number
        ]
        paths = {number: path for path, number in self.ids.items()}
        texts += [
            f"its column {path} has id {number}, which is that of {paths[number]}"
            for path, number in numbers.items()
            if paths.get(number, path) != path
        ]
        return "; ".join(texts)


def _ids(fields: list[pa.Field], prefix: str = "") -> Iterator[tuple[str, int | None]]:
    for field in fields:
        path = f"{prefix}{field.name}"
        number = (field.metadata or {}).get(_FIELD_ID)
        yield path, None if number is None else int(number)
        kind = field.type
        if pa.types.is_struct(kind):
            yield from _ids(list(kind), f"{path}.")
        elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
            element = kind.value_field.with_name("element")
            yield from _ids([element], f"{path}.")
