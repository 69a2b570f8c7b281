"""The endpoint that a member reports of itself is not remembered (R9)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.node.quorum.discovery",
    source="if may_report and request.broker_id in self._member_ids:",
    replacement="if not may_report:",
    scenario="moved-voters",
    seed=1,
    nodes=True,
)
