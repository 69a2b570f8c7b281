"""I13: a log starts at the end of a committed snapshot, and no leader loads a snapshot.

Source: Q38; Kafka's listener contract and its checks of a log's start.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.invariants.invariant import Invariant

if TYPE_CHECKING:
    from kraftlog.raft.core import RaftCore
    from kraftlog_simulator.process import Replica
    from kraftlog_simulator.snapshot import Snapshot


class SnapshotAtStart(Invariant):
    name = "snapshot at start"

    def on_snapshot(self, replica: Replica, core: RaftCore) -> None:
        log, stored = core.log, replica.disk.snapshot
        if log.snapshot is None or log.start != log.snapshot.offset:
            self.fail(f"replica {replica.id}: the log starts at {log.start}, not {log.snapshot}")
        if log.start > log.high_watermark:
            self.fail(
                f"replica {replica.id}: log start {log.start}, high watermark {log.high_watermark}"
            )
        if stored is None or stored.id.offset < log.start:
            self.fail(f"replica {replica.id} needs {log.snapshot}, the disk has {stored}")
        self._check_committed(replica, stored)

    def on_load(self, replica: Replica, snapshot: Snapshot) -> None:
        core = replica.core
        assert core is not None
        if core.role.name == "leader":
            self.fail(f"replica {replica.id} loads {snapshot.id} and leads")
        self._check_committed(replica, snapshot)

    def _check_committed(self, replica: Replica, snapshot: Snapshot) -> None:
        """The snapshot's state must be that of everything committed before its end."""
        batches, chains = self.oracle.log_of(snapshot.state)
        end = batches[-1].last_offset + 1, batches[-1].epoch
        if end != (snapshot.id.offset, snapshot.id.epoch):
            self.fail(f"replica {replica.id}: {snapshot.id} has the records up to {end}")
        position = len(chains) - 1
        committed = self.oracle.committed
        if position >= len(committed) or committed[position] != snapshot.state:
            self.fail(f"replica {replica.id}: {snapshot.id} has records that were never committed")

    def on_full_check(self) -> None:
        for replica in self.world.running:
            assert replica.core is not None
            if replica.core.log.snapshot is not None:
                self.on_snapshot(replica, replica.core)
