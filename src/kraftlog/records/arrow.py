"""Record columns as Arrow arrays, without a Python object per record.

Keys, values and the bytes between them alternate in the payload, so the payload with the list of
their boundaries *is* an Arrow binary array. Arrow's `take` copies the wanted elements in C++.

Arrays are made of buffers and read from them, because `pa.array`, `pa.scalar` and `to_numpy`
import pandas where it is installed, which would take longer than many a Spark task does.
"""

from __future__ import annotations

from kraftlog.types import text_as_java
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from kraftlog.records.columns import Numbers, RecordColumns

#: Arrow's ordinary binary arrays count their bytes in 32 bits.
MAX_PAYLOAD = (1 << 31) - 1


def numbers(
    values: NDArray[Any], arrow_type: pa.DataType, nulls: NDArray[np.bool_] | None = None
) -> Any:
    """An Arrow array of contiguous numbers of this type's size, without a copy."""
    import pyarrow as pa

    validity = None if nulls is None else _bits(~nulls)
    return pa.Array.from_buffers(arrow_type, len(values), [validity, pa.py_buffer(values)])


def flags(values: NDArray[np.bool_]) -> Any:
    """An Arrow array of booleans."""
    import pyarrow as pa

    return pa.Array.from_buffers(pa.bool_(), len(values), [None, _bits(values)])


def values_of(column: pa.Array) -> NDArray[Any]:
    """The numbers of an Arrow array, without a copy; null elements have arbitrary numbers."""
    import numpy as np

    dtype = f"i{column.type.bit_width // 8}"
    found = np.frombuffer(column.buffers()[1] or b"", dtype)
    return found[column.offset : column.offset + len(column)]


def nulls_of(column: pa.Array) -> NDArray[np.bool_]:
    """Which elements of an Arrow array are null."""
    import numpy as np

    validity = column.buffers()[0]
    if validity is None:
        return np.zeros(len(column), dtype=bool)
    bits = np.unpackbits(np.frombuffer(validity, np.uint8), bitorder="little")
    found: NDArray[np.bool_] = bits[column.offset : column.offset + len(column)] == 0
    return found


def scalar(value: int, arrow_type: pa.DataType) -> Any:
    """An Arrow scalar."""
    import numpy as np

    return numbers(np.array([value], f"i{arrow_type.bit_width // 8}"), arrow_type)[0]


def row_numbers(rows: Sequence[int]) -> Any:
    """An Arrow array of row numbers, to take rows by."""
    import numpy as np
    import pyarrow as pa

    return numbers(np.array(rows, np.int64), pa.int64())


def byte_strings(values: Sequence[bytes], arrow_type: pa.DataType) -> Any:
    """An Arrow array of this type: of byte strings, or of texts that are given as UTF-8."""
    import numpy as np
    import pyarrow as pa

    ends = np.zeros(len(values) + 1, np.int32)
    np.cumsum([len(value) for value in values], out=ends[1:])
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(values))]
    return pa.Array.from_buffers(arrow_type, len(values), buffers)


def _bits(values: NDArray[np.bool_]) -> Any:
    import numpy as np
    import pyarrow as pa

    return pa.py_buffer(np.packbits(values, bitorder="little"))


def to_arrow(columns: RecordColumns, *, with_headers: bool = True) -> pa.RecordBatch:
    """Convert to columns offset, timestamp, key, value and optionally headers (key, value)."""
    import pyarrow as pa

    keys, values = _binaries(
        columns.payload,
        columns.key_starts,
        columns.key_lengths,
        columns.value_starts,
        columns.value_lengths,
    )
    arrays = {
        "offset": numbers(columns.offsets, pa.int64()),
        "timestamp": numbers(columns.timestamps, pa.timestamp("ms", tz="UTC")),
        "key": keys,
        "value": values,
    }
    if with_headers:
        arrays["headers"] = _headers(columns)
    return pa.RecordBatch.from_pydict(arrays)


def _binaries(
    payload: bytes,
    first_starts: Numbers,
    first_lengths: Numbers,
    second_starts: Numbers,
    second_lengths: Numbers,
) -> tuple[pa.Array, pa.Array]:
    """Two columns of byte strings that alternate in `payload`."""
    import numpy as np
    import pyarrow as pa

    if len(payload) > MAX_PAYLOAD:
        raise ValueError(f"{len(payload)} bytes of records; decode fewer batches at a time")
    count = len(first_starts)
    edges = np.empty(4 * count + 1, dtype=np.int32)
    edges[0:-1:4] = first_starts
    edges[1::4] = first_starts + np.maximum(first_lengths, 0)
    edges[2::4] = second_starts
    edges[3::4] = second_starts + np.maximum(second_lengths, 0)
    edges[-1] = len(payload)
    pieces = pa.Array.from_buffers(
        pa.binary(), 4 * count, [None, pa.py_buffer(edges), pa.py_buffer(payload)]
    )
    indexes = np.arange(0, 4 * count, 4, dtype=np.int32)
    return (
        pieces.take(_unless_null(indexes, first_lengths)),
        pieces.take(_unless_null(indexes + 2, second_lengths)),
    )


def _unless_null(indexes: NDArray[np.int32], lengths: Numbers) -> pa.Array:
    """The indexes as an Arrow array, null where the length is negative."""
    import pyarrow as pa

    nulls = lengths < 0
    return numbers(indexes, pa.int32(), nulls if nulls.any() else None)


def _headers(columns: RecordColumns) -> pa.ListArray:
    import numpy as np
    import pyarrow as pa

    names, values = _binaries(
        columns.payload,
        columns.header_key_starts,
        columns.header_key_lengths,
        columns.header_value_starts,
        columns.header_value_lengths,
    )
    ends = np.zeros(len(columns) + 1, dtype=np.int32)
    columns.header_counts.cumsum(out=ends[1:])
    pairs = pa.StructArray.from_arrays([_text(names), values], names=["key", "value"])
    return pa.ListArray.from_arrays(numbers(ends, pa.int32()), pairs)


def _text(names: pa.Array) -> pa.Array:
    """Convert to strings; invalid UTF-8 becomes U+FFFD, as in Java."""
    import pyarrow as pa

    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [text_as_java(name).encode() for name in names.to_pylist()]
        return byte_strings(texts, pa.string())
