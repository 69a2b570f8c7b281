"""I14: the state machine applies every committed record once and in order.

A snapshot stands for all records before it. Source: Q26; Kafka's listener contract.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.checkers.oracle import NO_CHAIN
from kraftlog_simulator.invariants.invariant import Invariant

if TYPE_CHECKING:
    from kraftlog_simulator.process import Replica
    from kraftlog_simulator.snapshot import Snapshot


class AppliedOnce(Invariant):
    name = "applied once"

    def on_apply(self, replica: Replica, offset: int) -> None:
        assert replica.core is not None
        high_watermark = replica.core.log.high_watermark
        if not (replica.applied < offset <= high_watermark):
            self.fail(
                f"replica {replica.id} applied up to {replica.applied}, then {offset}; "
                f"high watermark {high_watermark}"
            )
        disk, committed = replica.disk, self.oracle.committed
        position = disk.position_before(offset)
        before = disk.position_before(replica.applied)
        if replica.state != (disk.chains[before] if before >= 0 else NO_CHAIN):
            self.fail(f"replica {replica.id} applies records to a state that is not its log's")
        compared = min(position, len(committed) - 1)
        if not (position >= 0 and disk.batches[position].last_offset + 1 == offset):
            self.fail(f"replica {replica.id} applied part of a batch up to {offset}")
        if not (compared < 0 or disk.chains[compared] == committed[compared]):
            self.fail(
                f"replica {replica.id} applied records that were never committed, below {offset}"
            )

    def on_load(self, replica: Replica, snapshot: Snapshot) -> None:
        if snapshot.id.offset <= replica.applied:
            self.fail(f"replica {replica.id} went back from {replica.applied} to {snapshot.id}")
