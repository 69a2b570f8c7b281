"""Reads the rows of a range of offsets in a task, even if some of them are deleted meanwhile."""

from __future__ import annotations

from kraftlog.client.fetch_size import FetchSize
from kraftlog.client.range_reader import FETCH_BYTES, RangeReader
from kraftlog.errors import ErrorCode, RefusedError
from kraftlog.spark.rows import RowMaker
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from kraftlog.client.cluster import Cluster
    from kraftlog.spark.ranges import OffsetRange
    from kraftlog.types import Uuid


#: The fetch size that fits, by topic, topic id and `fetch_bytes`: a worker's next tasks begin
#: with it.
_fetch_sizes: dict[tuple[str, Uuid, int], FetchSize] = {}


def range_rows(
    cluster: Cluster,
    offset_range: OffsetRange,
    topic_id: Uuid,
    after_loss: Callable[[OffsetRange, int], OffsetRange],
    *,
    isolation_level: int,
    with_headers: bool,
    for_table: bool = False,
    fetch_bytes: int = FETCH_BYTES,
) -> Iterator[pa.RecordBatch]:
    """The rows of a range, with the columns of `RowMaker`.

    If the log does not have the next offset any more, `after_loss` gets the range and this offset,
    and returns the range that can still be read, or raises.
    """
    key = (offset_range.topic, topic_id, fetch_bytes)
    fetch_size = _fetch_sizes.setdefault(key, FetchSize(fetch_bytes))
    while offset_range.size > 0:
        reader = RangeReader(
            cluster,
            offset_range.name,
            offset_range.start,
            offset_range.end,
            isolation_level=isolation_level,
            fetch_size=fetch_size,
            topic_id=topic_id,
        )
        row_maker = RowMaker(offset_range, with_headers=with_headers, for_table=for_table)
        try:
            for fetched in reader:
                yield from row_maker.rows(fetched)
            return
        except RefusedError as error:
            if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            offset_range = after_loss(offset_range, reader.position)
