"""Keys map to the same partitions as in Kafka's clients."""

from __future__ import annotations

import pytest

from kraftlog.client.partitioner import murmur2, partition_of

#: Keys and their signed hashes, from Kafka's tests of murmur2.
KAFKAS_HASHES = [
    ("21", -973932308),
    ("foobar", -790332482),
    ("a-little-bit-long-string", -985981536),
    ("a-little-bit-longer-string", -1486304829),
    ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    ("abc", 479470107),
]


@pytest.mark.parametrize(("text", "signed"), KAFKAS_HASHES)
def test_hash_equals_kafkas(text: str, signed: int) -> None:
    assert murmur2(text.encode()) == signed & 0xFFFFFFFF
    assert partition_of(text.encode(), 1000) == (signed & 0x7FFFFFFF) % 1000
