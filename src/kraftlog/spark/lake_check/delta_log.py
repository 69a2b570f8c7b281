"""Reads the commits of a Delta table itself: what kraftlog's archive recorded in them, and damage.

Readers of Delta begin at the newest checkpoint, so they do not notice damage before it, and of a
damaged log they say little. Here every commit that is still there is read and followed.
"""

from __future__ import annotations

import json
import os
import re
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from pyarrow.parquet import ParquetFile

from kraftlog.spark.lake.state import KEY
from kraftlog.spark.lake_check.lake_files import UnreadableFileError, readable
from kraftlog.spark.lake_check.state_chain import State, StateChain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: The directory by which a Delta table is recognized.
DELTA_LOG = "_delta_log"
_LAST_CHECKPOINT = "_last_checkpoint"
_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\b.*\.parquet")


class DeltaLog(NamedTuple):
    """What the commits say that are still there; `damage` has a sentence for each damage."""

    damage: tuple[str, ...]
    #: Of the newest commit of kraftlog's archive; empty if there is none.
    state: State
    #: The offsets of each partition that the archive's commits added: first, and exclusive end.
    archived: dict[int, tuple[int, int]]
    #: The files of the newest version with their sizes; None if older commits were cleaned up.
    files: dict[str, int] | None
    #: Whether the commits from the first one on are there.
    is_complete: bool


def read_delta_log(directory: str) -> DeltaLog:
    """Read a table's commits; whatever is damaged becomes a sentence."""
    path = os.path.join(directory, DELTA_LOG)
    names = sorted(os.listdir(path))
    versions = [int(found[1]) for found in map(_COMMIT.fullmatch, names) if found]
    checkpoints = [name for name in names if _CHECKPOINT.fullmatch(name)]
    reader = _Reader()
    if not versions and not checkpoints:
        reader.damage.append("there is no commit")
    reader.damage += _gaps(versions)
    for version in versions:
        reader.read_commit(os.path.join(path, f"{version:020}.json"), version)
    reader.damage += _damaged_checkpoints(path, checkpoints)
    if _LAST_CHECKPOINT in names:
        reader.damage += _damaged_pointer(os.path.join(path, _LAST_CHECKPOINT), checkpoints)
    is_whole = bool(versions) and versions[0] == 0 and not reader.damage
    return DeltaLog(
        tuple(reader.damage),
        reader.chain.newest,
        reader.chain.archived(),
        reader.files if is_whole else None,
        bool(versions) and versions[0] == 0,
    )


class _Reader:
    """Follows the commits of a table, one after the other."""

    def __init__(self) -> None:
        self.damage: list[str] = []
        self.chain = StateChain(self.damage)
        self.files: dict[str, int] = {}

    def read_commit(self, path: str, version: int) -> None:
        try:
            with open(path, encoding="utf-8") as file:
                actions = [json.loads(line) for line in file if line.strip()]
        except FileNotFoundError:  # cleaned up meanwhile
            return
        except (OSError, ValueError, RecursionError) as error:
            self.damage.append(f"commit {version} cannot be read: {error}")
            return
        try:
            self._follow(actions, version)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            self.damage.append(f"commit {version} is not one: {type(error).__name__}: {error}")

    def _follow(self, actions: Sequence[State], version: int) -> None:
        added = [each["add"] for each in actions if "add" in each]
        removed = {unquote(each["remove"]["path"]) for each in actions if "remove" in each}
        if not actions:
            self.damage.append(f"commit {version} is empty")
        for path in removed:
            self.files.pop(path, None)
        for each in added:
            path = unquote(each["path"])
            # Statistics may be computed again for a file that the table has: not a change of data.
            if path in self.files and each["dataChange"]:
                self.damage.append(f"commit {version} adds {path}, which the table has already")
            self.files[path] = each["size"]
        for each in actions:
            state = each.get("commitInfo", {}).get(KEY)
            if isinstance(state, dict):
                self.chain.follow(state, f"commit {version}")


def _gaps(versions: Sequence[int]) -> Iterator[str]:
    for before, after in pairwise(versions):
        if after - before == 2:
            yield f"commit {before + 1} is missing"
        elif after - before > 2:
            yield f"commits {before + 1} to {after - 1} are missing"


def _damaged_checkpoints(path: str, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        try:
            with readable(), ParquetFile(os.path.join(path, name)) as file:
                for _ in file.iter_batches():
                    pass
        except UnreadableFileError as error:
            yield f"checkpoint {name} {error}"


def _damaged_pointer(path: str, checkpoints: Sequence[str]) -> Iterator[str]:
    try:
        with open(path, encoding="utf-8") as file:
            version = json.load(file)["version"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        yield f"{_LAST_CHECKPOINT} cannot be read: {error}"
        return
    if not any(name.startswith(f"{version:020}.") for name in checkpoints):
        yield f"{_LAST_CHECKPOINT} names checkpoint {version}, which does not exist"
