"""Breaks Q13: a candidate wins with one vote fewer than a majority."""

from __future__ import annotations

from tests.explored import Mutant

MUTANT = Mutant(
    breaks="Q13: a candidate wins with one vote fewer than a majority",
    detected_by="one leader an epoch",
    module="kraftlog.raft.roles.voter_poll",
    original="if len(self.granted) >= voters.majority:",
    replacement="if len(self.granted) >= voters.majority - 1:",
    bound={"epochs": 1, "records": 0, "crashes": (0, 0, 0)},
)
