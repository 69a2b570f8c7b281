"""A leader that lacks a follower's last epoch compares offsets alone (KIP-279)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.node.fetch.reader",
    source="if epoch == part.last_fetched_epoch and part.fetch_offset <= end:",
    replacement="if part.fetch_offset <= end:",
    scenario="cluster",
    seed=25,
    test=(
        "tests/replication/test_truncation.py"
        "::test_v6_kip_279_logs_converge_after_fast_leader_changes"
    ),
)
