"""Writes rows to topics: chooses the partition of each row, and encodes and sends batches.

Rows are collected up to a few megabytes, so that each partition's batches are large. Partitions,
sizes and encoded records are computed for whole columns, not row by row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kraftlog.client.deadline import wall_ms
from kraftlog.errors import ConfigError, RefusedError, UnsupportedApiError
from kraftlog.records.arrow import byte_strings, nulls_of, numbers, scalar, values_of
from kraftlog.records.encode_columns import (
    RECORD_OVERHEAD,
    HeaderColumn,
    concatenated_headers,
    encode_batches,
    encode_headers,
)
from kraftlog.records.header import HEADER_SIZE
from kraftlog.spark.key_hash import partitions_of
from kraftlog.spark.sink_columns import Rows
from kraftlog.spark.sink_options import ROW_ID_HEADER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraftlog.client.batch_sender import BatchSender
    from kraftlog.client.cluster import Cluster
    from kraftlog.client.model import PartitionName
    from kraftlog.records.encode_columns import EncodedBatch, Numbers
    from kraftlog.spark.sink_options import SinkOptions

#: Rows are collected until they have this many bytes, or this many rows.
_COLLECTED_BYTES = 8 << 20
_COLLECTED_ROWS = 200_000
#: A destination is one number: the topic's number times this, plus the partition, an int32.
_TOPIC_FACTOR = 1 << 32


class RowProducer:
    """Writes the rows of a task; with `task`, each record gets a header `<task>:<row number>`."""

    def __init__(
        self, cluster: Cluster, sender: BatchSender, options: SinkOptions, task: str = ""
    ) -> None:
        self._cluster = cluster
        self._sender = sender
        self._options = options
        self._task = task
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self._waiting_rows = 0
        #: how many rows have been passed to the sender
        self.count = 0
        #: by topic: the most bytes of a batch
        self._limits: dict[str, int] = {}
        #: by topic: the next turn, a number that `_in_turn` maps to a partition
        self._next_turns: dict[str, int] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self._waiting_bytes += batch.nbytes
        self._waiting_rows += batch.num_rows
        if self._waiting_bytes >= _COLLECTED_BYTES or self._waiting_rows >= _COLLECTED_ROWS:
            self._send()

    def flush(self) -> None:
        """Write all rows; return when they are acknowledged."""
        self._send()
        self._sender.flush()

    def _send(self) -> None:
        if self._waiting_rows:
            # One array per column, without chunks.
            combined = pa.Table.from_batches(self._waiting).combine_chunks().to_batches()
            for batch in combined:
                self._sender.send(self._batches(Rows(batch, self._options.topic)))
                self.count += batch.num_rows
        self._waiting, self._waiting_bytes, self._waiting_rows = [], 0, 0

    def _batches(self, rows: Rows) -> Iterator[tuple[PartitionName, EncodedBatch]]:
        """Encode rows, sorted by partition, in their order within each partition."""
        keys = rows.keys if rows.keys is not None else pa.nulls(rows.count, pa.binary())
        values = rows.values
        assert values is not None
        headers = self._headers(rows)
        sizes = record_sizes(keys, values, headers)
        topics, topic_numbers = rows.topics()
        destinations = self._destinations(rows, topics, topic_numbers, sizes)
        timestamps = rows.timestamps_ms()
        if (destinations[1:] < destinations[:-1]).any():
            order = destinations.argsort(kind="stable")
            destinations, sizes, timestamps = destinations[order], sizes[order], timestamps[order]
            row_order = numbers(order, pa.int64())
            keys, values = keys.take(row_order), values.take(row_order)
            if headers is not None:
                headers = HeaderColumn(headers.encoded.take(row_order), headers.counts[order])
        partition_names, counts = [], []
        for start, end in _runs(destinations):
            topic_number, partition = divmod(int(destinations[start]), _TOPIC_FACTOR)
            limit = self._limit(topics[topic_number])
            for count in batch_row_counts(sizes[start:end], limit):
                partition_names.append((topics[topic_number], partition))
                counts.append(count)
        return zip(
            partition_names, encode_batches(timestamps, keys, values, headers, counts), strict=True
        )

    def _headers(self, rows: Rows) -> HeaderColumn | None:
        row_headers = None if rows.headers is None else encode_headers(rows.headers)
        if not self._task:
            return row_headers
        row_numbers = numbers(np.arange(self.count, self.count + rows.count), pa.int64())
        task, empty = byte_strings([f"{self._task}:".encode(), b""], pa.string())
        texts = pc.binary_join_element_wise(task, row_numbers.cast(pa.string()), empty)
        names = pa.repeat(byte_strings([ROW_ID_HEADER.encode()], pa.string())[0], rows.count)
        task_headers = encode_headers(
            pa.ListArray.from_arrays(
                numbers(np.arange(rows.count + 1, dtype=np.int32), pa.int32()),
                pa.StructArray.from_arrays(
                    [names, texts.cast(pa.binary())], names=["key", "value"]
                ),
            )
        )
        return (
            task_headers if row_headers is None else concatenated_headers(row_headers, task_headers)
        )

    def _destinations(
        self, rows: Rows, topics: list[str], topic_numbers: Numbers, sizes: Numbers
    ) -> Numbers:
        """The topic and the partition of each row, as one number."""
        row_partitions = rows.partitions()
        if len(topics) == 1:
            return self._partitions(topics[0], row_partitions, rows.keys, sizes)
        destinations = topic_numbers * _TOPIC_FACTOR
        for topic_number, topic in enumerate(topics):
            rows_of_topic = np.flatnonzero(topic_numbers == topic_number)
            destinations[rows_of_topic] += self._partitions(
                topic,
                None if row_partitions is None else row_partitions[rows_of_topic],
                None if rows.keys is None else rows.keys.take(numbers(rows_of_topic, pa.int64())),
                sizes[rows_of_topic],
            )
        return destinations

    def _partitions(
        self,
        topic: str,
        row_partitions: Numbers | None,
        keys: pa.BinaryArray | None,
        sizes: Numbers,
    ) -> Numbers:
        """The partition of each row: the given one, else by the hash of the key, else in turn."""
        partitions = self._cluster.topic(topic, may_create=True).partitions
        count = len(partitions)
        chosen = (
            np.full(len(sizes), -1, dtype=np.int64) if row_partitions is None else row_partitions
        )
        if row_partitions is not None and row_partitions.max() >= count:
            raise ConfigError(
                f"partition {int(row_partitions.max())} of topic {topic}: it has {count} "
                f"partitions, 0 to {count - 1}"
            )
        unassigned = chosen < 0
        if keys is not None and not self._options.ignores_keys and unassigned.any():
            has_key = ~nulls_of(keys) & unassigned
            chosen = np.where(has_key, partitions_of(keys, count), chosen)
            unassigned &= ~has_key
        if unassigned.any():
            with_leader = [each.index for each in partitions if each.leader >= 0] or [0]
            chosen[unassigned] = self._in_turn(
                topic, sizes[unassigned], np.array(with_leader, dtype=np.int64)
            )
        return chosen

    def _in_turn(self, topic: str, sizes: Numbers, with_leader: Numbers) -> Numbers:
        """Partitions for rows without a key: each one with a leader gets a batch, in turn."""
        turn = self._next_turns.get(topic)
        if turn is None:
            turn = wall_ms()  # so that tasks do not all begin with the same partition
        turns = turn + (sizes.cumsum() - sizes) // self._limit(topic)
        self._next_turns[topic] = int(turns[-1]) + 1
        return with_leader[turns % len(with_leader)]

    def _limit(self, topic: str) -> int:
        """The most bytes of a batch: those of the option, or less if the topic accepts less."""
        limit = self._limits.get(topic)
        if limit is None:
            max_bytes = max_message_bytes(self._cluster, topic)
            limit = min(self._options.batch_bytes, max_bytes or self._options.batch_bytes)
            self._limits[topic] = limit
        return limit


def max_message_bytes(cluster: Cluster, topic: str) -> int | None:
    """The topic's `max.message.bytes`; None if the broker does not report it."""
    from kraftlog.client import configs

    try:
        settings = configs.describe(cluster, configs.TOPIC, [topic])[topic]
    except (RefusedError, UnsupportedApiError):
        return None
    values = [each.value for each in settings if each.name == "max.message.bytes"]
    return int(values[0]) if values and values[0] else None


