"""A replaced file is renamed into place without a sync of its content (Q3)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.storage.disk",
    source="    write_whole(files, temporary, data)\n",
    replacement="    write_whole(files, temporary, data, sync=False)\n",
    scenario="mixture",
    seed=1,
    nodes=True,
)
