"""A produce whose write failed is acknowledged once later writes reach its offset."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.partition",
    source="while self.acks and self.acks[-1][0] > self.end:",
    replacement="while self.acks and self.acks[-1][0] > 1 << 62:",
    scenario="cluster",
    seed=187,
    test=(
        "tests/replication/test_replica_manager.py"
        "::test_a_full_disk_undoes_an_append_and_those_after_it"
    ),
)
