"""An append is acknowledged once the leader has flushed it (Q25)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.roles.leader",
    source="""\
    def on_flushed(self, core: Core) -> None:
""",
    replacement="""\
    def on_flushed(self, core: Core) -> None:
        while self.proposals and self.proposals[0][0] <= core.log.flushed:
            offset, pending = self.proposals.popleft()
            core.effect(Proposed(pending, ErrorCode.NONE, offset))
""",
    scenario="mixture",
    seed=1,
)
