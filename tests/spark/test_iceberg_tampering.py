"""`kraftlog pipeline verify` notices damage of Iceberg tables, and takes maintenance for none."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from kraftlog.spark.lake.archives import ICEBERG
from tests.spark.iceberg_damages import DAMAGES, MAINTENANCE
from tests.spark.iceberg_tampering import TOPIC, IcebergTable
from tests.spark.tampering import assert_equal, assert_noticed, make_lake

if TYPE_CHECKING:
    from collections.abc import Callable

    Restore = Callable[[], IcebergTable]


@pytest.fixture(scope="session")
def restored(our_node: str, tmp_path_factory: pytest.TempPathFactory) -> Restore:
    """Returns the archive as it should be, always in the same directory."""
    directory = tmp_path_factory.mktemp("iceberg")
    lake, backup = directory / "lake", directory / "backup"
    make_lake(our_node, lake, TOPIC, table_format=ICEBERG)
    shutil.copytree(lake, backup)
    return lambda: IcebergTable(backup, lake)


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_noticed(
    name: str, restored: Restore, our_node: str, capsys: pytest.CaptureFixture[str]
) -> None:
    damage, said = DAMAGES[name]
    table = restored()
    damage(table)
    assert_noticed(table.lake, said, our_node, capsys)


@pytest.mark.filterwarnings("ignore:Delete operation did not match any records:UserWarning")
@pytest.mark.parametrize("name", MAINTENANCE)
def test_maintenance_is_no_damage(
    name: str, restored: Restore, our_node: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table = restored()
    MAINTENANCE[name](table)
    assert_equal(table.lake, our_node, capsys)
