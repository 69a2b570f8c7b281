"""Errors are one paragraph, which says what is wrong and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kraftlog.client.range_reader import RangeReader
from kraftlog.errors import ConfigError, CorruptBatchError
from kraftlog.spark.brief_errors import KraftlogSparkError
from kraftlog.spark.options import source_options
from kraftlog.spark.ranges import OffsetRange
from kraftlog.spark.rows import RowMaker
from tests.spark.archives import archive
from tests.spark.planning import batch_reader, stream_reader, write

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from kraftlog import Client

    Named = Callable[[str], str]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "exactly one of subscribe, subscribePattern and assign must be set"),
        ({"subscribe": "t", "assign": '{"t": [0]}'}, "exactly one of"),
        ({"subscribe": " , "}, "expected topics"),
        ({"assign": "t"}, 'expected JSON like {"topic": [0, 1]}'),
        ({"subscribe": "t", "startingOffsets": "now"}, "expected earliest, latest or JSON"),
        ({"subscribe": "t", "startingOffsets": '{"t": 5}'}, "expected JSON like"),
        ({"subscribe": "t", "startingOffsets": "latest"}, "a batch read can't start at the latest"),
        ({"subscribe": "t", "minPartitions": "0"}, "minPartitions=0: expected at least 1"),
        ({"subscribe": "t", "failOnDataLoss": "no"}, "failOnDataLoss=no: expected true or false"),
        ({"subscribe": "t", "maxTriggerDelay": "soon"}, "expected a duration like 90s"),
        (
            {"subscribe": "t", "minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"},
            "minOffsetsPerTrigger=9: more than maxOffsetsPerTrigger=8",
        ),
        ({"subscribe": "t", "maxOffsetPerTrigger": "8"}, "did you mean maxOffsetsPerTrigger?"),
        ({"subscribe": "t", "kafka.auto.offset.reset": "earliest"}, "use startingOffsets"),
        ({"subscribe": "t", "kafka.security.protocol": "TLS"}, "security.protocol=TLS: expected"),
        ({"subscribe": "t", "kafka.isolation.level": "snapshot"}, "expected read_committed"),
    ],
)
def test_an_invalid_option_is_named_in_the_error(options: dict[str, str], expected: str) -> None:
    given = {"kafka.bootstrap.servers": "localhost", **options}
    with pytest.raises(ConfigError) as raised:
        source_options(given, is_stream=False)
    assert expected in str(raised.value)


def test_options_of_the_consumer_that_change_no_row_are_ignored() -> None:
    """Except the client id and the fetch size, which are used."""
    given = {"kafka.bootstrap.servers": "localhost", "subscribe": "t"}
    tuning = {"kafka.group.id": "g", "kafka.max.poll.records": "9", "groupIdPrefix": "p"}
    tuning |= {"kafka.security.protocol": "plaintext", "path": "p", "topic": "t"}
    used = {"kafka.client.id": "me", "kafka.max.partition.fetch.bytes": "1000"}
    plain = source_options(given, is_stream=False)
    assert source_options(given | tuning, is_stream=False) == plain
    with_used = source_options(given | used, is_stream=False)
    assert (with_used.client_id, with_used.fetch_bytes) == ("me", 1000)


def test_a_stream_refuses_ending_offsets() -> None:
    given = {"kafka.bootstrap.servers": "localhost", "subscribe": "t", "endingOffsets": "latest"}
    with pytest.raises(ConfigError, match="endingOffsets is for batch reads"):
        source_options(given, is_stream=True)


def test_an_unknown_topic_is_named(client: Client, address: str, named: Named) -> None:
    with pytest.raises(KraftlogSparkError) as raised:
        batch_reader(address, subscribe=named("t")).partitions()
    assert str(raised.value) == (
        f"topic {named('t')} does not exist on {address}. Create it, or check the options "
        "subscribe, subscribePattern and assign"
    )


def test_an_impossible_topic_name_is_refused(address: str) -> None:
    with pytest.raises(KraftlogSparkError) as raised:
        batch_reader(address, subscribe="ord*").partitions()
    assert str(raised.value) == (
        "topic ord* can't be the name of a topic. The option subscribePattern takes a pattern, "
        "subscribe names with commas between them"
    )


def test_an_unreachable_broker_is_reported_with_its_option() -> None:
    with pytest.raises(KraftlogSparkError) as raised:
        stream_reader("127.0.0.1:1", subscribe="t").initialOffset()
    assert "Check the option kafka.bootstrap.servers=127.0.0.1:1" in str(raised.value)
    with pytest.raises(KraftlogSparkError, match=r"kafka.bootstrap.servers=http://x: .*host:port"):
        stream_reader("http://x", subscribe="t").initialOffset()


def test_offsets_outside_the_log_are_refused(client: Client, address: str, named: Named) -> None:
    topic = named("t")
    client.create_topic(topic, partitions=2)
    write(client, topic, 3)

    def message(**options: str) -> str:
        with pytest.raises(KraftlogSparkError) as raised:
            batch_reader(address, subscribe=topic, **options).partitions()
        return str(raised.value)

    after_log_end = message(endingOffsets=f'{{"{topic}": {{"0": 4, "1": 0}}}}')
    assert after_log_end == (
        f"option endingOffsets: {topic}-0 has offsets 0 to 3, and 4 was given: give an offset in "
        "this range"
    )
    late_start = {"startingOffsets": f'{{"{topic}": {{"0": 33, "1": 0}}}}'}
    assert f"option startingOffsets: {topic}-0 has offsets 0 to 3, and 33 was" in message(
        **late_start
    )
    with pytest.raises(KraftlogSparkError, match=r"option startingOffsets: .* and 33 was given"):
        stream_reader(address, subscribe=topic, **late_start).initialOffset()
    lenient = stream_reader(address, subscribe=topic, failOnDataLoss="false", **late_start)
    assert lenient.initialOffset() == {topic: {"0": 33, "1": 0}}, "as with Spark's own connector"
    start_after_end = message(
        startingOffsets=f'{{"{topic}": {{"0": 2, "1": 0}}}}',
        endingOffsets=f'{{"{topic}": {{"0": 1, "1": 0}}}}',
    )
    assert "the start, offset 2, is after the end, offset 1" in start_after_end
    missing = message(startingOffsets=f'{{"{topic}": {{"0": 2}}}}')
    assert f"missing: {topic}-1" in missing
    after_last_record = message(startingTimestamp=str(1 << 60))
    assert "startingOffsetsByTimestampStrategy=latest" in after_last_record


def test_a_corrupt_batch_is_named(client: Client, named: Named) -> None:
    topic = named("t")
    client.create_topic(topic, partitions=1)
    write(client, topic, 3)
    (fetched,) = RangeReader(client.cluster, (topic, 0), 0, 3)
    fetched.data = bytearray(fetched.data)
    fetched.data[-1] ^= 1
    row_maker = RowMaker(OffsetRange(topic, 0, 0, 3), with_headers=False)
    with pytest.raises(CorruptBatchError, match=f"{topic}-0, offsets 0 to 2: checksum"):
        list(row_maker.rows(fetched))


def test_an_error_reaches_the_user_without_tracebacks(
    spark: SparkSession, client: Client, address: str, named: Named
) -> None:
    from pyspark.errors.exceptions.captured import CapturedException

    frame = (
        spark.read.format("kraftlog")
        .option("kafka.bootstrap.servers", address)
        .option("subscribe", named("t"))
        .load()
    )
    with pytest.raises(CapturedException) as raised:
        frame.count()
    message = str(raised.value)
    assert f"topic {named('t')} does not exist" in message
    assert "Traceback" not in message
    assert "\tat org.apache" not in message
    assert len(message) < 500


def test_an_error_of_a_stream_has_no_tracebacks(
    spark: SparkSession, client: Client, address: str, named: Named, tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException

    topic = named("t")
    client.create_topic(topic, partitions=1)
    write(client, topic, 3)
    client.delete_records({(topic, 0): 2})
    query = (
        spark.readStream.format("kraftlog")
        .option("kafka.bootstrap.servers", address)
        .option("subscribe", topic)
        .option("startingOffsets", f'{{"{topic}": {{"0": 1}}}}')
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    with pytest.raises(StreamingQueryException) as raised:
        query.awaitTermination()
    message = str(raised.value)
    assert f"{topic}-0 was to be read from offset 1, but has offsets 2 to 3" in message
    assert "Traceback" not in message
    assert "\tat org.apache" not in message


def test_a_stream_that_is_refused_gives_the_reason(spark: SparkSession) -> None:
    """PySpark would report an UnboundLocalError of its own instead."""
    from pyspark.errors import StreamingQueryException

    query = (
        spark.readStream.format("kraftlog")
        .option("kafka.bootstrap.servers", "localhost")
        .option("subscribe", "t")
        .option("endingOffsets", "latest")
        .load()
        .writeStream.format("noop")
        .start()
    )
    with pytest.raises(StreamingQueryException) as raised:
        query.awaitTermination()
    assert "option endingOffsets is for batch reads; a stream has no end" in str(raised.value)
    assert "Traceback" not in str(raised.value)


def test_a_batch_that_is_corrupt_on_disk_is_named_in_a_paragraph(
    spark: SparkSession,
    client: Client,
    address: str,
    named: Named,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Both in Spark's error and in that of a pipeline."""
    from pyspark.errors.exceptions.captured import CapturedException

    topic = named("t")
    client.create_topic(topic, partitions=1)
    for _ in range(3):
        write(client, topic, 3)  # each is a batch
    corrupt_last_batch(client, topic)
    rows = spark.read.format("kraftlog").options(
        **{"kafka.bootstrap.servers": address, "subscribe": topic}
    )
    with pytest.raises(CapturedException) as raised:
        rows.load().collect()
    capsys.readouterr()
    assert archive(address, tmp_path, topic) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"kraftlog pipeline archive: {topic}-0, offsets 6 to 8: checksum")
    client.delete_topic(topic)
    message = str(raised.value)
    assert f"{topic}-0, offsets 6 to 8: checksum" in message
    assert "Traceback" not in message
    assert "\tat org.apache" not in message
    assert len(message) < 500


def corrupt_last_batch(client: Client, topic: str) -> None:
    """Flip a bit near the end of the last batch of the topic's partition 0, on the only broker."""
    [folder] = client.log_dirs()[1]
    segment = Path(folder.log_dir, f"{topic}-0", f"{0:020d}.log")
    data = segment.read_bytes().rstrip(b"\0")  # Kafka may have preallocated space
    with segment.open("r+b") as file:
        file.seek(len(data) - 2)
        file.write(bytes([data[-2] ^ 1]))
