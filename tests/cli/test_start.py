"""What `kraftlog start` makes of its words: the settings of a node, before it starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kraftlog.cli.start import options_of, read_settings
from kraftlog.server.start import _directory

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("words", "node_id", "directory"),
    [
        ([], 1, "data"),
        (["--node-id", "3", "--data", "d"], 3, "d"),
        (["--override", "node.id=4", "--override", "log.dir=e"], 4, "e"),
        (["--override", "log.dirs=f"], 1, "f"),
        (["--node-id", "3", "--data", "d", "--override", "log.dir=e"], 3, "d"),
    ],
)
def test_a_node_of_its_own(words: list[str], node_id: int, directory: str) -> None:
    """What is said by an override counts as well as what is said by an option."""
    settings, warnings = read_settings(options_of(words))
    assert (settings.node_id, settings.data_directories) == (node_id, [directory])
    assert [voter.id for voter in settings.voters] == [node_id]
    assert warnings == []


def test_tools_are_told_where_a_directory_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings, _ = read_settings(options_of([]))
    assert _directory(settings) == f"{tmp_path}/data"


def test_where_a_file_listens_is_not_said_by_an_option() -> None:
    with pytest.raises(ValueError, match="use --override listeners="):
        read_settings(options_of(["some.properties", "--port", "9092"]))
