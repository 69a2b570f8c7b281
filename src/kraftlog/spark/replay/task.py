"""The task of a replay: writes the rows of some partitions, and reports where their lanes end."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kraftlog.records.arrow import values_of
from kraftlog.spark.brief_errors import brief_errors
from kraftlog.spark.clusters import cluster_of
from kraftlog.spark.replay.lane import Lane
from kraftlog.spark.replay.lane_writer import LaneWriter
from kraftlog.spark.worker_memory import freeze_modules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import Row as SparkRow

    from kraftlog.spark.replay.lane import Replay
    from kraftlog.spark.sink_options import SinkOptions

    Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

#: What a task reports of each lane: see `Lane`.
REPORT = pa.schema(
    [("partition", pa.int32()), ("producer_id", pa.int64()), ("epoch", pa.int32())]
    + [(name, pa.int64()) for name in ("sequence", "next_offset", "position", "records")]
)
REPORT_SQL = (
    "partition int, producer_id long, epoch int, sequence long, next_offset long, position long, "
    "records long"
)


def lane_task(options: SinkOptions, lanes: Mapping[int, Lane]) -> Task:
    """The function for `mapInArrow`. Attempts of a task may repeat or overtake each other."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with brief_errors(options.servers):
            rows = _write(options, lanes, batches)
        yield pa.RecordBatch.from_pylist(rows, schema=REPORT)

    return write


def reported_lane(replay: Replay, report: Mapping[str, int] | SparkRow) -> Lane:
    """The lane of a task's report."""
    return Lane(replay, *(report[name] for name in Lane._fields[1:]))


def _write(
    options: SinkOptions, lanes: Mapping[int, Lane], batches: Iterator[pa.RecordBatch]
) -> list[dict[str, int]]:
    cluster = cluster_of(options.servers, options.request_timeout_s, security=options.security)
    cluster.drop_cache()  # partitions may have been added since the last task
    writers: dict[int, LaneWriter] = {}
    records: dict[int, int] = {}
    for batch in batches:
        partitions = values_of(batch.column("partition"))
        edges = [0, *(np.flatnonzero(np.diff(partitions)) + 1).tolist(), len(partitions)]
        for start, end in pairwise(edges) if len(partitions) else ():
            index = int(partitions[start])
            if index not in writers:
                writers[index] = LaneWriter(cluster, lanes[index], options)
            writers[index].write(batch.slice(start, end - start))
            records[index] = records.get(index, 0) + end - start
    freeze_modules()
    return [
        {
            **{name: getattr(writer.lane, name) for name in Lane._fields[1:]},
            "records": records[index],
        }
        for index, writer in writers.items()
    ]
