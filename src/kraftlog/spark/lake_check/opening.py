"""Finds the tables of a directory and opens them, whatever format they have."""

from __future__ import annotations

import os
from types import MappingProxyType
from typing import TYPE_CHECKING

from kraftlog.errors import ConfigError
from kraftlog.spark.lake_check.delta_log import DELTA_LOG
from kraftlog.spark.lake_check.delta_table import open_delta_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kraftlog.spark.lake_check.tables import LakeTable


def table_directories(directory: str) -> list[str]:
    """The table in this directory, or the tables directly below it."""
    if "://" in directory:
        raise ConfigError(f"{directory}: expected a directory of this machine")
    if not os.path.isdir(directory):
        raise ConfigError(f"{directory} is not a directory")
    if os.path.isdir(os.path.join(directory, DELTA_LOG)):
        return [os.path.abspath(directory)]
    directories = [
        os.path.abspath(entry.path)
        for entry in os.scandir(directory)
        if entry.is_dir() and os.path.isdir(os.path.join(entry.path, DELTA_LOG))
    ]
    if not directories:
        raise ConfigError(f"{directory} is not a Delta table and has none: no {DELTA_LOG} in it")
    return sorted(directories)


def open_table(
    directory: str, topic: str, committed: Mapping[int, int] = MappingProxyType({})
) -> LakeTable:
    """Read a table's log; raise DamagedTableError if it cannot be read.

    `committed` has the offsets up to which the archive says that partitions are archived.
    """
    return open_delta_table(directory, topic, committed)
