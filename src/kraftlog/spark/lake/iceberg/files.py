"""Where the directory of an Iceberg table has its metadata; needs no PyIceberg.

This is the layout that Iceberg's specification describes for tables of a file system, and that
readers know which open a table by its path: version N is metadata/vN.metadata.json, and
metadata/version-hint.text has the number of the newest.
"""

from __future__ import annotations

import os
import re

METADATA, HINT = "metadata", "version-hint.text"
_VERSION = re.compile(r"v(\d+)(?:\.gz)?\.metadata\.json")


def metadata_path(directory: str, name: str) -> str:
    return os.path.join(directory, METADATA, name)


def version_names(directory: str) -> dict[int, str]:
    """By version, the name of its file, in order."""
    try:
        names = os.listdir(os.path.join(directory, METADATA))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    return dict(
        sorted((int(found[1]), found[0]) for found in map(_VERSION.fullmatch, names) if found)
    )


def version_of(path: str) -> int:
    """The version whose file this is."""
    found = _VERSION.fullmatch(os.path.basename(path))
    assert found is not None, path
    return int(found[1])


def is_iceberg(directory: str) -> bool:
    """Whether this is the directory of an Iceberg table, even if it is damaged."""
    return bool(version_names(directory)) or os.path.exists(metadata_path(directory, HINT))


def read_hint(directory: str) -> int:
    """The version that readers take for the newest; ValueError if the file has no number."""
    with open(metadata_path(directory, HINT), encoding="ascii") as file:
        return int(file.read())
