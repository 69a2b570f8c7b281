"""What all decoders share: their options, their result, and what happens to unknown fields."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from kraftlog.errors import KraftlogError
from kraftlog.records.arrow import row_numbers
from kraftlog.spark.lake import layout

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: The rules for drift (--on-drift): what happens to fields that have no column in the table.
FAIL, IGNORE, ADD = "fail", "ignore", "add"
#: Characters that neither Delta nor Parquet's older readers allow in a column's name.
_FORBIDDEN = re.compile(r"[ ,;{}()\n\t=]")


class DriftError(KraftlogError):
    """Values have fields without a column in the table, and the rule is to fail."""


@dataclass
class Decoding:
    """How values are decoded: the options of --decode. Tasks get it as JSON."""

    kind: str
    #: The text of the --schema file.
    schema: str = ""
    registry: str = ""
    on_drift: str = FAIL


@dataclass
class Decoded:
    """The rows that a batch of records adds to the table, and why other records have no row."""

    rows: pa.RecordBatch
    #: All records of the batch, as they are in the log.
    raw: pa.RecordBatch
    #: Why records could not be decoded, by their row in `raw`.
    bad: dict[int, str] = field(default_factory=dict)
    #: By name of a field without a column: the number of records that have the field.
    ignored: Counter[str] = field(default_factory=Counter)


class Decoder(ABC):
    """Decodes the batches of one range of offsets; columns that it adds stay for later batches."""

    def __init__(self, decoding: Decoding, table: pa.Schema) -> None:
        self.decoding = decoding
        #: Columns of values by name: the table's, followed by those that were added.
        self.columns: dict[str, pa.Field] = {
            each.name: each for each in table if each.name not in layout.RESERVED
        }

    @abstractmethod
    def decode(self, raw: pa.RecordBatch) -> Decoded:
        """Decode the values of records with the columns of `layout.RAW`."""

    def result(
        self,
        raw: pa.RecordBatch,
        good: Sequence[int] | None,
        values: Mapping[str, pa.Array],
        bad: dict[int, str],
        ignored: Counter[str],
    ) -> Decoded:
        """A result with the decoded values of the good rows (None: all rows of `raw` are good)."""
        kept = raw if good is None else raw.take(row_numbers(good))
        count = len(kept)
        fields = [raw.schema.field(name) for name in raw.schema.names if name != "value"]
        arrays = [kept.column(each.name) for each in fields]
        for name, column in self.columns.items():
            fields.append(column)
            array = values.get(name)
            arrays.append(pa.nulls(count, column.type) if array is None else array)
        rows = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
        return Decoded(rows, raw, bad, ignored)

    def check_drift(self, fields: Mapping[str, int], raw: pa.RecordBatch) -> None:
        """Raise DriftError for fields without a column, if the rule is to fail."""
        if fields and self.decoding.on_drift == FAIL:
            first, last = raw.column("offset")[0].as_py(), raw.column("offset")[-1].as_py()
            raise DriftError(
                f"partition {raw.column('partition')[0].as_py()}, offsets {first} to {last}: "
                f"values have fields without a column: {', '.join(sorted(fields))}: --on-drift add "
                "adds columns, --on-drift ignore leaves the fields out"
            )


def column_name(name: str) -> str:
    """The column for a field: `_` for forbidden characters, prefix `value_` for a reserved name."""
    allowed = _FORBIDDEN.sub("_", name)
    is_reserved = allowed.lower() in {each.lower() for each in layout.RESERVED}
    return f"value_{allowed}" if is_reserved else allowed
