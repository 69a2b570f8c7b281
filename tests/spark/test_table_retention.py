"""`pipeline archive --retention`: whole files of old records are removed; `verify` knows."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import CommitProperties, DeltaTable
from deltalake.transaction import AddAction

from kraftlog import Client
from kraftlog.client.deadline import wall_ms
from kraftlog.errors import KraftlogError
from kraftlog.spark.lake.compaction import compact
from kraftlog.spark.lake.delta_table import DeltaArchive
from kraftlog.spark.lake.retention import Expired, expire
from kraftlog.spark.lake.state import state_of
from kraftlog.spark.lake.topic_archive import TopicArchive
from kraftlog.spark.pipelines import replay, verify
from tests.spark.archives import archive, dead_letters, record_positions
from tests.spark.tampering import BATCH, COUNT, TOPIC, Table, changed, make_lake, without
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

DAY_MS = 86_400_000
AGED = f"{TOPIC}-aged"


@pytest.fixture(scope="module")
def aged(our_node: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive whose first batch is ten days old."""
    lake = tmp_path_factory.mktemp("aged") / "lake"
    now_ms = wall_ms()
    make_lake(our_node, lake, AGED, lambda offset: now_ms - (10 * DAY_MS if offset < BATCH else 0))
    return lake


@pytest.fixture
def table(aged: Path, tmp_path: Path) -> Table:
    return Table(aged, tmp_path / "lake", AGED)


def opened(table: Table) -> DeltaArchive:
    found = DeltaArchive.open(table.lake, table.topic)
    assert found is not None
    return found


def shortened(table: Table) -> Table:
    assert expire(opened(table), wall_ms() - DAY_MS).files == 2
    return table


