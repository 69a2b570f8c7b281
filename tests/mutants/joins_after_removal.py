"""R12: a controller with auto-join joins the voters again after an operator has removed it."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.node.quorum.voter_updater",
    source="""\
        if self._join_endpoints and voters.kraft_version and not self._was_removed():
""",
    replacement="""\
        if self._join_endpoints and voters.kraft_version:
""",
    test="tests/node/quorum/test_voter_updater.py::test_r12_a_removed_voter_does_not_join_by_itself",
)
