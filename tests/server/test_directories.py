"""Opening several log directories: empty, failed, copied, or of another node (V18)."""

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
    """Format a directory; its directory id consists of the byte `tag`."""
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
    """Opens directories below a folder; `lines` has the lines that are logged."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.lines: list[str] = []
        self.opened: list[OpenDirectories] = []

    def open(self, *names: str, metadata: str | None = None) -> OpenDirectories:
        """Open log directories; the metadata log may have one of its own."""
        text = f"{SETTINGS}log.dirs={','.join([str(self.top / name) for name in names])}\n"
        if metadata is not None:
            text += f"metadata.log.dir={self.top / metadata}\n"
        config = read_config(text, {})[0]
        opened = open_directories(FILES, config, HandleCache(FILES, 8), self.lines.append)
        self.opened.append(opened)
        return opened

    def close(self, opened: OpenDirectories, epoch: int) -> None:
        """Close directories as a clean shutdown of the broker with this epoch does."""
        for directory in {opened.metadata, *opened.directories}:
            directory.close(epoch)


@pytest.fixture
def opener(tmp_path: Path) -> Opener:
    format_as(tmp_path / "a")
    return Opener(tmp_path)


def names_of(opened: OpenDirectories) -> list[str]:
    return [it.path.rpartition("/")[2] for it in opened.directories]


def test_empty_directories_are_formatted_beside_the_first(opener: Opener) -> None:
    (opener.top / "c" / "lost+found").mkdir(parents=True)
    opened = opener.open("a", "b", "c")
    assert names_of(opened) == ["a", "b", "c"]
    assert opened.metadata is opened.directories[0]
    properties = [load(FILES, it.path) for it in opened.directories]
    assert [(it.cluster_id, it.node_id) for it in properties] == [(CLUSTER, 1)] * 3
    assert [it.directory_id for it in properties] == [it.id for it in opened.directories]
    assert len({it.id for it in opened.directories}) == 3
    assert opener.lines == []


def test_the_metadata_log_may_have_a_directory_of_its_own(opener: Opener) -> None:
    opened = opener.open("b", "c", metadata="a")
    assert names_of(opened) == ["b", "c"]
    assert opened.metadata.path.endswith("/a")


def test_a_directory_named_twice_is_opened_once(opener: Opener) -> None:
    assert names_of(opener.open("a", "b", "a/", "b/.")) == ["a", "b"]


def test_v18_a_directory_that_cannot_be_read_is_left_out(opener: Opener) -> None:
    (opener.top / "b").write_text("a file where a disk was mounted")
    opened = opener.open("a", "b", "c")
    assert names_of(opened) == ["a", "c"]
    assert opened.lost == (str(opener.top / "b"),)
    (line,) = opener.lines
    assert "cannot be opened, so its replicas are offline" in line


def test_at_least_one_directory_has_to_work(opener: Opener) -> None:
    (opener.top / "b").write_text("no directory")
    with pytest.raises(StorageError, match="none of them can be opened"):
        opener.open("b", metadata="a")


def copy_of_the_first(top: Path) -> None:
    shutil.copytree(top / "a", top / "b")


def of_another_node(top: Path) -> None:
    format_as(top / "b", node_id=2, tag=2)


def of_another_cluster(top: Path) -> None:
    format_as(top / "b", cluster="BBBBBBBBQACAAAAAAAAAAQ", tag=2)


def unformatted_with_data(top: Path) -> None:
    (top / "b" / "demo-0").mkdir(parents=True)


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (copy_of_the_first, "one is a copy of the other"),
        (of_another_node, "says node.id=2, but this node is 1"),
        (of_another_cluster, "belongs to cluster BBBB"),
        (unformatted_with_data, "has no meta.properties, but demo-0"),
    ],
)
def test_a_directory_that_is_not_ours_is_refused(
    opener: Opener, prepare: Callable[[Path], None], message: str
) -> None:
    """The locks of the other directories are released."""
    prepare(opener.top)
    with pytest.raises(StorageError, match=message):
        opener.open("a", "b")
    shutil.rmtree(opener.top / "b")
    assert names_of(opener.open("a", "b")) == ["a", "b"]


def test_a_missing_cluster_id_is_copied_from_the_first_directory(tmp_path: Path) -> None:
    """A kill between the writes to the first and the second directory leaves it missing."""
    format_as(tmp_path / "a")
    format_as(tmp_path / "b", cluster=None, tag=2)
    opened = Opener(tmp_path).open("a", "b")
    assert load(FILES, opened.directories[1].path).cluster_id == CLUSTER


@pytest.mark.parametrize(
    ("epochs", "expected"), [((7, 7, 7), 7), ((7, -1, 7), -1), ((7, 7, None), -1)]
)
def test_a_shutdown_is_clean_if_every_directory_has_its_epoch(
    opener: Opener, epochs: tuple[int | None, ...], expected: int
) -> None:
    """-1 means unclean; a directory with epoch None was not closed."""
    opened = opener.open("a", "b", "c")
    for directory, epoch in zip(opened.directories, epochs, strict=True):
        if epoch is None:
            directory.release()
        else:
            directory.close(epoch)
    assert opener.open("a", "b", "c").broker_epoch == expected


def test_v18_a_shutdown_is_unclean_without_one_of_the_directories(
    opener: Opener,
) -> None:
    opener.close(opener.open("a", "b"), 7)
    shutil.rmtree(opener.top / "b")
    (opener.top / "b").write_text("a file where a disk was mounted")
    assert opener.open("a", "b").broker_epoch == -1
