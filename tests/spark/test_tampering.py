"""`kraftlog pipeline verify` notices every kind of damage, and takes maintenance for none.

A checker is judged by tampering: rows too many count as much as rows that are missing.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from kraftlog.spark.pipelines.verify import run
from tests.spark.damages import DAMAGES, MAINTENANCE
from tests.spark.tampering import COUNT, PARTITIONS, Table, flip, make_lake

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
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

    code = run([table.lake, "-b", our_node])

    output = capsys.readouterr()
    print(output.out, output.err)
    assert code == 3, output
    assert said in output.out
    assert "not equal: " in output.out
    assert "Traceback" not in output.out + output.err
    assert output.err == ""


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

    code = run([table.lake, "-b", our_node])

    output = capsys.readouterr()
    assert code == 0, output
    assert f"equal: {PARTITIONS * COUNT} records compared\n" in output.out


def test_flipped_bits_are_noticed(
    original: Path, our_node: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Wherever in a file a bit is flipped, unless the file still has the same rows."""
    path = Table(original, tmp_path / "unharmed").files[0]
    rows = pq.read_table(path, partitioning=None)
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
            assert pq.read_table(table.files[0], partitioning=None).equals(rows)
    assert len(harmless) < len(positions) / 2
