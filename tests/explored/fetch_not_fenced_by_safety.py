"""Q18: a fetch of another epoch is taken for one of this, and nothing but safety is asked for.

Nobody misses it. A fetcher that is still in an older epoch has no record of this one, so it holds
nothing that is not before the first record of the epoch, and only from there on does a leader
commit (Q21). What it holds is compared before it counts (Q19). It will not go back either: an
older epoch is no promise to anybody else. So the fence is a rule for the leader's other beliefs:
who knows that it leads (Q15), who is still there (Q11).
"""

from __future__ import annotations

from tests.explored import Mutant

MUTANT = Mutant(
    rule="Q18: a fetch of another epoch is taken for one of this, and only safety is asked for",
    missed_by="",
    module="kraftlog.raft.roles.leader",
    original="        if 0 <= epoch < core.election.epoch:",
    replacement="        if False:",
    bound={"epochs": 2, "records": 0},
    without="_check_followers",
    is_slow=True,
)
