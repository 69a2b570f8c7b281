"""I16: clients see one log: acknowledged appends are there once and in order, reads are current.

Source: Q25, P5, P8; Jepsen's workloads for Kafka. Most rules are checked when a client gets a
response; the others here, at the end.
"""

from __future__ import annotations

from kraftlog_simulator.invariants.invariant import Invariant


class ClientHistory(Invariant):
    name = "client history"

    def on_end(self) -> None:
        violations = self.world.workload.judge()
        if violations:
            self.fail(violations[0])
