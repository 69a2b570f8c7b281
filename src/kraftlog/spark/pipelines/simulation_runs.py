"""The Delta table of `pipeline simulate --to`: a row for each run of the simulator.

The tasks write Parquet files, whose rows never come to the driver. A single commit adds all files
of a job, so the table has all runs of a job or none.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING
from uuid import uuid4  # noqa: TID251 - a name that no other job uses

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.transaction import AddAction

from kraftlog.client.deadline import wall_ms
from kraftlog.errors import ConfigError
from kraftlog.spark.lake.delta_table import add_missing_columns
from kraftlog.spark.pipelines.directories import check_writable

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The columns that identify a table of runs, whichever version of kraftlog has created it.
_KEYS = {"seed", "scenario", "digest"}


class RunsTable:
    """A new table, or one to which earlier jobs have written their runs."""

    def __init__(self, path: str, schema: pa.Schema) -> None:
        if "://" in path:
            raise ConfigError(f"--to {path}: expected a directory, not a URL")
        check_writable(path)
        self._path, self._schema = os.path.abspath(path), schema
        #: Where the tasks of this job write.
        self.files = f"{self._path}/runs-{uuid4()}"
        if not DeltaTable.is_deltatable(path):
            if os.path.isdir(path) and os.listdir(path):
                raise ConfigError(f"--to {path} is not empty, and no Delta table: give another")
        elif not {each.name for each in DeltaTable(path).schema().fields} >= _KEYS:
            raise ConfigError(f"--to {path} is a Delta table of something else: give another")

    def commit(self) -> None:
        """Add the files that the tasks have written."""
        table = DeltaTable.create(
            self._path, self._schema, mode="ignore", name="runs of kraftlog simulate"
        )
        add_missing_columns(table, self._schema)
        table.create_write_transaction([*self._additions()], "append", table.schema())

    def _additions(self) -> Iterator[AddAction]:
        folder = os.path.basename(self.files)
        for name in sorted(os.listdir(self.files)):
            if not name.endswith(".parquet"):
                continue
            path = os.path.join(self.files, name)
            stats = json.dumps({"numRecords": pq.read_metadata(path).num_rows})
            size = os.path.getsize(path)
            yield AddAction(f"{folder}/{name}", size, {}, wall_ms(), True, stats)
