"""Source, sink and pipelines against a broker of Kafka with TLS and SASL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kraftlog import Client
from kraftlog.spark.pipelines.verify import run as verify
from tests.interop.secured_kafka import PASSWORD, SecuredKafka, secured_kafka
from tests.spark.archives import archive, rows
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.long]
COUNT = 2_000


@pytest.fixture(scope="module")
def broker(kafka_jars: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with secured_kafka(str(tmp_path_factory.mktemp("secured"))) as started:
        yield started


def options_of(broker: SecuredKafka, mechanism: str) -> dict[str, str]:
    given = {f"kafka.{key}": value for key, value in broker.login(mechanism).items()}
    return given | {"kafka.bootstrap.servers": broker.address("login")}


def write(spark: SparkSession, topic: str, options: dict[str, str]) -> None:
    numbers = spark.range(0, COUNT, 1, 2).selectExpr("cast(id as string) value")
    numbers.write.format("kraftlog").mode("append").options(**options, topic=topic).save()


def plan_of(frame: DataFrame) -> str:
    explained: str = frame._jdf.queryExecution().toString()
    return explained


def files_with(password: str, folder: Path) -> list[str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [str(path) for path in files if password.encode() in path.read_bytes()]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512", "OAUTHBEARER"])
def test_rows_are_written_and_read_as_by_the_connector(
    spark: SparkSession, connector: str, broker: SecuredKafka, mechanism: str
) -> None:
    """The connector takes the same options, and reads the same rows."""
    topic, options = f"rows-{mechanism.lower()}", options_of(broker, mechanism)
    with Client(broker.address("plain"), timeout_s=LIMIT_S) as client:
        client.create_topic(topic, partitions=2)
    write(spark, topic, options)
    ours = spark.read.format("kraftlog").options(**options, subscribe=topic).load()
    columns = ("value", "partition", "offset", "timestamp")
    found = sorted(map(tuple, ours.select(*columns).collect()))
    assert sorted(int(value) for value, *_ in found) == [*range(COUNT)]
    if mechanism != "OAUTHBEARER":  # Java's client needs a class of its own for its token
        theirs = spark.read.format(connector).options(**options, subscribe=topic).load()
        assert sorted(map(tuple, theirs.select(*columns).collect())) == found
    assert PASSWORD not in plan_of(ours)


def test_a_stream_keeps_the_password_out_of_its_checkpoint(
    spark: SparkSession, broker: SecuredKafka, tmp_path: Path
) -> None:
    options = options_of(broker, "SCRAM-SHA-256")
    with Client(broker.address("plain"), timeout_s=LIMIT_S) as client:
        for topic in ("stream-in", "stream-out"):
            client.create_topic(topic, partitions=2)
    write(spark, "stream-in", options)
    stream = spark.readStream.format("kraftlog").options(**options, subscribe="stream-in")
    query = (
        stream.option("startingOffsets", "earliest")
        .load()
        .select("value")
        .writeStream.format("kraftlog")
        .options(**options, topic="stream-out")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(int(LIMIT_S))
    written = spark.read.format("kraftlog").options(**options, subscribe="stream-out").load()
    assert written.count() == COUNT
    assert files_with(PASSWORD, tmp_path) == []
    assert PASSWORD not in str(query.lastProgress)


def test_an_archive_of_a_secured_cluster_is_equal_to_its_log(
    spark: SparkSession,
    broker: SecuredKafka,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with Client(broker.address("plain"), timeout_s=LIMIT_S) as client:
        client.create_topic("archived", partitions=2)
    write(spark, "archived", options_of(broker, "SCRAM-SHA-512"))
    config, lake = tmp_path / "client.properties", tmp_path / "lake"
    lines = [f"{key}={value}" for key, value in broker.login("SCRAM-SHA-512").items()]
    config.write_text("\n".join(lines), encoding="utf-8")
    secured = ["--command-config", str(config)]
    assert archive(broker.address("login"), lake, "archived", *secured) == 0
    assert len(rows(lake, "archived")) == COUNT
    assert verify([str(lake), "-b", broker.address("login"), *secured]) == 0
    assert files_with(PASSWORD, lake) == []
    assert PASSWORD not in "".join(capfd.readouterr())
