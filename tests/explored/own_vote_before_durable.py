"""Q13: a candidate counts its own vote before it is durable.

With three voters nobody misses it: it asks the others only once its vote is durable (Q3), and one
vote alone wins nothing.
"""

from __future__ import annotations

from tests.explored import Mutant

MUTANT = Mutant(
    rule="Q13: a candidate counts its own vote before it is durable",
    missed_by="",
    module="kraftlog.raft.roles.candidate",
    original="if core.durable_version >= core.version:",
    replacement="if core.version >= 0:",
    bound={"epochs": 2, "records": 0},
    is_slow=True,
)
