"""CordonedDirectories: which directories `cordoned.log.dirs` names."""

from __future__ import annotations

import pytest

from kraftlog.config.layers import ConfigLayers
from kraftlog.node.broker.cordoned_directories import CordonedDirectories


class Disk:
    """A log directory; its id is the last letter of its path."""

    is_offline = False

    def __init__(self, path: str) -> None:
        self.path = path
        self.id = path[-1].encode()

    def space(self) -> tuple[int, int]:
        return -1, -1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        ("*", (b"a", b"b", b"c")),
        ("/top/b", (b"b",)),
        ("/top/b/,/top/a", (b"a", b"b")),
        ("b", (b"b",)),
        ("./in/c", (b"c",)),
        ("/b", ()),
    ],
)
def test_directories_are_named_by_absolute_or_relative_paths(
    text: str, expected: tuple[bytes, ...]
) -> None:
    disks = [Disk("/top/a"), Disk("/top/b"), Disk("/top/in/c")]
    layers = [ConfigLayers({"cordoned.log.dirs": text})]
    cordoned = CordonedDirectories(lambda: layers[0], lambda: disks)
    assert cordoned.ids() == expected
    layers[0] = ConfigLayers({"cordoned.log.dirs": "*"}, broker={"cordoned.log.dirs": ""})
    assert cordoned.ids() == (), "a dynamic value takes precedence over the file"
