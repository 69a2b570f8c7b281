"""Several topics in one archive: chosen by a pattern, with new topics and new partitions."""

from __future__ import annotations

import json
from threading import Lock
from typing import TYPE_CHECKING

import pytest

from kraftlog import Client
from kraftlog.errors import KraftlogError
from kraftlog.spark.lake.topic_archive import TopicArchive
from kraftlog.spark.pipelines import archive as pipeline
from kraftlog.spark.pipelines import common
from tests.spark.archives import archive, record_positions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    from pyspark.sql import SparkSession


def create(client: Client, topic: str, partitions: int = 1) -> str:
    """A topic with a record in each partition."""
    client.create_topic(topic, partitions=partitions)
    for partition in range(partitions):
        client.produce(topic, b"1", partition=partition)
    return topic


def planned_topics(capsys: pytest.CaptureFixture[str]) -> set[str]:
    plan = json.loads(capsys.readouterr().out.splitlines()[-1])["plan"]
    return {each["topic"] for each in plan}


def test_a_pattern_matches_whole_names(
    our_node: str,
    our_client: Client,
    named: Callable[[str], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Topics that are named are archived as well, and each topic once."""
    prefix = named("p")
    topics = [create(our_client, f"{prefix}.{name}") for name in ("a", "b", "bb")]
    other = create(our_client, named("other"))
    pattern = ("--topics-pattern", rf"{prefix}\.[ab]")
    for words, expected in (
        ([], set(topics[:2])),
        ([other, topics[0]], {*topics[:2], other}),
    ):
        assert archive(our_node, tmp_path / "lake", *words, *pattern, "--dry-run") == 0
        assert planned_topics(capsys) == expected


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ([], 2, "expected topics, or --topics-pattern"),
        (["--topics-pattern", "("], 2, "--topics-pattern (: "),
        (["--topics-pattern", "nothing-[0-9]"], 1, "the name of no topic matches"),
    ],
)
def test_a_pattern_without_topics_is_an_error(
    our_node: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    text: str,
) -> None:
    assert archive(our_node, tmp_path, *arguments) == code
    assert text in capsys.readouterr().err


class RunningQuery:
    """A query of Spark that never ends by itself."""

    def awaitTermination(self, _: float) -> bool:  # noqa: N802 - Spark's name
        return False

    def stop(self) -> None:
        pass


def test_a_continuous_archive_begins_with_topics_that_are_created_later(
    our_node: str,
    our_client: Client,
    named: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A topic that is refused is looked at once."""
    prefix = named("p")
    started: list[str] = []

    def start(self: TopicArchive, *_: Any) -> RunningQuery:
        started.append(self.topic)
        if len(started) == 3:
            raise KeyboardInterrupt
        create(our_client, f"{prefix}.{len(started)}")
        return RunningQuery()

    monkeypatch.setattr(common.Pipeline, "spark", None)
    monkeypatch.setattr(TopicArchive, "start", start)
    monkeypatch.setattr(pipeline, "_LOOK_S", 0.1)
    create(our_client, f"{prefix}.0")
    pattern = ("--topics-pattern", rf"{prefix}\..*", "--continuous")
    assert archive(our_node, tmp_path, *pattern) == 130
    assert started == [f"{prefix}.{number}" for number in range(3)]


def test_a_refused_topic_of_a_pattern_does_not_stop_the_others(
    spark: SparkSession,
    our_node: str,
    our_client: Client,
    named: Callable[[str], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The topic was created again; the other one has got more partitions."""
    prefix = named("p")
    first, second = (create(our_client, f"{prefix}.{name}", partitions=2) for name in "ab")
    pattern = ("--topics-pattern", rf"{prefix}\..*")
    assert archive(our_node, tmp_path, *pattern) == 0
    our_client.delete_topic(first)
    create(our_client, first, partitions=2)
    our_client.create_partitions(second, 5)
    our_client.produce(second, b"2", partition=4)
    assert archive(our_node, tmp_path, *pattern) == 3
    errors = capsys.readouterr().err
    assert f"topic {first} was deleted and created again" in errors
    assert record_positions(tmp_path, first) == [(0, 0), (1, 0)]
    assert record_positions(tmp_path, second) == [(0, 0), (1, 0), (4, 0)]


def test_a_topic_of_a_pattern_that_is_deleted_does_not_stop_the_others(
    spark: SparkSession,
    our_node: str,
    our_client: Client,
    named: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A continuous archive says it once, and archives what comes into another topic."""
    prefix = named("p")
    first, second = (create(our_client, f"{prefix}.{name}") for name in "ab")
    committed: set[str] = set()
    turn, to_delete = Lock(), [first]  # both topics may end their first batches at the same time
    process_batch, refuse = TopicArchive._process_batch, pipeline._Archive._refuse

    def process_and_delete(self: TopicArchive, *arguments: Any) -> None:
        process_batch(self, *arguments)
        committed.add(self.topic)
        if len(record_positions(tmp_path, second)) == 2:
            raise KraftlogError("the end of this test")
        with turn:
            if committed == {first, second} and to_delete:
                our_client.delete_topic(to_delete.pop())

    def refuse_and_produce(self: Any, *arguments: Any) -> None:
        refuse(self, *arguments)
        our_client.produce(second, b"2", partition=0)

    monkeypatch.setattr(TopicArchive, "_process_batch", process_and_delete)
    monkeypatch.setattr(pipeline._Archive, "_refuse", refuse_and_produce)
    monkeypatch.setattr(pipeline, "_LOOK_S", 0.1)
    words = ("--topics-pattern", rf"{prefix}\..*", "--continuous", "--trigger", "100 milliseconds")
    assert archive(our_node, tmp_path, *words) == 1
    errors = capsys.readouterr().err
    assert errors.count(f"topic {first} was deleted; its table ends at offset 1 of") == 1, errors
    assert record_positions(tmp_path, first) == [(0, 0)]
    assert record_positions(tmp_path, second) == [(0, 0), (0, 1)]


def test_a_topic_that_is_deleted_before_it_is_planned_is_left_out(
    our_node: str,
    our_client: Client,
    named: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It is listed, and gone when its archive looks for it; one that is named is an error."""
    gone, kept = named("gone"), create(our_client, named("kept"))
    monkeypatch.setattr(pipeline, "selected", lambda *_: [(gone, 0), (kept, 0)])
    words = ("--topics-pattern", ".*", "--dry-run")
    assert archive(our_node, tmp_path, *words) == 3
    output = capsys.readouterr()
    assert f"topic {gone} was deleted" in output.err
    assert json.loads(output.out.splitlines()[-1])["plan"][0]["topic"] == kept
    assert archive(our_node, tmp_path, gone, "--dry-run") == 1


def test_partitions_that_are_added_during_a_batch_are_in_a_later_one(
    spark: SparkSession,
    our_node: str,
    our_client: Client,
    named: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A continuous archive finds them, and none of their records is left out."""
    topic = create(our_client, named("grows"))
    batches: list[int] = []
    process_batch = TopicArchive._process_batch

    def process_and_add(self: TopicArchive, *arguments: Any) -> None:
        process_batch(self, *arguments)
        batches.append(len(self.table.state.offsets))
        if len(batches) == 1:
            our_client.create_partitions(topic, 3)
            for partition in range(3):
                our_client.produce(topic, b"2", partition=partition)
        elif len(record_positions(tmp_path, topic)) == 4:
            raise KraftlogError("the end of this test")

    monkeypatch.setattr(TopicArchive, "_process_batch", process_and_add)
    assert archive(our_node, tmp_path, topic, "--continuous", "--trigger", "100 milliseconds") == 1
    assert record_positions(tmp_path, topic) == [(0, 0), (0, 1), (1, 0), (2, 0)]