def record_sizes(
    keys: pa.BinaryArray, values: pa.BinaryArray, headers: HeaderColumn | None
) -> Numbers:
    """An upper bound of the encoded size of each record."""
    parts = [keys, values] if headers is None else [keys, values, headers.encoded]
    sizes: Numbers = np.full(len(keys), RECORD_OVERHEAD, dtype=np.int64)
    zero = scalar(0, pa.int32())
    for part in parts:
        sizes += values_of(pc.binary_length(part).fill_null(zero))
    return sizes


def _runs(numbers_in_order: Numbers) -> Iterator[tuple[int, int]]:
    """Start and end of each run of equal numbers."""
    bounds = np.flatnonzero(np.diff(numbers_in_order)) + 1
    starts = [0, *bounds.tolist()]
    return zip(starts, [*starts[1:], len(numbers_in_order)], strict=True)


def batch_row_counts(sizes: Numbers, limit: int) -> Iterator[int]:
    """The number of rows of each batch: as many as `limit` bytes hold, but at least one."""
    ends = sizes.cumsum()
    start, size_before = 0, 0
    while start < len(sizes):
        end = int(ends.searchsorted(size_before + max(limit - HEADER_SIZE, 0), side="right"))
        end = max(end, start + 1)
        yield end - start
        start, size_before = end, int(ends[end - 1])
