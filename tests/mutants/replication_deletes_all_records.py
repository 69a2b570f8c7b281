"""DeleteRecords deletes all that is committed, whatever the offset."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.node.handlers.delete_records",
    source="if asked.offset == HIGH_WATERMARK else asked.offset\n",
    replacement="if asked.offset else asked.offset\n",
    scenario="cluster",
    seed=3,
)
