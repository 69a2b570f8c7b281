"""A fetch of an older epoch counts as contact with its voter (Q11, Q18)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.roles.leader",
    source="""\
        error = self.fetch_error(core, fetch)
        if error:
""",
    replacement="""\
        error = self.fetch_error(core, fetch)
        if error == ErrorCode.FENCED_LEADER_EPOCH:
            self.progress._note_alive(fetch.replica, core.now)
        if error:
""",
    scenario="late-fetches",
    seed=1,
)
