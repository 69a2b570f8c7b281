"""Breaks Q18: a fetch of an older epoch is accepted, and only safety is checked.

No safety invariant detects it; `_check_followers`, which does, is not checked. A fetcher in an
older epoch has no record of the leader's epoch, and the leader commits only from the first record
of its epoch on (Q21). The fetcher's log is compared before it counts (Q19), and its vote is not
affected. So the fence is not needed for safety; it keeps the leader right about which voters know
that it leads (Q15), and which are alive (Q11).
"""

from __future__ import annotations

from tests.explored import Mutant

MUTANT = Mutant(
    breaks="Q18: a fetch of an older epoch is accepted, and only safety is checked",
    detected_by="",
    module="kraftlog.raft.roles.leader",
    original="        if 0 <= epoch < core.election.epoch:",
    replacement="        if False:",
    bound={"epochs": 2, "records": 0},
    unchecked_invariant="_check_followers",
    is_slow=True,
)
