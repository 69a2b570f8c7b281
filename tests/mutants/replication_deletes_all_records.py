"""DeleteRecords to any offset but 0 deletes up to the high watermark."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.node.handlers.delete_records",
    source="if part.offset == HIGH_WATERMARK else part.offset\n",
    replacement="if part.offset else part.offset\n",
    scenario="cluster",
    seed=3,
)
