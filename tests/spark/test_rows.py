"""Rows are made from batches without loading pandas."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import sys
from kraftlog.client.range_reader import FetchedBatches
from kraftlog.records.builder import BatchBuilder
from kraftlog.records.header import BatchHeader
from kraftlog.records.walk import walk
from kraftlog.spark.ranges import OffsetRange
from kraftlog.spark.rows import RowMaker

builder = BatchBuilder(base_offset=5)
for number in range(10):
    builder.append(number, None if number % 3 else b"k", b"v", [("h", None)] * (number % 2))
data = builder.build()
batches = [(position, BatchHeader(*fields)) for position, fields in walk(data)]
maker = RowMaker(OffsetRange("t", 3, 7, 12), with_headers=True)
(rows,) = maker.rows(FetchedBatches(data, batches, 5, 15))
rows.validate(full=True)
assert len(rows) == 5
print("pandas" in sys.modules)
"""


def test_pandas_is_not_loaded_to_make_rows() -> None:
    """Every worker would load it, which takes longer than many tasks run."""
    command = [sys.executable, "-c", _PROGRAM]
    program = subprocess.run(command, capture_output=True, text=True, check=True)
    assert program.stdout == "False\n"
