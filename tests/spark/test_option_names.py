"""Each option of Spark's Kafka connector works, is refused, or is named as without effect."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StringType, StructField, StructType

from kraftlog.errors import ConfigError
from kraftlog.spark import option_names
from kraftlog.spark.brief_errors import KraftlogSparkError
from kraftlog.spark.option_names import SINK, SOURCE
from kraftlog.spark.options import source_options
from kraftlog.spark.sink_options import sink_options
from kraftlog.spark.source import KraftlogDataSource, TaskRange

PAGE = Path(__file__).parents[2] / "docs" / "use" / "spark-connector.md"
SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}
#: The keys in Spark's KafkaSourceProvider, and the settings of Kafka's clients that it treats.
CONNECTORS = """
    assign subscribePattern subscribe startingOffsets endingOffsets startingOffsetsByTimestamp
    endingOffsetsByTimestamp startingTimestamp endingTimestamp failOnDataLoss minPartitions
    maxRecordsPerPartition maxOffsetsPerTrigger minOffsetsPerTrigger maxTriggerDelay
    fetchOffset.numRetries fetchOffset.retryIntervalMs kafkaConsumer.pollTimeoutMs
    startingOffsetsByTimestampStrategy groupIdPrefix includeHeaders topic
    kafka.bootstrap.servers kafka.group.id kafka.auto.offset.reset kafka.key.deserializer
    kafka.value.deserializer kafka.enable.auto.commit kafka.interceptor.classes
    kafka.key.serializer kafka.value.serializer kafka.isolation.level
"""
#: Options of our own.
OWN = {"rememberTopicIds", "batchHeader"}
#: Settings of Kafka's consumer and producer that resemble used ones.
OTHER_SETTINGS = """
    kafka.client.rack kafka.client.dns.lookup kafka.fetch.max.bytes kafka.max.poll.records
    kafka.auto.commit.interval.ms kafka.default.api.timeout.ms kafka.group.instance.id
    kafka.partition.assignment.strategy kafka.reconnect.backoff.ms kafka.buffer.memory
    kafka.linger.ms kafka.max.block.ms kafka.max.request.size kafka.metadata.max.age.ms
    kafka.partitioner.adaptive.partitioning.enable kafka.retries kafka.retry.backoff.max.ms
    kafka.transaction.timeout.ms kafka.security.providers kafka.session.timeout.ms
"""
#: A value of each used option that differs from the default.
VALUES_READING = {
    "assign": '{"t": [0]}',
    "subscribePattern": "t.*",
    "subscribe": "other",
    "startingOffsets": '{"t": {"0": 1}}',
    "endingOffsets": '{"t": {"0": 2}}',
    "startingOffsetsByTimestamp": '{"t": {"0": 1}}',
    "endingOffsetsByTimestamp": '{"t": {"0": 2}}',
    "startingOffsetsByTimestampStrategy": "latest",
    "failOnDataLoss": "false",
    "includeHeaders": "true",
    "rememberTopicIds": "true",
    "kafka.isolation.level": "read_committed",
    "kafka.bootstrap.servers": "other:9092",
    "kafka.client.id": "me",
}
VALUES_WRITING = {
    "topic": "t",
    "batchHeader": "true",
    "kafka.acks": "1",
    "kafka.enable.idempotence": "false",
    "kafka.compression.type": "gzip",
    "kafka.partitioner.ignore.keys": "true",
    "kafka.bootstrap.servers": "other:9092",
    "kafka.client.id": "me",
    "kafka.max.in.flight.requests.per.connection": "3",
}
#: What security options are added to: without it most of them have no effect.
SECURED = {
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "SCRAM-SHA-256",
    "kafka.sasl.jaas.config": 'a.ScramLoginModule required username="u" password="p";',
}
VALUES_OF_SECURITY = {
    "kafka.security.protocol": "SASL_PLAINTEXT",
    "kafka.sasl.mechanism": "SCRAM-SHA-512",
    "kafka.sasl.jaas.config": 'a.ScramLoginModule required username="v" password="p";',
    "kafka.ssl.truststore.location": "ca.pem",
    "kafka.ssl.keystore.location": "me.pem",
    "kafka.ssl.keystore.type": "PEM",
    "kafka.ssl.truststore.type": "PEM",
    "kafka.ssl.endpoint.identification.algorithm": "",
    "kafka.ssl.enabled.protocols": "TLSv1.3",
    "kafka.ssl.protocol": "TLSv1.3",
}
SELECTING = ("assign", "subscribePattern", "subscribe")


#: Options that belong together.
PARTNERS = {
    "kafka.ssl.keystore.key": {"kafka.ssl.keystore.certificate.chain": "7"},
    "kafka.ssl.keystore.certificate.chain": {"kafka.ssl.keystore.key": "7"},
}


def reading(options: dict[str, str]) -> Any:
    selects = any(name in options for name in ("assign", "subscribePattern", "subscribe"))
    selection = {} if selects else {"subscribe": "t"}
    return source_options(SERVERS | selection | options, is_stream=None)


def writing(options: dict[str, str]) -> Any:
    level = re.search(r"compression\.(\w+)\.level", " ".join(options))
    codec = {"kafka.compression.type": level[1]} if level else {}
    return sink_options(SERVERS | codec | options)


def effect(name: str, *, is_reading: bool) -> tuple[str, str]:
    """What an option does, with the reason, found by setting it."""
    parse, names, values = (
        (reading, SOURCE, VALUES_READING) if is_reading else (writing, SINK, VALUES_WRITING)
    )
    secured = name.startswith(("kafka.security.protocol", "kafka.sasl.", "kafka.ssl."))
    base = SECURED if secured else {}
    value = (VALUES_OF_SECURITY | values).get(name, "7")
    if name in names.refused:
        with pytest.raises(ConfigError, match=f"option {name} can't be set: ") as raised:
            parse({name: value})
        return "refused", str(raised.value).partition(": ")[2]
    given = base | PARTNERS.get(name, {}) | {name: value}
    parsed, ignored = parse(given), names.ignored([name])
    assert (parsed == parse(base)) == (name in ignored), name
    return ("no effect", ignored[name]) if ignored else ("works", "")


def rows() -> list[list[str]]:
    """The rows of the page's table: names, what they do in reading and in writing, and why."""
    section = PAGE.read_text().partition("## Each option of the connector\n\n")[2]
    lines = section.partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


