"""What all decoders share: their options, their result, and what happens to unknown fields."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from kraftlog.errors import KraftlogError
from kraftlog.records.arrow import row_numbers
from kraftlog.spark.lake import layout
from kraftlog.spark.schema import MAX_TIME_MS, MIN_TIME_MS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_DAY_MS = 86_400_000
#: The rules for drift (--on-drift): what happens to fields that have no column in the table.
FAIL, IGNORE, ADD = "fail", "ignore", "add"
#: Characters that Delta, Parquet's older readers or UTF-8 do not allow in a column's name.
_FORBIDDEN = re.compile(r"[ ,;{}()=\x00-\x1f\x7f\ud800-\udfff]")


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
    #: What `registry_access` returns; it has secrets.
    registry_access: dict[str, str] = field(default_factory=dict, repr=False)


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
        return Decoded(rows, raw, bad, Counter({_shown(name): ignored[name] for name in ignored}))

    def check_drift(self, fields: Mapping[str, int], raw: pa.RecordBatch) -> None:
        """Raise DriftError for fields without a column, if the rule is to fail."""
        if fields and self.decoding.on_drift == FAIL:
            first, last = raw.column("offset")[0].as_py(), raw.column("offset")[-1].as_py()
            raise DriftError(
                f"partition {raw.column('partition')[0].as_py()}, offsets {first} to {last}: "
                "values have fields without a column: "
                f"{', '.join(sorted(map(_shown, fields)))}: --on-drift add "
                "adds columns, --on-drift ignore leaves the fields out"
            )


def column_name(name: str) -> str:
    """The column for a field: `_` for forbidden characters, prefix `value_` for a reserved name."""
    allowed = _FORBIDDEN.sub("_", name) or "_"
    is_reserved = allowed.lower() in {each.lower() for each in layout.RESERVED}
    return f"value_{allowed}" if is_reserved else allowed


def _shown(name: str) -> str:
    """A field's name for messages and commits, which surrogates without a partner can't be in."""
    return name.encode(errors="backslashreplace").decode()


def check_times(column: pa.Array) -> None:
    """Raise ValueError if a time or date, also within an object, is outside the years 1 to 9999."""
    kind = column.type
    if pa.types.is_struct(kind) or pa.types.is_list(kind):
        children = column.flatten()
        for child in children if isinstance(children, list) else [children]:
            check_times(child)
        return
    if pa.types.is_timestamp(kind):
        least, most = MIN_TIME_MS * 1000, MAX_TIME_MS * 1000 + 999
    elif pa.types.is_date32(kind):
        least, most = MIN_TIME_MS // _DAY_MS, MAX_TIME_MS // _DAY_MS
    else:
        return
    bounds = pc.min_max(column.cast(pa.int64() if pa.types.is_timestamp(kind) else pa.int32()))
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    if low is not None and (low < least or high > most):
        raise ValueError("a time is outside the years 1 to 9999")
