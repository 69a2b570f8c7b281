"""Breaks Q13: a candidate counts its own vote before it is durable.

With three voters no invariant detects it: the candidate requests the other votes only once its own
is durable (Q3), and one vote is no majority.
"""

from __future__ import annotations

from tests.explored import Mutant

MUTANT = Mutant(
    breaks="Q13: a candidate counts its own vote before it is durable",
    detected_by="",
    module="kraftlog.raft.roles.candidate",
    original="if core.durable_election_version >= core.election_version:",
    replacement="if core.election_version >= 0:",
    bound={"epochs": 2, "records": 0},
    is_slow=True,
)