def test_the_page_says_what_each_option_of_the_connector_does() -> None:
    shown = set()
    for names, read, write, why in rows():
        for name in {*re.findall("`(.*?)`", names)} - {"kafka.*"}:
            shown.add(name)
            effects = [effect(name, is_reading=is_reading) for is_reading in (True, False)]
            assert [does for does, _ in effects] == [read, write], name
            # Of two reasons the page gives the one that says more.
            assert any(reason in why for _, reason in effects), name
    assert {*CONNECTORS.split()} <= shown
    ours = {*SOURCE.used, *SOURCE.refused, *SOURCE.without_effect, *SINK.used, *SINK.refused}
    assert ours - OWN - shown == {"path"}


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("startOffsets", "startingOffsets"),
        ("endOffsets", "endingOffsets"),
        ("startTimestamp", "startingTimestamp"),
        ("startingOffset", "startingOffsets"),
        ("maxOffsets", "maxOffsetsPerTrigger"),
        ("maxFilesPerTrigger", "maxOffsetsPerTrigger"),
        ("numPartitions", "minPartitions"),
        ("headers", "includeHeaders"),
        ("pattern", "subscribePattern"),
        ("dataLoss", "failOnDataLoss"),
        ("bootstrap.servers", "kafka.bootstrap.servers"),
        ("isolation.level", "kafka.isolation.level"),
        ("kafka.bootstrap.server", "kafka.bootstrap.servers"),
        ("kafka.isolationlevel", "kafka.isolation.level"),
    ],
)
def test_a_misspelled_option_of_the_source_is_refused(name: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=f"option {name} is unknown: did you mean {meant}?"):
        reading({name: "1"})


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("topics", "topic"),
        ("batchHeaders", "batchHeader"),
        ("acks", "kafka.acks"),
        ("compression.type", "kafka.compression.type"),
        ("kafka.compression", "kafka.compression.type"),
        ("kafka.enable.idempotency", "kafka.enable.idempotence"),
    ],
)
def test_a_misspelled_option_of_the_sink_is_refused(name: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=f"option {name} is unknown: did you mean {meant}?"):
        writing({name: "1"})


def test_other_settings_of_kafkas_clients_are_accepted() -> None:
    given = dict.fromkeys([*OTHER_SETTINGS.split(), "checkpointLocation", "queryName"], "1")
    reading(given)
    writing(given)
    assert set(SOURCE.ignored(given)) == set(SINK.ignored(given)) == {*OTHER_SETTINGS.split()}


def test_options_without_effect_are_named_once(capfd: pytest.CaptureFixture[str]) -> None:
    option_names._reported.clear()
    given = SERVERS | {"subscribe": "t", "fetchoffset.numretries": "9", "maxoffsetspertrigger": "5"}
    source = KraftlogDataSource(given)
    assert source.schema() == source.schema()
    assert capfd.readouterr().err == (
        "kraftlog: options without effect: fetchOffset.numRetries (offsets are looked up until "
        "kafkaConsumer.pollTimeoutMs is over)\n"
    )
    option_names.report(option_names.ignored_in_batches(given))
    assert "without effect: maxOffsetsPerTrigger (is for streams)" in capfd.readouterr().err


def test_load_refuses_what_is_wrong_in_batches_and_streams() -> None:
    with pytest.raises(KraftlogSparkError, match="startingOffsets=now: expected earliest"):
        KraftlogDataSource(SERVERS | {"subscribe": "t", "startingOffsets": "now"}).schema()
    with pytest.raises(KraftlogSparkError, match=r"=t\(: expected a regular expr"):
        KraftlogDataSource(SERVERS | {"subscribePattern": "t("}).schema()


@pytest.mark.parametrize(
    ("options", "columns", "expected"),
    [
        ({"endingOffsets": "latest"}, [], "endingOffsets is for batch reads"),
        ({}, [StructField("a", StringType())], "leave out .schema"),
    ],
)
def test_a_stream_gives_the_reason_when_it_starts(
    options: dict[str, str], columns: list[StructField], expected: str
) -> None:
    """PySpark would hide an error of `streamReader` itself."""
    source = KraftlogDataSource(SERVERS | {"subscribe": "t"} | options)
    reader = source.streamReader(StructType(columns))
    for call in (
        reader.initialOffset,
        lambda: reader.latestOffset({}, ReadAllAvailable()),
        lambda: reader.partitions({}, {}),
        lambda: reader.read(TaskRange.__new__(TaskRange)),
    ):
        with pytest.raises(KraftlogSparkError, match=expected):
            call()
