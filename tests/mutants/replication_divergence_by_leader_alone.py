"""A follower truncates by the leader's epochs alone (KIP-279)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.replica_fetchers",
    source=("        if own_end >= 0:\n            end = min(end, own_end)\n"),
    replacement=("        if own_end >= 1 << 62:\n            end = min(end, own_end)\n"),
    scenario="cluster",
    seed=25,
    test=(
        "tests/replication/test_truncation.py"
        "::test_v6_kip_279_logs_converge_after_fast_leader_changes"
    ),
)
