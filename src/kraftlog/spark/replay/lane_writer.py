"""Writes rows to a lane: in order, each once, whatever other writers of the lane do meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kraftlog.client.cluster import BACKOFF_S
from kraftlog.client.produce_requests import ACKS, BatchInFlight, batch_results, produce_request
from kraftlog.errors import ConfigError, ErrorCode, RefusedError
from kraftlog.records.arrow import values_of
from kraftlog.records.builder import wrap_records
from kraftlog.records.compression import CODEC_NAMES
from kraftlog.records.encode_columns import encode_batches, encode_headers
from kraftlog.spark.replay.lane import caught_up
from kraftlog.spark.row_producer import batch_row_counts, max_message_bytes, record_sizes
from kraftlog.spark.sink_columns import Rows
from kraftlog.wire.messages.produce import ProduceResponse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraftlog.client.cluster import Cluster
    from kraftlog.records.encode_columns import EncodedBatch, Numbers
    from kraftlog.spark.replay.lane import Lane
    from kraftlog.spark.sink_options import SinkOptions

#: Refusals of a batch that does not follow the lane's last one: another writer was faster.
_OVERTAKEN = {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.DUPLICATE_SEQUENCE_NUMBER}


class LaneWriter:
    """Writes to one lane; one batch at a time, as the next one depends on what became of it."""

    def __init__(self, cluster: Cluster, lane: Lane, options: SinkOptions) -> None:
        self._cluster = cluster
        self.lane = caught_up(cluster, lane)
        self._options = options
        limit = max_message_bytes(cluster, lane.name[0]) or options.batch_bytes
        self._limit = min(limit, options.batch_bytes)

    def write(self, rows: pa.RecordBatch) -> None:
        """Return when all rows, in ascending order of their column `offset`, are in the log."""
        while (remaining := self._remaining(rows)).num_rows:
            for batch, last_offset in self._batches(remaining):
                if not self._append(batch, last_offset):
                    break  # another writer was faster: continue after its records

    def _remaining(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows after the end of the lane; of rows with the same offset only the first."""
        row_offsets = values_of(rows.column("offset").cast(pa.int64()))
        is_new = row_offsets >= self.lane.next_offset
        is_new[1:] &= row_offsets[1:] > row_offsets[:-1]
        return rows if is_new.all() else rows.filter(pa.array(is_new))

    def _batches(self, batch: pa.RecordBatch) -> Iterator[tuple[EncodedBatch, int]]:
        """Encode rows; yield each batch of records with its last original offset."""
        rows = Rows(batch, self.lane.replay.target)
        keys = rows.keys if rows.keys is not None else pa.nulls(rows.count, pa.binary())
        values = rows.values
        assert values is not None
        headers = None if rows.headers is None else encode_headers(rows.headers)
        counts = [*batch_row_counts(record_sizes(keys, values, headers), self._limit)]
        timestamps = rows.timestamps_ms(may_be_negative=True)
        encoded = encode_batches(timestamps, keys, values, headers, counts)
        row_offsets: Numbers = values_of(batch.column("offset").cast(pa.int64()))
        last_rows = np.array(counts, dtype=np.int64).cumsum() - 1
        yield from zip(encoded, row_offsets[last_rows].tolist(), strict=True)

    def _append(self, batch: EncodedBatch, last_offset: int) -> bool:
        """Append a batch to the lane; False if other records follow the lane's end already."""
        lane, options = self.lane, self._options
        records = wrap_records(
            batch.records,
            batch.count,
            base_timestamp=batch.base_timestamp,
            max_timestamp=batch.max_timestamp,
            codec=CODEC_NAMES.index(options.compression),
            level=options.level,
            producer_id=lane.producer_id,
            producer_epoch=lane.epoch,
            base_sequence=lane.sequence,
        )
        deadline = self._cluster.deadline(options.delivery_timeout_s)
        request = produce_request(
            [BatchInFlight(lane.name, records, batch.count)],
            ACKS["all"],
            options.request_timeout_s,
        )

        def send() -> int:
            leader = self._cluster.leader(*lane.name, deadline)
            response = self._cluster.connection(leader, deadline).call(
                request, self._cluster.deadline(options.request_timeout_s)
            )
            assert isinstance(response, ProduceResponse)
            [(_, result)] = batch_results(response, self._cluster.error_context("Produce", leader))
            if isinstance(result, RefusedError):
                raise result
            return result

        try:
            base_offset = self._cluster.retry(send, deadline)
        except RefusedError as error:
            if error.code not in _OVERTAKEN:
                raise
            self._catch_up()
            return False
        self.lane = lane.appended(batch.count, last_offset, base_offset)
        return True

    def _catch_up(self) -> None:
        """Read what another writer has appended: it is visible as soon as it is replicated."""
        deadline = self._cluster.deadline(self._options.delivery_timeout_s)
        before = self.lane
        while True:
            self.lane = caught_up(self._cluster, self.lane)
            if self.lane.sequence != before.sequence:
                return
            if deadline.is_over:
                raise ConfigError(
                    f"{before.name[0]}-{before.partition} has had later records of this replay, "
                    "and they cannot be read: they were deleted, or compaction has removed them; "
                    "--again starts from the beginning"
                )
            deadline.pause(BACKOFF_S)
