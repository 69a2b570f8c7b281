"""What `kraftlog pipeline archive` checks before Spark starts and before anything is created."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

import pytest

from kraftlog import Client
from kraftlog.spark.lake.delta_table import DeltaArchive
from kraftlog.spark.lake.state import ArchiveState
from kraftlog.spark.pipelines import common
from kraftlog.types import uuid_text
from tests.spark.archives import archive, checkpoint, make_topic
from tests.spark.test_lake_state import create_old

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

COUNT = 4


class SparkStartedError(AssertionError):
    """The pipeline would have started Spark, which these tests do without."""


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(self: common.Pipeline) -> None:
        raise SparkStartedError

    monkeypatch.setattr(common.Pipeline, "spark", property(start))


@pytest.fixture
def topic(our_client: Client, named: Callable[[str], str]) -> str:
    return make_topic(our_client, named("t"), COUNT)


def prepare_archive(our_node: str, lake: Path, *arguments: str) -> int:
    """Run an archive up to the start of Spark; return 0 if it has created tables, else its code."""
    code = archive(our_node, lake, *arguments)
    return 0 if code == 1 and os.listdir(lake) else code


def start_offsets(lake: Path, topic: str) -> dict[int, int]:
    table = DeltaArchive.open(str(lake), topic)
    assert table is not None
    return table.state.offsets


def test_an_unknown_topic_creates_no_table_of_any_topic(
    our_node: str, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = tmp_path / "lake"
    assert archive(our_node, lake, topic, "nowhere") == 1
    assert "topic nowhere does not exist" in capsys.readouterr().err
    assert not lake.exists()


def test_a_from_other_than_the_one_of_the_first_run_is_refused(
    our_node: str, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run with the same --from, or without --from, continues the table, as after a kill."""
    assert prepare_archive(our_node, tmp_path, topic, "--from", "latest") == 0
    assert start_offsets(tmp_path, topic) == {0: COUNT, 1: COUNT}
    capsys.readouterr()
    for other in ("earliest", "2026-01-01", f'{{"{topic}": {{"0": 1, "1": 1}}}}'):
        assert archive(our_node, tmp_path, topic, "--from", other) == 3
        errors = capsys.readouterr().err
        assert f"{tmp_path / topic} exists and was begun with --from latest, so --from" in errors
        assert f"or delete {tmp_path / topic}, which has no records yet" in errors
    assert prepare_archive(our_node, tmp_path, topic, "--from", "latest") == 0
    assert prepare_archive(our_node, tmp_path, topic) == 0
    assert start_offsets(tmp_path, topic) == {0: COUNT, 1: COUNT}


def test_an_equal_start_in_another_notation_is_accepted(
    our_node: str, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start = f'{{"{topic}": {{"0": 1, "1": 2}}}}'
    assert prepare_archive(our_node, tmp_path / "a", topic, "--from", start) == 0
    assert start_offsets(tmp_path / "a", topic) == {0: 1, 1: 2}
    reordered = f'{{"{topic}":{{"1":2,"0":1}}}}'
    assert prepare_archive(our_node, tmp_path / "a", topic, "--from", reordered) == 0
    assert prepare_archive(our_node, tmp_path / "b", topic, "--from", "2026-01-01") == 0
    other_zone = "2026-01-01T01:00+01:00"
    assert prepare_archive(our_node, tmp_path / "b", topic, "--from", other_zone) == 0
    assert archive(our_node, tmp_path / "b", topic, "--from", "2026-01-02") == 3
    assert "begun with --from 2026-01-01T00:00:00+00:00" in capsys.readouterr().err


def test_a_checkpoint_that_is_newer_than_the_table_is_refused(
    our_node: str, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Spark would see nothing to archive, and the run would end without a word."""
    folder = checkpoint(tmp_path, topic)
    offsets = json.dumps({topic: {"0": COUNT, "1": 0}})
    for name, text in (("offsets", f"v1\n{{}}\n{offsets}"), ("commits", "v1\n{}")):
        (folder / name).mkdir(parents=True)
        (folder / name / "0").write_text(text)
    assert archive(our_node, tmp_path, topic) == 3
    expected = f"{topic}-0: the checkpoint is newer than the table"
    assert expected in capsys.readouterr().err
    assert prepare_archive(our_node, tmp_path, topic, "--from", "latest") == 0
    assert archive(our_node, tmp_path, topic, "--dry-run") == 0
    shutil.rmtree(folder)
    assert prepare_archive(our_node, tmp_path / "other", topic) == 0


def test_from_has_no_effect_on_a_table_of_an_older_version(
    our_node: str,
    our_client: Client,
    topic: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic_id = uuid_text(our_client.cluster.topic(topic).id)
    create_old(tmp_path, ArchiveState(topic, topic_id, "raw", {0: 0, 1: 0}))
    assert archive(our_node, tmp_path, topic, "--from", "latest", "--dry-run") == 0
    [line] = [row for row in capsys.readouterr().out.splitlines() if '"step"' in row]
    assert f"{topic}: the table exists and is continued at its end: --from has no effect" in line


def test_a_start_after_the_log_end_is_refused_with_the_logs_offsets(
    our_node: str, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is not reported as data loss, since no record has been read yet."""
    lake = tmp_path / "lake"
    given = f'{{"{topic}": {{"0": 1, "1": 99}}}}'
    assert archive(our_node, lake, topic, "--from", given) == 1
    errors = capsys.readouterr().err
    assert f"--from: {topic}-1 has offsets 0 to {COUNT}, and 99 was given" in errors
    assert not lake.exists()


def test_a_table_without_dates_cannot_be_partitioned_by_date_later(
    our_node: str, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert prepare_archive(our_node, tmp_path, topic) == 0
    assert archive(our_node, tmp_path, topic, "--partition-by", "date") == 3
    assert "exists and is not partitioned by date" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["t", "--trigger", "soon"], 2, "--trigger soon: expected a time such as '10 seconds'"),
        (["t", "--continuous", "--trigger", "10"], 2, "--trigger 10: expected a time"),
        (["ord*"], 1, "'ord*' can't be the name of a topic: name each topic"),
        (["a,b"], 1, "name each topic, as in: archive orders payments --to lake"),
        (["t", "--decode", "protobuf"], 2, "Protobuf can't be decoded: archive the values as raw"),
        (["t", "--decode", "xml"], 2, "xml: expected one of raw, string, json, avro"),
        (["t", "--decode", "json-confluent"], 2, "json-confluent needs --registry DIR|URL"),
        ([".."], 1, "'..' can't be the name of a topic"),
    ],
)
def test_an_invalid_argument_is_named_in_one_line(
    our_node: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    text: str,
) -> None:
    assert archive(our_node, tmp_path / "lake", *arguments) == code
    errors = capsys.readouterr().err
    assert text in errors
    assert len(errors.splitlines()) == 1
    assert not (tmp_path / "lake").exists()


def test_intervals_of_spark_are_accepted(our_node: str, topic: str, tmp_path: Path) -> None:
    for text in ("1 second", "500 milliseconds", "1 minute 30 seconds"):
        assert archive(our_node, tmp_path, topic, "--trigger", text, "--dry-run") == 0


@pytest.mark.parametrize("dry_run", [[], ["--dry-run"]])
def test_an_unwritable_directory_is_refused_also_by_a_dry_run(
    our_node: str,
    topic: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    dry_run: list[str],
) -> None:
    file = tmp_path / "file"
    file.touch()
    assert archive(our_node, file / "lake", topic, *dry_run) == 1
    assert f"--to {file / 'lake'}: nothing can be written to {file}" in capsys.readouterr().err
