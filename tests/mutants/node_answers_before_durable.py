"""A node responds before the state that it reports is durable (Q3, Q6)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.node.quorum.driver",
    source=(
        "    def _reply(self, effect: raft.Reply, _: Now) -> None:\n"
        "        if not self.core.is_durable(effect.after):"
    ),
    replacement=(
        "    def _reply(self, effect: raft.Reply, _: Now) -> None:\n        if not effect:"
    ),
    scenario="initial-leader",
    seed=2,
    nodes=True,
)
