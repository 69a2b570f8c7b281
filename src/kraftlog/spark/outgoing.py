"""Rows on their way into topics: which partition each goes to, and the batches that they make.

Rows are collected until they are some megabytes, so that each partition's batches are large. All
work on them is done for whole columns.
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
    encode_batches,
    encode_headers,
    with_headers,
)
from kraftlog.records.header import HEADER_SIZE
from kraftlog.spark.key_hash import partitions_of
from kraftlog.spark.sink_columns import Rows
from kraftlog.spark.sink_options import BATCH_HEADER

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
#: More than a topic's partitions.
_PARTITIONS = 1 << 32


class Outgoing:
    """Writes the rows of one task. `task` names it in the headers of its records, if wanted."""

    def __init__(
        self, cluster: Cluster, sender: BatchSender, options: SinkOptions, task: str = ""
    ) -> None:
        self._cluster = cluster
        self._sender = sender
        self._options = options
        self._task = task
        self._waiting: list[pa.RecordBatch] = []
        self._size = 0
        self._waiting_rows = 0
        self.count = 0
        self._limits: dict[str, int] = {}
        self._turns: dict[str, int] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self._size += batch.nbytes
        self._waiting_rows += batch.num_rows
        if self._size >= _COLLECTED_BYTES or self._waiting_rows >= _COLLECTED_ROWS:
            self._send()

    def flush(self) -> None:
        """Write all rows; return when they are acknowledged."""
        self._send()
        self._sender.flush()

    def _send(self) -> None:
        if self._waiting_rows:
            # One array per column; nulls and offsets are those of the whole.
            whole = pa.Table.from_batches(self._waiting).combine_chunks().to_batches()
            for batch in whole:
                self._sender.send(self._batches(Rows(batch, self._options.topic)))
                self.count += batch.num_rows
        self._waiting, self._size, self._waiting_rows = [], 0, 0

    def _batches(self, rows: Rows) -> Iterator[tuple[PartitionName, EncodedBatch]]:
        """Encode rows, sorted by partition, in their order within each partition."""
        keys = rows.keys if rows.keys is not None else pa.nulls(rows.count, pa.binary())
        values = rows.values
        assert values is not None
        headers = self._headers(rows)
        sizes = _sizes(keys, values, headers)
        topics, topic_numbers = rows.topics()
        places = self._places(rows, topics, topic_numbers, sizes)
        timestamps = rows.timestamps_ms()
        if (places[1:] < places[:-1]).any():
            order = places.argsort(kind="stable")
            places, sizes, timestamps = places[order], sizes[order], timestamps[order]
            wanted = numbers(order, pa.int64())
            keys, values = keys.take(wanted), values.take(wanted)
            if headers is not None:
                headers = HeaderColumn(headers.encoded.take(wanted), headers.counts[order])
        names, counts = [], []
        for start, end in _runs(places):
            number, partition = divmod(int(places[start]), _PARTITIONS)
            limit = self._limit(topics[number])
            for count in _cut(sizes[start:end], limit):
                names.append((topics[number], partition))
                counts.append(count)
        return zip(names, encode_batches(timestamps, keys, values, headers, counts), strict=True)

    def _headers(self, rows: Rows) -> HeaderColumn | None:
        own = None if rows.headers is None else encode_headers(rows.headers)
        if not self._task:
            return own
        places = numbers(np.arange(self.count, self.count + rows.count), pa.int64())
        task, nothing = byte_strings([f"{self._task}:".encode(), b""], pa.string())
        texts = pc.binary_join_element_wise(task, places.cast(pa.string()), nothing)
        names = pa.repeat(byte_strings([BATCH_HEADER.encode()], pa.string())[0], rows.count)
        marks = encode_headers(
            pa.ListArray.from_arrays(
                numbers(np.arange(rows.count + 1, dtype=np.int32), pa.int32()),
                pa.StructArray.from_arrays(
                    [names, texts.cast(pa.binary())], names=["key", "value"]
                ),
            )
        )
        return marks if own is None else with_headers(own, marks)

    def _places(
        self, rows: Rows, topics: list[str], topic_numbers: Numbers, sizes: Numbers
    ) -> Numbers:
        """The topic's number and the partition of each row, as one number."""
        given = rows.partitions()
        if len(topics) == 1:
            return self._partitions(topics[0], given, rows.keys, sizes)
        places = topic_numbers * _PARTITIONS
        for number, topic in enumerate(topics):
            chosen = np.flatnonzero(topic_numbers == number)
            places[chosen] += self._partitions(
                topic,
                None if given is None else given[chosen],
                None if rows.keys is None else rows.keys.take(numbers(chosen, pa.int64())),
                sizes[chosen],
            )
        return places

    def _partitions(
        self, topic: str, given: Numbers | None, keys: pa.BinaryArray | None, sizes: Numbers
    ) -> Numbers:
        """The partition given, else that of the key, else one after the other."""
        partitions = self._cluster.topic(topic, may_create=True).partitions
        count = len(partitions)
        found = np.full(len(sizes), -1, dtype=np.int64) if given is None else given
        if given is not None and given.max() >= count:
            raise ConfigError(
                f"partition {int(given.max())} of topic {topic}: it has {count} partitions, "
                f"0 to {count - 1}"
            )
        free = found < 0
        if keys is not None and not self._options.ignores_keys and free.any():
            has_key = ~nulls_of(keys) & free
            found = np.where(has_key, partitions_of(keys, count), found)
            free &= ~has_key
        if free.any():
            led = [each.index for each in partitions if each.leader >= 0] or [0]
            found[free] = self._in_turn(topic, sizes[free], np.array(led, dtype=np.int64))
        return found

    def _in_turn(self, topic: str, sizes: Numbers, led: Numbers) -> Numbers:
        """Rows without a key: a batch for a partition, the next batch for the next partition."""
        turn = self._turns.get(topic)
        if turn is None:
            turn = wall_ms()
        turns = turn + (sizes.cumsum() - sizes) // self._limit(topic)
        self._turns[topic] = int(turns[-1]) + 1
        return led[turns % len(led)]

    def _limit(self, topic: str) -> int:
        """Bytes of a batch of this topic: the option's, or less if the topic accepts less."""
        known = self._limits.get(topic)
        if known is None:
            most = _max_message_bytes(self._cluster, topic)
            known = min(self._options.batch_bytes, most or self._options.batch_bytes)
            self._limits[topic] = known
        return known


