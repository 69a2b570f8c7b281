"""The sink `kraftlog`: Spark calls it to write rows to topics, in batches or streams.

Records are written at least once: a task that Spark repeats writes its rows again. `write` runs in
the workers, on a pickled copy of the writer, and gets Arrow record batches.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from kraftlog.client.batch_sender import BatchSender
from kraftlog.errors import ConfigError
from kraftlog.spark import option_names
from kraftlog.spark.brief_errors import brief_errors
from kraftlog.spark.clusters import cluster_of
from kraftlog.spark.row_producer import RowProducer
from kraftlog.spark.sink_columns import check_columns
from kraftlog.spark.sink_options import sink_options
from kraftlog.spark.worker_memory import freeze_modules

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kraftlog.client.cluster import Cluster
    from kraftlog.spark.sink_options import SinkOptions

#: Spark's names for the query's id and the number of the batch, in the properties of a task.
_QUERY_ID, _BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"

_senders: dict[tuple[int, SinkOptions], BatchSender] = {}


class WrittenRows(WriterCommitMessage):
    """A task's commit message: how many rows it has written."""

    def __init__(self, count: int) -> None:
        self.count = count


def checked_options(
    given: Mapping[str, str], schema: StructType, *, overwrite: bool
) -> SinkOptions:
    """Parse the options of a write; raises ConfigError if it cannot be done as asked."""
    if overwrite:
        raise ConfigError("mode overwrite is not possible, as topics only grow; use mode append")
    options = sink_options(given)
    check_columns({field.name: field.dataType.simpleString() for field in schema}, options)
    return options


class TaskWriter:
    """Writes the rows of a task in a worker, for batches and streams alike."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenRows:
        with brief_errors(self._options.servers):
            return _write(self._options, iterator)


class BatchWriter(TaskWriter, DataSourceArrowWriter):
    """Writes the rows of a batch query."""

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Nothing to do: the tasks have waited for their records to be acknowledged."""

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Nothing to do: written records can't be taken back."""


class StreamWriter(TaskWriter, DataSourceStreamArrowWriter):
    """Writes the rows of the batches of a streaming query."""

    def __init__(self, options: SinkOptions, ignored: Mapping[str, str]) -> None:
        super().__init__(options)
        #: Options without effect, with reasons.
        self._ignored = ignored

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Report options; the tasks have waited for their records to be acknowledged.

        Spark makes writers for each batch in several processes, and commits in one.
        """
        option_names.report(self._ignored)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing to do: written records can't be taken back."""


def _write(options: SinkOptions, batches: Iterator[pa.RecordBatch]) -> WrittenRows:
    cluster = cluster_of(
        options.servers, options.request_timeout_s, options.client_id, options.security
    )
    cluster.drop_cache()  # partitions may have been added since the last task
    task = _task_name() if options.has_batch_header else ""
    producer = RowProducer(cluster, _sender(options, cluster), options, task)
    for batch in batches:
        producer.add(batch)
    producer.flush()
    freeze_modules()
    return WrittenRows(producer.count)


def _sender(options: SinkOptions, cluster: Cluster) -> BatchSender:
    """The sender of this process, kept from task to task so that it keeps its producer id."""
    key = (os.getpid(), options)
    sender = _senders.get(key)
    if sender is None:
        sender = _senders[key] = BatchSender(
            cluster,
            acks=options.acks,
            compression=options.compression,
            level=options.level,
            is_idempotent=options.is_idempotent,
            max_in_flight=options.max_in_flight,
            request_timeout_s=options.request_timeout_s,
            delivery_timeout_s=options.delivery_timeout_s,
        )
    return sender


def _task_name() -> str:
    """The query, batch and partition of this task, which are the same when Spark repeats it."""
    context = TaskContext.get()
    assert context is not None
    query = context.getLocalProperty(_QUERY_ID)
    if not query:
        raise ConfigError("option batchHeader is for streams; a batch query has no batch number")
    return f"{query}:{context.getLocalProperty(_BATCH_ID)}:{context.partitionId()}"
