"""What a table knows of its topic outlives Delta's log, and other writers of the table."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction

from kraftlog.spark.lake import layout
from kraftlog.spark.lake.delta_table import DeltaArchive
from kraftlog.spark.lake.files import STATISTICS, FileWriter
from kraftlog.spark.lake.state import ArchiveState, state_of
from kraftlog.spark.lake.table import LakeError
from kraftlog.spark.schema import OUT_OF_RANGE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kraftlog.spark.lake.files import WrittenFile

#: The columns of tables that older versions have created.
OLD_RAW, OLD_DEAD_LETTER = (
    pa.schema([field for field in schema if field.name != OUT_OF_RANGE])
    for schema in (layout.RAW, layout.DEAD_LETTER)
)


def new_state(start: int = 0, partitions: int = 2) -> ArchiveState:
    offsets = dict.fromkeys(range(partitions), start)
    return ArchiveState("t", "m5r1AAAAAAAAAAAAAAAAAA", "raw", offsets, begun_at="earliest")


def create(lake: Path, start: int = 0) -> DeltaArchive:
    return DeltaArchive.create(str(lake), new_state(start), layout.RAW, by_date=False)


def create_old(lake: Path, state: ArchiveState) -> None:
    """A table as older versions have created it: the state is only in the metadata of commits."""
    DeltaTable.create(
        str(lake / state.topic),
        OLD_RAW,
        name=state.topic,
        configuration=STATISTICS,
        commit_properties=CommitProperties(custom_metadata=state.metadata()),
    )


def commit_old(lake: Path, state: ArchiveState) -> None:
    """A batch as older versions have committed it."""
    table = DeltaTable(str(lake / state.topic))
    table.create_write_transaction(
        [],
        "append",
        table.schema(),
        commit_properties=CommitProperties(
            custom_metadata=state.metadata(),
            app_transactions=[Transaction(state.query, state.batch)],
        ),
    )


def opened(lake: Path) -> DeltaArchive:
    table = DeltaArchive.open(str(lake), "t")
    assert table is not None
    return table


def written(directory: str, schema: pa.Schema, partition: int, start: int, end: int) -> WrittenFile:
    """A file with a record for each offset."""
    given = {"partition": partition, "timestamp": 0, "timestampType": 0, "topic": "t"}
    records = [{**given, "offset": offset} for offset in range(start, end)]
    os.makedirs(directory, exist_ok=True)
    writer = FileWriter(directory, f"{partition}-{start}")
    writer.write(pa.RecordBatch.from_pylist(records, schema=schema))
    [file] = writer.close()
    return file


def batch_after(
    table: DeltaArchive, ends: dict[int, int], *, dead_letters: int = 0
) -> tuple[ArchiveState, list[WrittenFile]]:
    """The state after the next batch, up to these offsets, and its files."""
    old = table.state
    ranges = {index: (old.offsets.get(index, 0), end) for index, end in ends.items()}
    path = layout.dead_letters_path(os.path.dirname(table.path))
    state = ArchiveState(
        topic=old.topic,
        topic_id=old.topic_id,
        decode=old.decode,
        offsets={**old.offsets, **ends},
        start=old.start,
        ranges=ranges,
        query="query",
        batch=old.batch + 1,
        rows=old.rows + 1,
        bad=old.bad + dead_letters,
        dead_letters=tuple(
            written(path, layout.DEAD_LETTER, 0, 0, dead_letters) for _ in range(dead_letters > 0)
        ),
        begun_at=old.begun_at,
    )
    files = [written(table.path, layout.RAW, index, *span) for index, span in ranges.items()]
    return state, files


def commit(table: DeltaArchive, ends: dict[int, int], *, dead_letters: int = 0) -> None:
    table.commit(*batch_after(table, ends, dead_letters=dead_letters))


def forget_log(path: str) -> None:
    """Let Delta delete all of its log that a checkpoint makes unnecessary, as after 30 days."""
    DeltaTable(path).optimize.compact()
    DeltaTable(path).alter.set_table_description("a commit of another program")
    DeltaTable(path).create_checkpoint()
    folder = os.path.join(path, "_delta_log")
    for name in os.listdir(folder):
        os.utime(os.path.join(folder, name), (1, 1))
    DeltaTable(path).cleanup_metadata()
    assert not any("kraftlog" in each for each in DeltaTable(path).history())


def offsets_of(lake: Path) -> list[tuple[int, int]]:
    records = pa.table(DeltaTable(str(lake / "t")).to_pyarrow_table()).to_pylist()
    return sorted((each["partition"], each["offset"]) for each in records)


def dead_letter_count(lake: Path) -> int:
    return len(pa.table(DeltaTable(str(lake / "_dead_letters")).to_pyarrow_table()))


def test_a_table_knows_its_offsets_after_the_cleanup_of_deltas_log(tmp_path: Path) -> None:
    """A new partition has offsets, too; so does one whose records are archived later."""
    table = create(tmp_path, start=3)
    assert opened(tmp_path).is_new
    commit(table, {0: 5})
    commit(table, {0: 7, 3: 4})
    forget_log(table.path)
    state = opened(tmp_path).state
    assert (state.topic, state.topic_id, state.decode) == ("t", table.state.topic_id, "raw")
    assert (state.offsets, state.start) == ({0: 7, 1: 3, 3: 4}, {0: 3, 1: 3})
    assert (state.begun_at, state.rows, state.is_new) == ("earliest", 2, False)
    table = opened(tmp_path)
    assert table.has_batch("query", 1)
    commit(table, {1: 4})
    assert opened(tmp_path).state.offsets == {0: 7, 1: 4, 3: 4}
    assert offsets_of(tmp_path) == [(0, 3), (0, 4), (0, 5), (0, 6), (1, 3)] + [
        (3, offset) for offset in range(4)
    ]


def test_a_new_table_stays_new_after_the_cleanup_of_deltas_log(tmp_path: Path) -> None:
    table = create(tmp_path, start=3)
    forget_log(table.path)
    assert (opened(tmp_path).is_new, opened(tmp_path).state.offsets) == (True, {0: 3, 1: 3})


def test_a_table_of_an_older_version_is_read_and_keeps_its_state(tmp_path: Path) -> None:
    old = new_state(start=2)
    create_old(tmp_path, old)
    assert opened(tmp_path).is_new
    old.offsets, old.ranges, old.query, old.batch, old.rows = {0: 6, 1: 2}, {0: (2, 6)}, "q", 0, 4
    commit_old(tmp_path, old)
    table = opened(tmp_path)
    assert (table.state.offsets, table.state.start) == ({0: 6, 1: 2}, {0: 2, 1: 2})
    assert not table.is_new
    table.prepare()
    version = table.version
    table.prepare()
    assert (table.version, opened(tmp_path).state.offsets) == (version, {0: 6, 1: 2})
    forget_log(table.path)
    table = opened(tmp_path)
    assert (table.state.offsets, table.state.start) == ({0: 6, 1: 2}, {0: 2, 1: 2})
    assert (table.state.rows, table.is_new, table.has_batch("q", 0)) == (4, False, True)


def test_an_older_table_gets_the_column_for_times_out_of_range(tmp_path: Path) -> None:
    create_old(tmp_path, new_state())
    path = layout.dead_letters_path(str(tmp_path))
    DeltaTable.create(path, OLD_DEAD_LETTER, configuration=STATISTICS)
    commit(opened(tmp_path), {0: 2}, dead_letters=1)
    assert OUT_OF_RANGE in opened(tmp_path).schema.names
    assert OUT_OF_RANGE in [each.name for each in DeltaTable(path).schema().fields]
    assert (offsets_of(tmp_path), dead_letter_count(tmp_path)) == ([(0, 0), (0, 1)], 1)


def test_dead_letters_of_a_killed_run_outlive_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create(tmp_path)
    commit(table, {0: 1}, dead_letters=2)
    with monkeypatch.context() as patch:
        patch.setattr(DeltaArchive, "commit_dead_letters", lambda _: None)
        commit(table, {0: 2}, dead_letters=3)
    assert dead_letter_count(tmp_path) == 2
    forget_log(table.path)
    for _ in range(2):
        opened(tmp_path).commit_dead_letters()
        assert dead_letter_count(tmp_path) == 5


def test_dead_letters_without_their_batch_are_not_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create(tmp_path)
    commit(table, {0: 1})
    with monkeypatch.context() as patch:
        patch.setattr(DeltaArchive, "_append", _fail)
        with pytest.raises(KeyboardInterrupt):
            commit(table, {0: 2}, dead_letters=3)
    forget_log(table.path)
    opened(tmp_path).commit_dead_letters()
    assert not (tmp_path / "_dead_letters" / "_delta_log").exists()


def _fail(*_: object) -> None:
    raise KeyboardInterrupt


def test_of_two_archivers_one_commits_an_offset(tmp_path: Path) -> None:
    """Their queries differ, so that the queries' transactions do not conflict."""
    create(tmp_path)
    first, second = opened(tmp_path), opened(tmp_path)
    state, files = batch_after(second, {0: 3})
    state.query = "another query"
    commit(first, {0: 2})
    with pytest.raises(LakeError, match="another process has committed the same offsets"):
        second.commit(state, files)
    assert offsets_of(tmp_path) == [(0, 0), (0, 1)]
    second = opened(tmp_path)
    commit(second, {0: 3})
    assert offsets_of(tmp_path) == [(0, 0), (0, 1), (0, 2)]


