"""A voter's appends are no longer flushed once a leader has reported its removal (Q6, R7).

Its fetches still wait for a flush, because its log has it as a voter: it never fetches again.
"""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.node.quorum.driver",
    source="flush=self.core.may_be_counted",
    replacement="flush=self.core.may_campaign",
    test="tests/node/test_removed_voters.py::"
    "test_r7_the_log_of_a_removed_voter_is_flushed_for_its_fetches",
)
