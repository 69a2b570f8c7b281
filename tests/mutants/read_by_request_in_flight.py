"""A voter's ReadOffset request counts as proof for the reads that already wait (P5)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.roles.leader",
    source="        unproved = UnprovedRead(pending, self.events, replica)\n",
    replacement="""\
        unproved = UnprovedRead(pending, self.events, replica)
        self.reads = tuple([one.replace(replica=replica) for one in self.reads])
        self.complete_reads(core)
""",
    test="tests/raft/test_reads.py::test_p5_the_request_of_a_voter_proves_no_other_read",
)
