"""I16: clients see one log: what was acknowledged is there once and in order, reads go far enough.

Source: Q25, P5, P8; the workload that Jepsen holds against Kafka's like. What clients are told is
judged as they are told; this is the rest, in the end.
"""

from __future__ import annotations

from kraftlog.simulator.invariants.invariant import Invariant


class ClientHistory(Invariant):
    name = "client history"

    def on_end(self) -> None:
        violations = self.world.workload.judge()
        if violations:
            self.fails(violations[0])
