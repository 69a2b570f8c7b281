"""A follower truncates in memory, not on disk (Q19)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.fetching",
    source="""\
    if is_shorter:
        core.effect(Truncate(end))""",
    replacement="""\
    if is_shorter:
        pass""",
    scenario="parted-logs",
    seed=1,
)
