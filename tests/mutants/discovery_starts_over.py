"""After a restart the boot timestamp is the clock's time, even if the clock was set back (R9)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.node.quorum.discovery",
    source="self._boot_ms = max(now.wall_ms, last_boot_ms + 1)",
    replacement="self._boot_ms = now.wall_ms",
    scenario="moved-voters",
    seed=1,
    nodes=True,
)