def test_of_two_archivers_one_creates_and_one_converts_a_table(tmp_path: Path) -> None:
    create(tmp_path / "new")
    with pytest.raises(LakeError, match="another process has changed"):
        create(tmp_path / "new")
    create_old(tmp_path / "old", new_state())
    first, second = opened(tmp_path / "old"), opened(tmp_path / "old")
    first.prepare()
    with pytest.raises(LakeError, match="start the archive again"):
        second.prepare()


def add_property(path: str) -> None:
    DeltaTable(path).alter.set_table_properties({"delta.appendOnly": "false"})


def merge_files(path: str) -> None:
    DeltaTable(path).optimize.compact()


def add_column(path: str) -> None:
    fields = pa.schema([("another", pa.int64())])
    DeltaTable(path).alter.add_columns(DeltaTable(path).schema().from_arrow(fields).fields)


def vacuum_log(path: str) -> None:
    DeltaTable(path).vacuum(dry_run=False)


@pytest.mark.parametrize("change", [add_property, merge_files, add_column, vacuum_log])
def test_other_programs_may_change_a_table_during_a_batch(
    tmp_path: Path, change: Callable[[str], None]
) -> None:
    table = create(tmp_path)
    commit(table, {0: 1})
    commit(table, {0: 2})
    state, files = batch_after(table, {0: 3})
    change(table.path)
    table.commit(state, files)
    assert (offsets_of(tmp_path), opened(tmp_path).state.offsets[0]) == (
        [(0, 0), (0, 1), (0, 2)],
        3,
    )


