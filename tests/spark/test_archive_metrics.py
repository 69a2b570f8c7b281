"""`pipeline archive --metrics`: offsets, lags and rates, in a file or over HTTP."""

from __future__ import annotations

import re
import urllib.request
from contextlib import closing
from typing import TYPE_CHECKING
from urllib.error import HTTPError

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kraftlog import Client
from kraftlog.client.deadline import Deadline
from kraftlog.errors import ConfigError
from kraftlog.spark.lake.topic_archive import AddedRows, BatchReport
from kraftlog.spark.pipelines import archive_metrics
from kraftlog.spark.pipelines.archive_metrics import ArchiveMetrics
from kraftlog.spark.pipelines.metrics_output import metrics_output
from tests.spark.archives import archive, produce
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

SECOND_NS = 1_000_000_000


def values_in(text: str) -> dict[str, float]:
    """Each value by the metric's name, topic and partition, such as `offset orders 0`."""
    return {
        " ".join((sample.name.removeprefix("kraftlog_archive_"), *sample.labels.values())): (
            sample.value
        )
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


class Texts:
    """An output that keeps what was published."""

    url = ""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.error: OSError | None = None

    def publish(self, text: str) -> None:
        if self.error is not None:
            raise self.error
        self.texts.append(text)

    def close(self) -> None:
        self.texts.append("closed")


def batch(topic: str, partitions: dict[int, AddedRows], log_ends: dict[int, int]) -> BatchReport:
    return BatchReport(topic, 1, 0, 0, 0, 0, partitions, log_ends, {})


def no_client() -> Client:
    raise AssertionError


def test_each_partition_has_its_offsets_lag_and_rates() -> None:
    """Of two topics in one run; a new partition; a refused topic; rates over the last minute."""
    now_ns = [0]
    metrics = ArchiveMetrics(Texts(), no_client, print, lambda: now_ns[0])
    metrics.begin("a", {0: 100, 1: 0}, {0: 120, 1: 0}, 1_700_000_000_000)
    metrics.begin("b", {0: 7}, {0: 9}, 0)
    values = values_in(metrics.text())
    assert (values["offset a 0"], values["offset a 1"], values["offset b 0"]) == (100, 0, 7)
    assert values["last_commit_time_seconds a"] == 1_700_000_000
    assert (values["lag_offsets a 0"], values["lag_offsets b 0"]) == (20, 2)
    assert "last_commit_time_seconds b" not in values

    now_ns[0] = 20 * SECOND_NS
    added = {0: AddedRows(150, 40, 2, 8000), 2: AddedRows(10, 10)}
    metrics.commit(batch("a", added, {0: 160, 1: 5, 2: 10}))
    metrics.refuse("b")
    values = values_in(metrics.text())
    assert [values[f"offset a {index}"] for index in range(3)] == [150, 0, 10]
    assert [values[f"log_end_offset a {index}"] for index in range(3)] == [160, 5, 10]
    assert [values[f"lag_offsets a {index}"] for index in range(3)] == [10, 5, 0]
    names = ("rows_total", "bytes_total", "dead_letters_total", "rows_per_second")
    assert [values[f"{name} a 0"] for name in names] == [40, 8000, 2, 2]
    assert values["bytes_per_second a 0"] == 400
    assert values["last_commit_time_seconds a"] > 1_700_000_000
    assert (values["up a"], values["up b"]) == (1, 0)

    now_ns[0] = 79 * SECOND_NS
    assert values_in(metrics.text())["rows_per_second a 0"] == 0.7
    now_ns[0] = 81 * SECOND_NS
    values = values_in(metrics.text())
    assert (values["rows_per_second a 0"], values["rows_total a 0"]) == (0, 40)


def wait_for(is_so: Callable[[], bool]) -> None:
    deadline = Deadline(LIMIT_S)
    while not is_so():
        assert not deadline.is_over
        deadline.pause(0.02)


def test_the_lag_grows_while_nothing_is_committed(
    our_node: str, our_client: Client, named: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic that can't be looked up keeps its old values; so do all on a full disk."""
    monkeypatch.setattr(archive_metrics, "_EVERY_S", 0.02)
    topic = named("t")
    our_client.create_topic(topic, partitions=2)
    output = Texts()
    said: list[str] = []
    metrics = ArchiveMetrics(output, lambda: Client(our_node, timeout_s=LIMIT_S), said.append)
    metrics.start()
    try:
        metrics.begin("missing", {0: 1}, {0: 3}, 0)
        metrics.begin(topic, {0: 0, 1: 0}, {0: 0, 1: 0}, 0)
        wait_for(lambda: f"lag_offsets {topic} 1" in values_in(output.texts[-1]))
        our_client.produce(topic, b"1", partition=1)
        wait_for(lambda: values_in(output.texts[-1])[f"lag_offsets {topic} 1"] == 1)
        values = values_in(output.texts[-1])
        assert values[f"log_end_offset {topic} 0"] == 0
        assert f"log_end_time_seconds {topic}" in values
        assert values["log_end_offset missing 0"] == 3
        output.error = OSError(28, "No space left on device")
        wait_for(lambda: bool(said))
        output.error = None
        count = len(output.texts)
        wait_for(lambda: len(output.texts) > count)
    finally:
        metrics.close()
    assert output.texts[-1] == "closed"
    assert said == ["the metrics cannot be written: [Errno 28] No space left on device"]


def test_metrics_are_served_over_http() -> None:
    output = metrics_output("127.0.0.1:0")
    with closing(output):
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/metrics", output.url)
        output.publish("a 1\n")
        with urllib.request.urlopen(output.url, timeout=LIMIT_S) as response:
            assert response.read() == b"a 1\n"
            assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        with pytest.raises(HTTPError, match="404"):
            urllib.request.urlopen(output.url.replace("metrics", "other"), timeout=LIMIT_S)
        with pytest.raises(ConfigError, match="Address already in use; expected a file"):
            metrics_output(output.url.removeprefix("http://").removesuffix("/metrics"))


@pytest.mark.parametrize("place", ["", "/proc/nope/m", "127.0.0.1:99999", "no-such-host.invalid:1"])
def test_metrics_that_can_go_nowhere_are_refused(tmp_path: Path, place: str) -> None:
    with pytest.raises(ConfigError, match="expected a file that can be written, or HOST:PORT"):
        metrics_output(place or str(tmp_path))


def test_metrics_of_two_topics_continue_after_a_restart(
    spark: SparkSession,
    our_node: str,
    our_client: Client,
    named: Callable[[str], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A run that has nothing to archive has the offsets, lag and time of the last commit, too."""
    topics = [named("a"), named("b")]
    file = tmp_path / "archive.prom"
    for topic, count in zip(topics, (30, 20), strict=True):
        our_client.create_topic(topic, partitions=2)
        produce(our_client, topic, count)
    words = (*topics, "--metrics", str(file))
    assert archive(our_node, tmp_path / "lake", *words) == 0
    first = values_in(file.read_text())
    for topic, count in zip(topics, (30, 20), strict=True):
        names = ("offset", "log_end_offset", "rows_total", "lag_offsets", "dead_letters_total")
        assert [first[f"{name} {topic} 1"] for name in names] == [count, count, count, 0, 0]
        assert first[f"bytes_total {topic} 1"] > 0
        assert first[f"rows_per_second {topic} 1"] > 0

    produce(our_client, topics[0], 5, first=30)
    assert archive(our_node, tmp_path / "lake", *words) == 0
    second = values_in(file.read_text())
    names = ("offset", "log_end_offset", "rows_total", "lag_offsets", "dead_letters_total")
    assert [second[f"{name} {topics[0]} 0"] for name in names] == [35, 35, 5, 0, 0]
    assert [second[f"{name} {topics[1]} 0"] for name in names] == [20, 20, 0, 0, 0]
    last = f"last_commit_time_seconds {topics[1]}"
    assert second[last] == pytest.approx(first[last], abs=60)
    capsys.readouterr()
    assert archive(our_node, tmp_path / "lake", *words[:2], "--metrics", str(tmp_path)) == 1
    assert "Is a directory; expected a file" in capsys.readouterr().err