def verified(table: Table, address: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = verify.run([table.lake, "-b", address])
    return code, capsys.readouterr().out


def test_whole_old_files_are_removed_and_the_rest_is_equal(
    table: Table, our_node: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one commit with the offsets that are kept; repeating it removes nothing."""
    version = opened(table).version
    before = expire(opened(table), wall_ms() - 11 * DAY_MS)
    assert (before, opened(table).version) == (Expired(), version)
    expired = expire(opened(table), wall_ms() - DAY_MS, is_dry=True)
    assert (expired, opened(table).version) == (
        Expired(2, 2 * BATCH, {0: BATCH, 1: BATCH}),
        version,
    )
    assert expire(opened(table), wall_ms() - DAY_MS) == expired
    assert opened(table).version == version + 1
    assert expire(opened(table), wall_ms() - DAY_MS) == Expired()
    state = opened(table).state
    assert (state.kept, state.removed, state.rows) == ({0: BATCH, 1: BATCH}, 2 * BATCH, 2 * COUNT)
    code, output = verified(table, our_node, capsys)
    assert (code, output.count(f"  {BATCH}-{COUNT - 1}")) == (0, 2), output
    assert f"equal: {2 * (COUNT - BATCH)} records compared" in output


def test_what_is_kept_outlives_the_cleanup_of_deltas_log(
    table: Table, our_node: str, capsys: pytest.CaptureFixture[str]
) -> None:
    delta = DeltaTable(shortened(table).path)
    delta.create_checkpoint()
    for version in range(delta.version() + 1):
        os.remove(table.commit_path(version))
    state = state_of(DeltaTable(table.path))
    assert state is not None
    assert (state.kept, state.removed) == ({0: BATCH, 1: BATCH}, 2 * BATCH)
    assert verified(table, our_node, capsys)[0] == 0


def test_a_table_whose_records_are_all_old_is_empty_and_equal(
    table: Table, our_node: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert expire(opened(table), wall_ms() + DAY_MS).rows == 2 * COUNT
    assert opened(table).state.kept == {0: COUNT, 1: COUNT}
    code, output = verified(table, our_node, capsys)
    assert (code, output.splitlines()[-1]) == (0, "equal: 0 records compared")


def restore(table: Table) -> None:
    """Add a removed file again, whose records the log still has."""
    delta = DeltaTable(table.path)
    [removed, *_] = [
        each["add"] for each in table.commit(1) if "add" in each and "00000-" in each["add"]["path"]
    ]
    add = AddAction(removed["path"], removed["size"], {}, 1, True, removed["stats"])
    state = opened(table).state.metadata()
    delta.create_write_transaction(
        [add], "append", delta.schema(), commit_properties=CommitProperties(custom_metadata=state)
    )


DAMAGES: dict[str, tuple[Callable[[Table], object], str]] = {
    "a kept file is deleted": (lambda table: os.remove(table.files[0]), f"{BATCH} missing"),
    "a kept row is removed": (
        lambda table: table.rewrite(without(5), described="all"),
        "1 missing",
    ),
    "the first kept row is removed": (
        lambda table: table.rewrite(without(0), described="all"),
        "1 missing",
    ),
    "a value is changed": (lambda table: table.rewrite(changed(3, value=b"X")), "1 different"),
    "more is deleted than is said": (
        lambda table: DeltaTable(table.path).delete("partition = 1"),
        f"{COUNT - BATCH} missing",
    ),
    "a removed file is there again": (
        restore,
        f"and removed {2 * BATCH} by retention, and there are {2 * COUNT - BATCH}",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_of_a_shortened_table_is_noticed(
    name: str, table: Table, our_node: str, capsys: pytest.CaptureFixture[str]
) -> None:
    damage, said = DAMAGES[name]
    damage(shortened(table))
    code, output = verified(table, our_node, capsys)
    assert (code, said in output) == (3, True), output


def test_a_merged_table_is_shortened_by_its_merged_files(
    table: Table, our_node: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file with old and new records stays as a whole."""
    compact(opened(table))
    assert expire(opened(table), wall_ms() - DAY_MS) == Expired()
    assert expire(opened(table), wall_ms() + DAY_MS).files == 2
    assert verified(table, our_node, capsys)[0] == 0


def action(offsets: tuple[int, int], **changes: Any) -> dict[str, Any]:
    first, last = offsets
    return {
        "path": f"{first}",
        "num_records": last - first + 1,
        "modification_time": 500,
        "min.partition": 0,
        "max.partition": 0,
        "min.offset": first,
        "max.offset": last,
        **changes,
    }


class FakeTable:
    """Has only what retention reads and does."""

    def __init__(self, actions: list[dict[str, Any]]) -> None:
        self._actions = actions
        self.removed: list[str] = []

    def refresh(self) -> None:
        """It is always the newest."""

    def actions(self) -> list[dict[str, Any]]:
        return self._actions

    def remove(self, paths: list[str], *_: object) -> None:
        self.removed += paths


@pytest.mark.parametrize(
    ("actions", "kept"),
    [
        # The time of a file counts if none of its records has a time.
        ([action((0, 9)), action((10, 19), modification_time=1001)], {0: 10}),
        ([action((0, 9), modification_time=1000)], {}),
        # A younger file among older ones keeps all later ones, as in Kafka.
        ([action((0, 9)), action((10, 19), modification_time=2000), action((20, 29))], {0: 10}),
        # Files of several dates may have offsets in between each other.
        ([action((0, 9)), action((5, 15), modification_time=2000), action((16, 20))], {}),
        ([action((0, 9)), action((5, 15)), action((16, 20), modification_time=2000)], {0: 16}),
    ],
)
def test_files_are_removed_from_the_beginning_until_a_younger_one(
    actions: list[dict[str, Any]], kept: dict[int, int]
) -> None:
    table: Any = FakeTable(actions)
    assert expire(table, 1000).kept == kept


def test_files_without_statistics_keep_everything() -> None:
    for wrong in ({"min.offset": None}, {"max.partition": 1}, {"num_records": None}):
        table: Any = FakeTable([action((0, 9)), action((10, 19), **wrong)])
        assert expire(table, 1000) == Expired(unknown=1)
        assert table.removed == []


def test_a_replay_says_where_the_table_begins(
    table: Table, our_node: str, named: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = [shortened(table).path, "--to", named("again"), "-b", our_node, "--dry-run"]
    with Client(our_node, timeout_s=LIMIT_S) as client:
        client.create_topic(named("again"), partitions=2)
    assert replay.run(words) == 0
    said = "which has partition 0 from offset 50, partition 1 from offset 50 on"
    assert said in capsys.readouterr().err


def test_a_continuous_archive_removes_old_records_and_goes_on(
    spark: SparkSession,
    our_node: str,
    named: Callable[[str], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A dead letter among the removed records stays; a dry run says what would be removed."""
    topic, lake = named("t"), tmp_path / "lake"
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "object", "properties": {"id": {"type": "integer"}}}')
    words: tuple[str, ...] = (topic, "--decode", "json", "--schema", str(schema))
    process_batch = TopicArchive._process_batch

    def process_and_end(self: TopicArchive, *arguments: Any) -> None:
        process_batch(self, *arguments)
        raise KraftlogError("the end of this test")

    with Client(our_node, timeout_s=LIMIT_S) as client:
        client.create_topic(topic, partitions=1)
        for number in range(10):
            value = b"not json" if number == 4 else b'{"id": 1}'
            client.produce(topic, value, partition=0, timestamp_ms=wall_ms() - 40 * DAY_MS)
        assert archive(our_node, lake, *words) == 0
        client.produce(topic, b'{"id": 2}', partition=0)
        words += ("--retention", "30d")
        assert archive(our_node, lake, *words, "--dry-run") == 0
        assert "9 rows in 1 file would be removed, older than 30d" in capsys.readouterr().out

        monkeypatch.setattr(TopicArchive, "_process_batch", process_and_end)
        assert archive(our_node, lake, *words, "--continuous") == 1
        assert record_positions(lake, topic) == [(0, 10)]
        steps = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        [step] = [each for each in steps if "removed_rows" in each]
        assert (step["removed_rows"], step["kept"]) == (9, {"0": 10})

        monkeypatch.setattr(TopicArchive, "_process_batch", process_batch)
        client.produce(topic, b'{"id": 3}', partition=0)
        assert archive(our_node, lake, *words) == 0
    state = state_of(DeltaTable(str(lake / topic)))
    assert state is not None
    assert (state.kept, state.removed, state.rows, state.bad) == ({0: 10}, 9, 11, 1)
    assert [each["offset"] for each in dead_letters(lake)] == [4]
    assert verify.run([str(lake), "-b", our_node]) == 0


@pytest.mark.parametrize("text", ["30", "0d", "-1d", "1y"])
def test_an_invalid_retention_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    assert archive("127.0.0.1:1", tmp_path, "t", f"--retention={text}") == 2
    assert "expected a time such as 30d, 12h, 90m or 45s" in capsys.readouterr().err