def test_topics_add_a_column_to_the_dead_letters_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = layout.dead_letters_path(str(tmp_path))
    DeltaTable.create(path, OLD_DEAD_LETTER, configuration=STATISTICS)
    stale = [DeltaTable(path)]
    table = create(tmp_path)
    state, files = batch_after(table, {0: 1}, dead_letters=1)
    fields = table._table.schema().from_arrow(pa.schema([(OUT_OF_RANGE, pa.int64())])).fields
    DeltaTable(path).alter.add_columns(fields)
    monkeypatch.setattr(
        "kraftlog.spark.lake.delta_table._open_if_exists",
        lambda path: stale.pop() if stale else DeltaTable(path),
    )
    table.commit(state, files)
    assert dead_letter_count(tmp_path) == 1


def test_a_batch_whose_files_were_vacuumed_is_refused(tmp_path: Path) -> None:
    table = create(tmp_path)
    state, files = batch_after(table, {0: 1})
    for file in files:
        (tmp_path / "t" / file.path).unlink()
    with pytest.raises(LakeError, match="was deleted before it was committed"):
        table.commit(state, files)
    assert opened(tmp_path).state.offsets == {0: 0, 1: 0}


def test_the_history_still_shows_what_each_commit_added(tmp_path: Path) -> None:
    table = create(tmp_path)
    commit(table, {0: 1})
    newest = DeltaTable(table.path).history(1)[0]["kraftlog"]
    assert (newest["offsets"], newest["ranges"]) == ({"0": 1, "1": 0}, {"0": [0, 1]})
    fixed = json.loads(DeltaTable(table.path).metadata().configuration["kraftlog.archive"])
    assert fixed["start"] == {"0": 0, "1": 0}


def test_a_table_of_another_program_has_no_state(tmp_path: Path) -> None:
    assert state_of(DeltaTable.create(str(tmp_path), layout.RAW)) is None
