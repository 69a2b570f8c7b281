"""Opening several log directories: empty, failed, copied, of another node (V18)."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from kraftlog.config.read_config import read_config
from kraftlog.errors import StorageError
from kraftlog.node.controller.active_controller import first_levels
from kraftlog.server.directories import OpenDirectories, open_directories
from kraftlog.server.files import OsFiles
from kraftlog.storage.disk import HandleCache
from kraftlog.storage.format import DirectoryFormat, format_directory
from kraftlog.storage.meta_properties import load

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FILES = OsFiles()
CLUSTER = "AAAAAAAAQACAAAAAAAAAAQ"
SETTINGS = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:9093
kraftlog.reserve.bytes=0
"""


def format_as(path: Path, node_id: int = 1, cluster: str | None = CLUSTER, tag: int = 1) -> None:
    formatting = DirectoryFormat(
        cluster_id=cluster,
        node_id=node_id,
        features=first_levels(),
        metadata_directory="elsewhere",
        voters=None,
        listener="CONTROLLER",
    )
    format_directory(FILES, str(path), bytes([tag]) * 16, formatting, 0)


class Opener:
    """Opens directories below a folder; `lines` are what the operator reads."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.lines: list[str] = []
        self.opened: list[OpenDirectories] = []

    def __call__(self, *names: str, metadata: str | None = None) -> OpenDirectories:
        text = f"{SETTINGS}log.dirs={','.join([str(self.top / name) for name in names])}\n"
        if metadata is not None:
            text += f"metadata.log.dir={self.top / metadata}\n"
        config = read_config(text, {})[0]
        found = open_directories(FILES, config, HandleCache(FILES, 8), self.lines.append)
        self.opened.append(found)
        return found

    def close(self, found: OpenDirectories, epoch: int) -> None:
        for directory in {found.metadata, *found.directories}:
            directory.close(epoch)


@pytest.fixture
def opened(tmp_path: Path) -> Opener:
    format_as(tmp_path / "a")
    return Opener(tmp_path)


def names_of(found: OpenDirectories) -> list[str]:
    return [it.path.rpartition("/")[2] for it in found.directories]


def test_empty_directories_are_formatted_beside_the_first(opened: Opener) -> None:
    (opened.top / "c" / "lost+found").mkdir(parents=True)
    found = opened("a", "b", "c")
    assert names_of(found) == ["a", "b", "c"]
    assert found.metadata is found.directories[0]
    properties = [load(FILES, it.path) for it in found.directories]
    assert [(it.cluster_id, it.node_id) for it in properties] == [(CLUSTER, 1)] * 3
    assert [it.directory_id for it in properties] == [it.id for it in found.directories]
    assert len({it.id for it in found.directories}) == 3
    assert opened.lines == []


def test_the_metadata_log_may_have_a_directory_of_its_own(opened: Opener) -> None:
    found = opened("b", "c", metadata="a")
    assert names_of(found) == ["b", "c"]
    assert found.metadata.path.endswith("/a")


def test_a_directory_named_twice_is_opened_once(opened: Opener) -> None:
    assert names_of(opened("a", "b", "a/", "b/.")) == ["a", "b"]


def test_v18_a_directory_that_cannot_be_read_is_left_out(opened: Opener) -> None:
    (opened.top / "b").write_text("a file where a disk was mounted")
    found = opened("a", "b", "c")
    assert names_of(found) == ["a", "c"]
    assert found.lost == (str(opened.top / "b"),)
    (line,) = opened.lines
    assert "cannot be opened, so its replicas are offline" in line


def test_at_least_one_directory_has_to_work(opened: Opener) -> None:
    (opened.top / "b").write_text("no directory")
    with pytest.raises(StorageError, match="none of them can be opened"):
        opened("b", metadata="a")


def copy_of_the_first(top: Path) -> None:
    shutil.copytree(top / "a", top / "b")


def of_another_node(top: Path) -> None:
    format_as(top / "b", node_id=2, tag=2)


def of_another_cluster(top: Path) -> None:
    format_as(top / "b", cluster="BBBBBBBBQACAAAAAAAAAAQ", tag=2)


def unformatted_with_data(top: Path) -> None:
    (top / "b" / "demo-0").mkdir(parents=True)


@pytest.mark.parametrize(
    ("prepare", "why"),
    [
        (copy_of_the_first, "one is a copy of the other"),
        (of_another_node, "says node.id=2, but this node is 1"),
        (of_another_cluster, "belongs to cluster BBBB"),
        (unformatted_with_data, "has no meta.properties, but demo-0"),
    ],
)
def test_a_directory_that_is_not_ours_is_refused(
    opened: Opener, prepare: Callable[[Path], None], why: str
) -> None:
    """The locks of the other directories are released."""
    prepare(opened.top)
    with pytest.raises(StorageError, match=why):
        opened("a", "b")
    shutil.rmtree(opened.top / "b")
    assert names_of(opened("a", "b")) == ["a", "b"]


def test_a_missing_cluster_id_is_copied_from_the_first_directory(tmp_path: Path) -> None:
    """As after a kill between the writes to the first and the second directory."""
    format_as(tmp_path / "a")
    format_as(tmp_path / "b", cluster=None, tag=2)
    found = Opener(tmp_path)("a", "b")
    assert load(FILES, found.directories[1].path).cluster_id == CLUSTER


@pytest.mark.parametrize(
    ("epochs", "expected"), [((7, 7, 7), 7), ((7, -1, 7), -1), ((7, 7, None), -1)]
)
def test_a_shutdown_is_clean_if_every_directory_has_its_epoch(
    opened: Opener, epochs: tuple[int | None, ...], expected: int
) -> None:
    """-1 means unclean; a directory with epoch None was not closed."""
    found = opened("a", "b", "c")
    for directory, epoch in zip(found.directories, epochs, strict=True):
        if epoch is None:
            directory.release()
        else:
            directory.close(epoch)
    assert opened("a", "b", "c").broker_epoch == expected


def test_v18_a_shutdown_is_unclean_without_one_of_the_directories(
    opened: Opener,
) -> None:
    opened.close(opened("a", "b"), 7)
    shutil.rmtree(opened.top / "b")
    (opened.top / "b").write_text("a file where a disk was mounted")
    assert opened("a", "b").broker_epoch == -1
