"""A reader of a range requests little more than the range has, once it has seen some batches."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from kraftlog.client.fetch_size import FetchSize
from kraftlog.client.range_reader import RangeReader
from kraftlog.records.header import LENGTH_OVERHEAD, BatchHeader
from kraftlog.records.reader import read_records

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraftlog import Client

BATCHES, RECORDS = 60, 10
VALUE = b"x" * 1000
SEED = 13


def test_a_fetch_requests_the_rest_of_the_range_and_two_batches() -> None:
    size = FetchSize(5000)
    assert size.for_offsets(1) == 5000, "before the first response"
    size.learn([])
    assert size.for_offsets(1) == 5000, "a response without batches changes nothing"
    size.learn([batch(0, 7, 400), batch(7, 10, 600)])
    assert [size.for_offsets(count) for count in (1, 10, 100)] == [1300, 2200, 5000]
    size.learn([batch(90, 190, 100)])
    assert size.for_offsets(100) == 300, "the newest response counts"


def batch(start: int, end: int, size: int) -> BatchHeader:
    return BatchHeader(start, size - LENGTH_OVERHEAD, 0, 2, 0, 0, end - start - 1, *[0] * 6)


def test_a_range_is_read_whole_and_little_else(client: Client, named: Callable[[str], str]) -> None:
    topic = named("t")
    client.create_topic(topic, partitions=1)
    for _ in range(BATCHES):
        with client.producer() as producer:
            for _ in range(RECORDS):
                producer.send(topic, VALUE, partition=0)
    total, rng = BATCHES * RECORDS, random.Random(SEED)
    size = FetchSize(1 << 20)
    for number in range(20):
        first = rng.randrange(total) if number else 0
        end = rng.randint(first + 1, total) if number else total
        fetched = list(RangeReader(client.cluster, (topic, 0), first, end, fetch_size=size))
        offsets = [
            record.offset
            for each in fetched
            for position, _ in each.batches
            for record in read_records(each.data, position)
            if first <= record.offset < end
        ]
        assert offsets == list(range(first, end))
        received = sum(len(each.data) for each in fetched)
        assert received < (end - first + 4 * RECORDS) * (len(VALUE) + 50)
