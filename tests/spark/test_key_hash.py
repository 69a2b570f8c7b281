"""Hashing a column of keys gives the same partitions as hashing each key as Kafka does."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from kraftlog.client import partitioner
from kraftlog.spark.key_hash import murmur2, partitions_of


@given(st.lists(st.none() | st.binary(max_size=40)), st.integers(0, 5), st.integers(1, 1000))
def test_a_columns_partitions_are_those_of_its_keys(
    keys: list[bytes | None], start: int, count: int
) -> None:
    column = pa.array(keys, type=pa.binary())[start:]

    assert murmur2(column).tolist() == [partitioner.murmur2(key or b"") for key in keys[start:]]
    assert partitions_of(column, count).tolist() == [
        partitioner.partition_of(key or b"", count) for key in keys[start:]
    ]
