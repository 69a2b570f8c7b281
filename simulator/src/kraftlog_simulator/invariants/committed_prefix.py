"""I6: what is committed is the same everywhere and never changes.

Source: Q25; Kafka's ConsistentCommittedData, the KRaft, etcd and KIP-966 specifications in TLA+.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.invariants.invariant import Invariant

if TYPE_CHECKING:
    from kraftlog.raft.core import RaftCore
    from kraftlog_simulator.process import Replica


class CommittedPrefix(Invariant):
    name = "committed prefix"

    def on_commit(self, replica: Replica, core: RaftCore, high_watermark: int) -> None:  # noqa: ARG002 - one interface for all invariants
        disk, committed = replica.disk, self.oracle.committed
        position = disk.position_before(high_watermark)
        if position < 0:
            return
        last = disk.batches[position]
        if last.last_offset + 1 != high_watermark:
            self.fail(f"replica {replica.id}: high watermark {high_watermark} is inside {last}")
        common = min(position, len(committed) - 1)
        if common >= 0 and disk.chains[common] != committed[common]:
            self.fail(
                f"replica {replica.id} and others committed different logs below "
                f"{disk.batches[common].last_offset + 1}"
            )
        first_new = len(committed)
        if position >= first_new:
            committed.extend(disk.chains[first_new : position + 1])
            self.oracle.committed_batches.extend(disk.batches[first_new : position + 1])

    def on_full_check(self) -> None:
        committed = self.oracle.committed
        for replica in self.world.running:
            assert replica.core is not None
            count = replica.disk.position_before(replica.core.log.high_watermark) + 1
            if replica.disk.chains[:count] != committed[:count]:
                self.fail(f"replica {replica.id} holds records other than the committed ones")
