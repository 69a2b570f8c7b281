"""An election state without a vote, as after a newer epoch, is not adopted or persisted (Q3)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.core",
    source="""\
        if new != old:
""",
    replacement="""\
        if new.voted is not None:
""",
    scenario="mixture",
    seed=1,
)
