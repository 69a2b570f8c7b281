"""Decodes the keys and values of records as UTF-8 text."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa

from kraftlog.records.arrow import row_numbers
from kraftlog.spark.lake.decode.base import Decoded, Decoder

if TYPE_CHECKING:
    from collections.abc import Iterator


class TextDecoder(Decoder):
    """Columns `key` and `value` are strings; records that are not UTF-8 are dead letters."""

    def decode(self, raw: pa.RecordBatch) -> Decoded:
        try:
            return Decoded(_as_text(raw), raw)
        except pa.ArrowInvalid:
            bad = dict(_not_utf8(raw))
        good = [row for row in range(len(raw)) if row not in bad]
        return Decoded(_as_text(raw.take(row_numbers(good))), raw, bad, Counter())


def text_schema(raw: pa.Schema) -> pa.Schema:
    return pa.schema(
        [pa.field(f.name, pa.string()) if f.name in {"key", "value"} else f for f in raw]
    )


def _as_text(raw: pa.RecordBatch) -> pa.RecordBatch:
    return raw.cast(text_schema(raw.schema))


def _not_utf8(raw: pa.RecordBatch) -> Iterator[tuple[int, str]]:
    for name in ("value", "key"):
        for row, data in enumerate(raw.column(name).to_pylist()):
            try:
                (data or b"").decode()
            except UnicodeDecodeError as error:
                yield row, f"the {name} is not UTF-8: {error.reason} at byte {error.start}"
