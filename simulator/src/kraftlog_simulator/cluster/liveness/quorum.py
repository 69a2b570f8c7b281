"""V24: no request to the metadata quorum waits for what has happened already.

A leader answers a fetch as soon as it has records, or a high watermark that the fetcher does not
know (Q20); commits as soon as a majority has a record on disk (Q21); completes changes of voters
and other proposals once they are committed; and holds back no fetch that proves a read (P5). A
replica runs its reads once it has applied what they need (P6). No request outlives its deadline.
"""

from __future__ import annotations

from kraftlog.raft.roles.leader import Leader
from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.cluster.invariants import ClusterInvariant

if TYPE_CHECKING:
    from kraftlog.raft.core import RaftCore
    from kraftlog_simulator.cluster.node import ClusterNode


class QuorumAnswers(ClusterInvariant):
    """Checked after each turn of any node."""

    name = "no request to the quorum waits for further traffic"

    def on_turn(self, node: ClusterNode) -> None:
        running = node.node
        quorum, now_ms = running.quorum, running.now.monotonic_ms
        if not quorum.is_applying:
            if quorum.committed_proposals and quorum.committed_proposals[0][0] <= quorum.applied:
                self.fail(
                    f"{node}: a proposal waits, although {quorum.applied} offsets are applied"
                )
            if 0 <= running.linearizable_reads.next_offset <= quorum.applied:
                self.fail(f"{node}: a read waits, although {quorum.applied} offsets are applied")
        due_ms = running.delayed_operations.deadline()
        if due_ms is not None and due_ms < now_ms:
            self.fail(f"{node}: a request still waits, although its time was over at {due_ms}")
        role = quorum.core.role
        if isinstance(role, Leader):
            self._check_leader(node, quorum.core, role, now_ms)

    def _check_leader(self, node: ClusterNode, core: RaftCore, role: Leader, now_ms: int) -> None:
        committed = core.log.high_watermark
        for parked in role.parked:
            fetch = parked.fetch
            what = f"{node}: a fetch of replica {fetch.replica.id} waits at {fetch.offset}"
            if fetch.offset < core.log.end:
                self.fail(f"{what}, although the log ends at {core.log.end}")
            if committed > role.epoch_start and fetch.high_watermark < min(committed, fetch.offset):
                self.fail(f"{what}, although it knows {fetch.high_watermark} of {committed}")
            if parked.deadline < now_ms:
                self.fail(f"{what}, although its time was over at {parked.deadline}")
            if role.reads and role.awaits_proof(core, fetch.replica):
                self.fail(f"{what}, although the next one would prove a read")
        if role.proposals and role.proposals[0][0] <= committed:
            self.fail(f"{node}: a proposal waits, although all before {committed} is committed")
        if committed < core.log.end:
            end = role.progress.majority_end(core.log.voters, core.me, core.log.flushed, committed)
            if end > max(committed, role.epoch_start):
                self.fail(f"{node}: {committed} is committed, and a majority has all before {end}")
        if role.reads and committed > role.epoch_start and role.is_proved(core, role.reads[0]):
            self.fail(f"{node}: a read waits, although a majority has proved that this node leads")
