"""Planning of streams: limits, new partitions and topics, the form of offsets."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from kraftlog.spark.positions import flat, nested, prorated, topic_ids
from kraftlog.spark.ranges import OffsetRange, split
from tests.spark.planning import batch_reader, latest, read, stream_reader, write

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraftlog import Client

    Named = Callable[[str], str]


def test_a_limit_is_shared_out_by_backlog() -> None:
    start = {("t", 0): 0, ("t", 1): 100, ("t", 2): 5, ("t", 3): 7}
    end = {("t", 0): 900, ("t", 1): 200, ("t", 2): 6, ("t", 3): 7}
    limited = prorated(start, end, 10)
    # Shares of 10 out of 1001 offsets: 8.99, 0.999 and 0.00999; every backlog gets at least one.
    assert limited == {("t", 0): 8, ("t", 1): 101, ("t", 2): 6, ("t", 3): 7}
    assert prorated(start, end, 1_000_000) == end
    assert prorated(end, end, 10) == end


@pytest.mark.parametrize(
    ("sizes", "min_partitions", "max_records", "expected"),
    [
        ([10, 0, 5], None, None, [10, 5]),
        ([10, 5], None, 4, [3, 3, 4, 2, 3]),
        ([30, 10], 4, None, [10, 10, 10, 10]),
        ([100, 1, 1], 6, None, [25, 25, 25, 25, 1, 1]),
        ([10, 5], 8, 5, 3 * [1, 2, 2]),
        ([2], 10, None, [1, 1]),
        # Where the connector rounds to fewer than minPartitions, the largest parts are divided.
        ([1000, 1000, 1000], 10, None, [250] * 4 + [333, 333, 334] * 2),
        ([10, 10, 10], 4, None, [5, 5, 10, 10]),
        ([10, 1, 2], 40, None, 13 * [1]),
    ],
)
def test_ranges_are_split_as_by_the_connector(
    sizes: list[int], min_partitions: int | None, max_records: int | None, expected: list[int]
) -> None:
    ranges = [OffsetRange("t", number, 7, 7 + size) for number, size in enumerate(sizes)]
    parts = split(ranges, min_partitions=min_partitions, max_records=max_records)
    assert [each.size for each in parts] == expected
    for whole in ranges:
        bounds = [(each.start, each.end) for each in parts if each.partition == whole.partition]
        ends = [7, *(end for _, end in bounds)]
        assert [start for start, _ in bounds] == ends[:-1]
        assert ends[-1] == whole.end


def test_a_batch_waits_for_enough_offsets_but_not_for_ever(
    client: Client, address: str, named: Named
) -> None:
    topic = named("t")
    client.create_topic(topic, partitions=1)
    options = {"subscribe": topic, "startingOffsets": "earliest", "minOffsetsPerTrigger": 5}
    patient = stream_reader(address, maxTriggerDelay="1d", **options)
    hasty = stream_reader(address, maxTriggerDelay="0ms", **options)
    start = patient.initialOffset()
    write(client, topic, 1)
    assert latest(patient, start) == {topic: {"0": 1}}, "the first batch does not wait"
    assert latest(hasty, start) == {topic: {"0": 1}}
    write(client, topic, 4)
    assert latest(patient, {topic: {"0": 1}}) == {topic: {"0": 1}}
    assert latest(hasty, {topic: {"0": 1}}) == {topic: {"0": 5}}
    write(client, topic, 1)
    assert latest(patient, {topic: {"0": 1}}) == {topic: {"0": 6}}


def test_available_now_reads_only_what_the_log_had_at_the_start(
    client: Client, address: str, named: Named
) -> None:
    topic = named("t")
    client.create_topic(topic, partitions=2)
    write(client, topic, 9, partition=0)
    write(client, topic, 3, partition=1)
    reader = stream_reader(
        address, subscribe=topic, startingOffsets="earliest", minOffsetsPerTrigger=4
    )
    reader.prepareForTriggerAvailableNow()
    offset = reader.initialOffset()
    write(client, topic, 1)
    offsets = [offset]
    while (offset := reader.latestOffset(offset, ReadMaxRows(8))) != offsets[-1]:
        offsets.append(offset)
    assert offsets == [
        {topic: {"0": 0, "1": 0}},
        {topic: {"0": 6, "1": 2}},
        {topic: {"0": 9, "1": 3}},
    ]
    assert reader.reportLatestOffset() == {topic: {"0": 9, "1": 3}}


def test_new_partitions_are_read_from_their_start(
    client: Client, address: str, named: Named
) -> None:
    topic = named("t")
    client.create_topic(topic, partitions=1)
    reader = stream_reader(address, subscribe=topic)
    start = reader.initialOffset()
    client.create_partitions(topic, 2)
    write(client, topic, 3, partition=1)
    end = latest(reader, start)
    assert end == {topic: {"0": 0, "1": 3}}
    assert read(reader, reader.partitions(start, end)) == [(topic, 1, n) for n in range(3)]


def test_a_pattern_that_matches_nothing_says_so_once(
    client: Client, address: str, named: Named, capsys: pytest.CaptureFixture[str]
) -> None:
    """A batch or a stream without rows would else look like topics without records."""
    pattern = named("nothing-.*")
    assert batch_reader(address, subscribePattern=pattern).partitions() == []
    said = capsys.readouterr().err
    assert said == f"kraftlog: subscribePattern={pattern} matches no topic: no rows are read\n"
    reader = stream_reader(address, subscribePattern=pattern)
    start = reader.initialOffset()
    assert latest(reader, latest(reader, start)) == {}
    said = capsys.readouterr().err
    assert said == (
        f"kraftlog: subscribePattern={pattern} matches no topic: no rows are read until one is "
        "created\n"
    )
    topic = named("nothing-1")
    client.create_topic(topic)
    assert latest(reader, start) == {topic: {"0": 0}}
    assert capsys.readouterr().err == ""


def test_new_topics_of_a_pattern_are_read_from_their_start(
    client: Client, address: str, named: Named
) -> None:
    client.create_topic(named("one"), partitions=1)
    reader = stream_reader(address, subscribePattern=named(".*"))
    start = reader.initialOffset()
    client.create_topic(named("two"), partitions=1)
    write(client, named("two"), 2)
    end = latest(reader, start)
    assert end == {named("one"): {"0": 0}, named("two"): {"0": 2}}
    assert read(reader, reader.partitions(start, end)) == [(named("two"), 0, n) for n in range(2)]


def test_topic_ids_in_a_checkpoint_are_not_read_as_offsets() -> None:
    ids = {"a.b": bytes(range(16))}
    offsets = {("a.b", 0): 3, ("a.b", 10): 4, ("a.b", 9): 5}
    checkpoint = json.loads(json.dumps(nested(offsets, ids)))
    assert flat(checkpoint) == offsets
    assert topic_ids(checkpoint) == ids
    assert nested(offsets) == {"a.b": {"0": 3, "9": 5, "10": 4}}
    assert topic_ids(nested(offsets)) == {}
