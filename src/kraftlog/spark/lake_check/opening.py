"""Finds the tables of a directory and opens them, whatever format they have."""

from __future__ import annotations

import os
from types import MappingProxyType
from typing import TYPE_CHECKING

from kraftlog.errors import ConfigError
from kraftlog.spark.lake.archives import DELTA, check_pyiceberg, format_of
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
    if format_of(directory) is not None:
        return [os.path.abspath(directory)]
    directories = [
        os.path.abspath(entry.path)
        for entry in os.scandir(directory)
        if entry.is_dir() and format_of(entry.path) is not None
    ]
    if not directories:
        raise ConfigError(
            f"{directory} is no table and has none: expected _delta_log in it, or metadata with "
            "version-hint.text, as in Iceberg tables that belong to no catalog"
        )
    return sorted(directories)


def open_table(
    directory: str, topic: str, committed: Mapping[int, int] = MappingProxyType({})
) -> LakeTable:
    """Read a table's log; raise DamagedTableError if it cannot be read.

    `committed` has the offsets up to which the archive says that partitions are archived.
    """
    if format_of(directory) == DELTA:
        return open_delta_table(directory, topic, committed)
    check_pyiceberg()
    from kraftlog.spark.lake_check.iceberg_table import open_iceberg_table

    return open_iceberg_table(directory, topic, committed)
