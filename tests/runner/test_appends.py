"""A turn's append describes its batches as a scan of their bytes does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from kraftlog.records.header import read_header
from kraftlog.replication.partition import Partition
from kraftlog.runner.logs import batches_of
from kraftlog.storage.batches import describe
from kraftlog.types import NULL_UUID
from tests.storage.making import T0, batch

if TYPE_CHECKING:
    from kraftlog.replication.partition import PartitionAppend


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 9), st.booleans()), min_size=1))
def test_both_descriptions_agree(shapes: list[tuple[int, int, bool]]) -> None:
    """Records, timestamp and producer of each batch."""
    partition = Partition("t", NULL_UUID, 0, ("t", 0))
    partition.lead(2)
    partition.opened(0, 7)
    turn: list[PartitionAppend] = []
    for count, age_ms, has_producer in shapes:
        producer = 3 if has_producer else -1
        raw = bytearray(batch(0, count, timestamp_ms=T0 - age_ms, producer_id=producer))
        partition.append(read_header(raw), memoryview(raw), turn)
    [append] = turn
    assert batches_of(append) == describe(append.buffers)
