"""Lost records are an error, or with failOnDataLoss=false a printed line; both name the offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kraftlog.client import range_reader
from kraftlog.client.range_reader import RangeReader, RecreatedTopicError
from kraftlog.spark.brief_errors import KraftlogSparkError
from tests.spark.planning import batch_reader, latest, read, stream_reader, write

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraftlog import Client

    Named = Callable[[str], str]

WITH_LOSS = {"failOnDataLoss": "false"}


def recreate(client: Client, topic: str, count: int) -> None:
    client.delete_topic(topic)
    client.create_topic(topic, partitions=1)
    write(client, topic, count)


def test_records_deleted_before_the_plan_are_an_error_or_skipped(
    client: Client, address: str, named: Named, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = named("t")
    client.create_topic(topic, partitions=1)
    write(client, topic, 10)
    client.delete_records({(topic, 0): 4})
    start, end = {topic: {"0": 1}}, {topic: {"0": 10}}

    with pytest.raises(KraftlogSparkError) as raised:
        stream_reader(address, subscribe=topic).partitions(start, end)
    assert f"{topic}-0 was to be read from offset 1, but has offsets 4 to 10: 3 offsets" in str(
        raised.value
    )
    assert "failOnDataLoss=false" in str(raised.value)
    assert "\n" not in str(raised.value)

    reader = stream_reader(address, subscribe=topic, **WITH_LOSS)
    assert [offset for *_, offset in read(reader, reader.partitions(start, end))] == [*range(4, 10)]
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{topic}-0 was to be read from offset 1" in line
    assert "3 offsets are skipped" in line


def test_records_deleted_after_the_plan_are_an_error_or_skipped(
    client: Client, address: str, named: Named, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = named("t")
    client.create_topic(topic, partitions=1)
    write(client, topic, 10)
    strict = batch_reader(address, subscribe=topic)
    lenient = batch_reader(address, subscribe=topic, **WITH_LOSS)
    tasks = strict.partitions()
    client.delete_records({(topic, 0): 7})

    with pytest.raises(KraftlogSparkError, match=r"from offset 0, but has offsets 7 to 10"):
        read(strict, tasks)
    assert [offset for *_, offset in read(lenient, tasks)] == [7, 8, 9]
    assert "7 offsets are skipped" in capsys.readouterr().err


def test_an_explicit_start_before_the_log_start_is_an_error(
    client: Client, address: str, named: Named
) -> None:
    topic = named("t")
    client.create_topic(topic, partitions=1)
    write(client, topic, 5)
    client.delete_records({(topic, 0): 3})
    given = {"subscribe": topic, "startingOffsets": f'{{"{topic}": {{"0": 2}}}}'}
    with pytest.raises(KraftlogSparkError, match="1 offsets are skipped"):
        batch_reader(address, **given).partitions()
    lenient = batch_reader(address, **given, **WITH_LOSS)
    assert [offset for *_, offset in read(lenient, lenient.partitions())] == [3, 4]


def test_a_new_partition_without_its_first_records_is_an_error(
    client: Client, address: str, named: Named
) -> None:
    topic = named("t")
    client.create_topic(topic, partitions=1)
    reader = stream_reader(address, subscribe=topic)
    start = reader.initialOffset()
    client.create_partitions(topic, 2)
    write(client, topic, 5, partition=1)
    client.delete_records({(topic, 1): 2})
    with pytest.raises(KraftlogSparkError, match=f"the new partition {topic}-1 starts at offset 2"):
        reader.partitions(start, latest(reader, start))


def test_a_deleted_topic_of_a_pattern_is_an_error(
    client: Client, address: str, named: Named
) -> None:
    for name in ("one", "two"):
        client.create_topic(named(name), partitions=1)
    reader = stream_reader(address, subscribePattern=named(".*"), startingOffsets="earliest")
    start = reader.initialOffset()
    client.delete_topic(named("two"))
    with pytest.raises(KraftlogSparkError, match=f"{named('two')}-0 does not exist any more"):
        reader.partitions(start, latest(reader, start))


def test_a_recreated_topic_with_fewer_records_is_an_error(
    client: Client, address: str, named: Named, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = named("t")
    client.create_topic(topic, partitions=1)
    write(client, topic, 5)
    start = {topic: {"0": 5}}
    recreate(client, topic, 2)

    reader = stream_reader(address, subscribe=topic)
    with pytest.raises(KraftlogSparkError) as raised:
        reader.partitions(start, latest(reader, start))
    assert f"{topic}-0 was to be read from offset 5, but ends at offset 2" in str(raised.value)
    assert "deleted and created again" in str(raised.value)

    lenient = stream_reader(address, subscribe=topic, **WITH_LOSS)
    end = latest(lenient, start)
    assert end == {topic: {"0": 2}}, "like the connector, it continues at the new end"
    assert read(lenient, lenient.partitions(start, end)) == []
    assert "3 offsets before that" in capsys.readouterr().err


def test_a_topic_recreated_under_a_running_query_is_an_error(
    client: Client, address: str, named: Named
) -> None:
    topic = named("t")
    client.create_topic(topic, partitions=1)
    write(client, topic, 2)
    reader = stream_reader(address, subscribe=topic)
    start = latest(reader, reader.initialOffset())
    recreate(client, topic, 5)
    with pytest.raises(KraftlogSparkError, match=f"topic {topic} was deleted and created again"):
        latest(reader, start)


def test_remembered_ids_detect_a_recreated_topic_after_a_restart(
    client: Client, address: str, named: Named, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = named("t")
    client.create_topic(topic, partitions=1)
    write(client, topic, 2)
    given = {"subscribe": topic, "rememberTopicIds": "true"}
    first = stream_reader(address, **given)
    start = latest(first, first.initialOffset())
    recreate(client, topic, 5)

    with pytest.raises(KraftlogSparkError, match=f"topic {topic} was deleted and created again"):
        latest(stream_reader(address, **given), start)

    lenient = stream_reader(address, **given, **WITH_LOSS)
    end = latest(lenient, start)
    tasks = lenient.partitions(start, end)
    assert [offset for *_, offset in read(lenient, tasks)] == [0, 1, 2, 3, 4]
    assert "it is read from its start" in capsys.readouterr().err
    assert latest(lenient, end) == end


def test_a_topic_recreated_after_the_plan_is_an_error(
    client: Client, address: str, named: Named
) -> None:
    topic = named("t")
    client.create_topic(topic, partitions=1)
    write(client, topic, 3)
    reader = batch_reader(address, subscribe=topic)
    tasks = reader.partitions()
    assert len(read(reader, tasks)) == 3, "the worker has cached the topic's metadata"
    recreate(client, topic, 3)
    with pytest.raises(KraftlogSparkError, match="created again while it was read"):
        read(reader, tasks)


def test_fetches_identify_the_topic_by_its_id(client: Client, named: Named) -> None:
    topic = named("t")
    client.create_topic(topic, partitions=1)
    write(client, topic, 1)
    wrong = bytes(range(1, 17))
    reader = RangeReader(client.cluster, (topic, 0), 0, 1, topic_id=wrong)
    with pytest.raises(RecreatedTopicError, match=topic):
        list(reader)


def test_a_topic_deleted_after_the_plan_is_an_error(
    client: Client, address: str, named: Named, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = named("t")
    client.create_topic(topic, partitions=1)
    write(client, topic, 3)
    reader = batch_reader(address, subscribe=topic)
    tasks = reader.partitions()
    client.delete_topic(topic)
    # Otherwise the reader would wait, as a new topic may not be in every broker's metadata yet.
    monkeypatch.setattr(range_reader, "TOPIC_WAIT_S", 0)
    with pytest.raises(KraftlogSparkError, match=f"topic {topic} does not exist on {address}"):
        read(reader, tasks)
