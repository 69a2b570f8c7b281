"""`kraftlog pipeline verify` notices every kind of damage, and takes maintenance for none.

A checker is judged by tampering: rows too many count as much as rows that are missing.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from kraftlog.spark.lake import layout
from kraftlog.spark.pipelines.verify import run
from tests.spark.damages import DAMAGES, MAINTENANCE
from tests.spark.tampering import (
    TOPIC,
    Table,
    assert_equal,
    assert_noticed,
    changed,
    flip,
    make_lake,
    without,
)

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any


@pytest.fixture(scope="session")
def original(our_node: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive as it should be."""
    lake = tmp_path_factory.mktemp("original") / "lake"
    make_lake(our_node, lake)
    return lake


def test_there_are_many_kinds_of_damage() -> None:
    assert len(DAMAGES) >= 60


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_noticed(
    name: str,
    original: Path,
    our_node: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    damage, said = DAMAGES[name]
    table = Table(original, tmp_path / "lake")
    damage(table)
    assert_noticed(table.lake, said, our_node, capsys)


@pytest.mark.parametrize("name", MAINTENANCE)
def test_maintenance_is_no_damage(
    name: str,
    original: Path,
    our_node: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    table = Table(original, tmp_path / "lake")
    MAINTENANCE[name](table)
    assert_equal(table.lake, our_node, capsys)


def test_flipped_bits_are_noticed(
    original: Path, our_node: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Wherever in a file a bit is flipped, unless the file still has the same rows."""
    path = Table(original, tmp_path / "unharmed").files[0]
    rows = as_readers_see(path)
    harmless = []
    positions = range(0, os.path.getsize(path), os.path.getsize(path) // 30)
    for position in positions:
        table = Table(original, tmp_path / str(position))
        flip(table.files[0], position)
        code = run([table.lake, "-b", our_node])
        assert capsys.readouterr().err == ""
        assert code in {0, 3}, position
        if code == 0:
            harmless.append(position)
            assert as_readers_see(table.files[0]).equals(rows)
    assert len(harmless) < len(positions) / 2


def as_readers_see(path: str) -> pa.Table:
    """The rows with the columns that Delta's schema names; those that the file lacks are null."""
    rows = pq.read_table(path, partitioning=None)
    columns = [
        rows[each.name] if each.name in rows.column_names else pa.nulls(len(rows), each.type)
        for each in layout.RAW
    ]
    return pa.table(columns, schema=layout.RAW)


#: What is wrong with a dead letter, its changed values, how many there are, and the output.
LETTERS: dict[str, tuple[dict[str, Any], int, str]] = {
    "nothing": ({}, 1, "equal: 199 records compared"),
    "no headers": ({"headers": []}, 1, "equal: 199 records compared"),
    "value": ({"value": b"X"}, 1, "1 record different at offset 7 (among the dead letters)"),
    "time": ({"timestampType": 1}, 1, "1 record different at offset 7 (among the dead letters)"),
    "offset of a row": ({"offset": 8}, 1, "1 record duplicate at offset 8 (also among the dead"),
    "offset": ({"offset": 5000}, 1, "1 record not in the log at offset 5000 (among the dead"),
    "partition": ({"partition": 9}, 1, "9: 1 record not in the log at offset 7 (among the dead"),
    "no offset": ({"offset": None}, 1, "1 record not in the log at offset -1 (among the dead"),
    "negative offset": ({"offset": -3}, 1, "1 record not in the log at offset -3"),
    "twice": ({}, 2, "1 record duplicate at offset 7 (among the dead letters)"),
    "none": ({}, 0, "0: 1 record missing at offset 7"),
}


@pytest.mark.parametrize("name", LETTERS)
def test_dead_letters_are_compared(
    name: str,
    original: Path,
    our_node: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    values, count, said = LETTERS[name]
    table = Table(original, tmp_path / "lake")
    letter = changed(0, **values)(table.rows().slice(7, 1))
    letter = letter.append_column("topic", pa.array([TOPIC])).append_column(
        "reason", pa.array([""])
    )
    write_deltalake(
        os.path.join(table.lake, "_dead_letters"),
        pa.concat_tables([letter] * count or [letter.slice(1)]),
    )
    table.rewrite(without(7), described="all")
    table.edit(2, "commitInfo", lambda info: info["kraftlog"].update(rows=199, bad=1))

    code = run([table.lake, "-b", our_node])

    output = capsys.readouterr()
    assert said in output.out, output
    assert code == (0 if said.startswith("equal") else 3)
    assert output.err == ""
