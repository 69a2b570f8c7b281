"""Formatting a directory: what is left after a kill or a power loss at any moment."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from kraftlog.config.endpoints import QuorumVoter
from kraftlog.storage.format import (
    FIRST_SNAPSHOT,
    METADATA_FOLDER,
    DirectoryFormat,
    format_directory,
    is_formatted,
)
from kraftlog_simulator.files import Fault, MemoryFiles, PowerLost

if TYPE_CHECKING:
    from collections.abc import Callable

PATH = "srv/kafka/data"
DIRECTORY_ID = bytes(15) + b"\x01"
FORMATTING = DirectoryFormat(
    cluster_id="cluster",
    node_id=0,
    features={"metadata.version": 30},
    metadata_directory=PATH,
    voters=[QuorumVoter(0, "node0", 9093, directory_id=DIRECTORY_ID)],
    listener="CONTROLLER",
)


def format_at(files: MemoryFiles, path: str = PATH) -> None:
    format_directory(files, path, DIRECTORY_ID, FORMATTING.replace(metadata_directory=path), 0)


def power_loss(files: MemoryFiles) -> None:
    files.power_loss()


@pytest.mark.parametrize("end", [MemoryFiles.kill, power_loss], ids=["killed", "power loss"])
def test_s4_a_format_after_one_that_ended_early_is_durable(
    end: Callable[[MemoryFiles], None],
) -> None:
    """A kill between the creation of a folder and its sync leaves a name that is not durable.

    If the next format trusted it, a power loss could take the whole directory, with the votes and
    the records that it has by then.
    """
    finished = False
    stop_before = 0
    while not finished:
        files = MemoryFiles()
        files.stop_before = stop_before
        try:
            format_at(files)
            finished = True
        except PowerLost:
            pass
        end(files)
        format_at(files)
        files.power_loss()
        where = f"after an end before operation {stop_before}"
        assert files.exists(PATH), where
        assert is_formatted(files, PATH), where
        assert files.exists(f"{PATH}/{METADATA_FOLDER}/{FIRST_SNAPSHOT}"), where
        stop_before += 1
    assert stop_before > 20


def test_a_directory_below_one_that_cannot_be_read_is_formatted() -> None:
    """It has existed before, so its name is not this process's to sync; a new one's is."""
    files = MemoryFiles()
    format_at(files, "srv/other")
    files.faults.append(Fault("sync_folder", code=errno.EACCES))
    format_at(files, "srv/data")
    assert is_formatted(files, "srv/data")
    files = MemoryFiles()
    files.faults.append(Fault("sync_folder", code=errno.EACCES))
    with pytest.raises(PermissionError):
        format_at(files, "srv/data")
