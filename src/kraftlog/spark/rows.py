"""Turns fetched batches into Arrow record batches with the columns of Spark's Kafka connector."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from kraftlog.errors import CorruptBatchError
from kraftlog.records.arrow import flags, numbers, to_arrow
from kraftlog.records.columns import decode_payloads
from kraftlog.records.reader import MAX_RECORDS_SIZE, check_crc, records_payload
from kraftlog.spark.schema import MAX_TIME_MS, MIN_TIME_MS, arrow_schema
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kraftlog.client.range_reader import FetchedBatches
    from kraftlog.records.columns import Numbers, RecordColumns
    from kraftlog.records.header import BatchHeader
    from kraftlog.spark.ranges import OffsetRange

#: The most decompressed bytes in an Arrow batch, unless a single Kafka batch has more.
_PAYLOAD_BYTES = 32 << 20
#: Values of `timestampType`, as in Java: the time is the producer's, or the broker's.
CREATE_TIME = 0
#: The times in milliseconds that Spark's timestamps, 64 bits of microseconds, can have.
_SPARK_TIMES_MS = (-(2**63) // 1000 + 1, (2**63 - 1) // 1000)


class RowMaker:
    """Makes rows of one partition; the columns of topic and partition are reused.

    A record's time is any number of 64 bits. `timestamp` is null if it can't hold the time: in rows
    for a table if it is outside the years 1 to 9999, and `OUT_OF_RANGE` then has the time.
    """

    def __init__(
        self, offset_range: OffsetRange, *, with_headers: bool, for_table: bool = False
    ) -> None:
        self._range = offset_range
        self._with_headers = with_headers
        self._for_table = for_table
        self._times_ms = (MIN_TIME_MS, MAX_TIME_MS) if for_table else _SPARK_TIMES_MS
        self._schema = arrow_schema(with_headers=with_headers, for_table=for_table)
        self._make_constants(1)

    def rows(self, fetched: FetchedBatches) -> Iterator[pa.RecordBatch]:
        """Check, decompress and decode the batches; rows outside of the range are left out."""
        headers: list[BatchHeader] = []
        payloads: list[bytes] = []
        size = 0
        for position, header in fetched.batches:
            with self._named_errors(header, header):
                check_crc(fetched.data, header, position)
                payload = records_payload(fetched.data, header, position, max_size=MAX_RECORDS_SIZE)
            if headers and size + len(payload) > _PAYLOAD_BYTES:
                yield self._decoded(headers, payloads)
                headers, payloads, size = [], [], 0
            headers.append(header)
            payloads.append(payload)
            size += len(payload)
        if headers:
            yield self._decoded(headers, payloads)

    def _decoded(self, headers: Sequence[BatchHeader], payloads: Sequence[bytes]) -> pa.RecordBatch:
        with self._named_errors(headers[0], headers[-1]):
            columns = decode_payloads(headers, payloads)
        count = len(columns)
        decoded = to_arrow(columns, with_headers=self._with_headers)
        self._extend_constants(count)
        timestamps, out_of_range = self._times(columns.timestamps)
        arrays = [
            decoded.column("key"),
            decoded.column("value"),
            self._topics.slice(0, count),
            self._partitions.slice(0, count),
            decoded.column("offset"),
            timestamps,
            self._timestamp_types(headers, count),
        ]
        if self._with_headers:
            arrays.append(_null_if_empty(decoded.column("headers"), columns))
        if self._for_table:
            arrays.append(out_of_range)
        rows = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        if headers[0].base_offset >= self._range.start and headers[-1].next_offset <= (
            self._range.end
        ):
            return rows
        in_range = (columns.offsets >= self._range.start) & (columns.offsets < self._range.end)
        return rows.filter(flags(in_range))

    @contextmanager
    def _named_errors(self, first: BatchHeader, last: BatchHeader) -> Iterator[None]:
        """Add the partition and the offsets to the error of a corrupt batch."""
        try:
            yield
        except CorruptBatchError as error:
            raise CorruptBatchError(
                f"{self._range.topic}-{self._range.partition}, offsets {first.base_offset} to "
                f"{last.last_offset}: {error.what}"
            ) from None

    def _times(self, times_ms: Numbers) -> tuple[pa.Array, pa.Array]:
        """The column `timestamp`, and the times that it can't hold."""
        least, most = self._times_ms
        fits = (times_ms >= least) & (times_ms <= most)
        kind = pa.timestamp("us", tz="UTC")
        if fits.all():
            return numbers(times_ms * 1000, kind), pa.nulls(len(times_ms), pa.int64())
        return (
            numbers(np.where(fits, times_ms, 0) * 1000, kind, ~fits),
            numbers(times_ms, pa.int64(), fits),
        )

    def _timestamp_types(self, headers: Sequence[BatchHeader], count: int) -> pa.Array:
        if not any(header.has_log_append_time for header in headers):
            return self._types.slice(0, count)
        types = np.array([header.has_log_append_time for header in headers], dtype=np.int32)
        return numbers(types.repeat([header.record_count for header in headers]), pa.int32())

    def _extend_constants(self, count: int) -> None:
        """Make the constant columns at least this long; slicing longer ones costs nothing."""
        if len(self._topics) < count:
            self._make_constants(count + count // 8)

    def _make_constants(self, count: int) -> None:
        topic = self._range.topic.encode()
        ends = np.arange(0, (count + 1) * len(topic), len(topic), dtype=np.int32)
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(topic * count)]
        self._topics = pa.Array.from_buffers(pa.string(), count, buffers)
        self._partitions = _constant(self._range.partition, count)
        self._types = _constant(CREATE_TIME, count)


def _null_if_empty(headers: pa.ListArray, columns: RecordColumns) -> pa.ListArray:
    """The headers with null instead of an empty list, as from Spark's own Kafka connector."""
    is_empty = flags(columns.header_counts == 0)
    return pa.ListArray.from_arrays(headers.offsets, headers.values, mask=is_empty)


def _constant(value: int, count: int) -> pa.Array:
    return numbers(np.full(count, value, dtype=np.int32), pa.int32())
