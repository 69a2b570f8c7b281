"""What a log is told of batches: the same by headers as by bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kraftlog.records.header import read_header
from kraftlog.storage.batches import describe, describe_produced
from tests.storage.making import T0, batch


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 9), st.booleans()), min_size=1))
def test_both_descriptions_agree(shapes: list[tuple[int, int, bool]]) -> None:
    """Records, timestamp and producer of each batch; batches of equal age among them."""
    batches, offset = [], 7
    for count, age_ms, has_producer in shapes:
        producer = 3 if has_producer else -1
        batches.append(
            batch(offset, count, epoch=2, timestamp_ms=T0 - age_ms, producer_id=producer)
        )
        offset += count
    assert describe_produced([read_header(raw) for raw in batches]) == describe(batches)