def _max_message_bytes(cluster: Cluster, topic: str) -> int | None:
    """The topic's limit of a batch; None if the broker does not report it."""
    from kraftlog.client import configs

    try:
        settings = configs.describe(cluster, configs.TOPIC, [topic])[topic]
    except (RefusedError, UnsupportedApiError):
        return None
    values = [each.value for each in settings if each.name == "max.message.bytes"]
    return int(values[0]) if values and values[0] else None


def _sizes(keys: pa.BinaryArray, values: pa.BinaryArray, headers: HeaderColumn | None) -> Numbers:
    """An upper bound of the encoded size of each record."""
    parts = [keys, values] if headers is None else [keys, values, headers.encoded]
    found: Numbers = np.full(len(keys), RECORD_OVERHEAD, dtype=np.int64)
    none = scalar(0, pa.int32())
    for part in parts:
        found += values_of(pc.binary_length(part).fill_null(none))
    return found


def _runs(places: Numbers) -> Iterator[tuple[int, int]]:
    """Start and end of each run of equal numbers."""
    edges = np.flatnonzero(np.diff(places)) + 1
    starts = [0, *edges.tolist()]
    return zip(starts, [*starts[1:], len(places)], strict=True)


def _cut(sizes: Numbers, limit: int) -> Iterator[int]:
    """The number of rows of each batch of at most `limit` bytes, or of one row."""
    ends = sizes.cumsum()
    start, before = 0, 0
    while start < len(sizes):
        end = int(ends.searchsorted(before + max(limit - HEADER_SIZE, 0), side="right"))
        end = max(end, start + 1)
        yield end - start
        start, before = end, int(ends[end - 1])
