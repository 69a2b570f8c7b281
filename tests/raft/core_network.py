"""A network of a few cores; the test decides what is delivered, flushed and due."""

from __future__ import annotations

from typing import Any

from kraftlog.logstate.voters import ReplicaKey, VoterHistory, VoterSet, voters_by_id
from kraftlog.raft.config import RaftConfig
from kraftlog.raft.core import RaftCore
from kraftlog.raft.log import RaftLog
from kraftlog.raft.messages import (
    Append,
    DropPrefix,
    ElectionPersisted,
    ElectionState,
    FetchResult,
    Flushed,
    InstallSnapshot,
    NoResponse,
    PersistElection,
    Reply,
    Request,
    Response,
    Send,
    SnapshotChunk,
    SnapshotInstalled,
    SnapshotTaken,
    Truncate,
    WriteSnapshot,
)
from kraftlog.types import Now, OffsetAndEpoch

#: Snapshots are sent in chunks of at most this size, so that most need several.
CHUNK_SIZE_BYTES = 7


class Host:
    """One core with its log of batches and a disk; effects that wait for the disk are held back."""

    def __init__(
        self, net: CoreNetwork, replica_id: int, election: ElectionState, log: RaftLog
    ) -> None:
        self.net = net
        self.batches: list[Any] = []
        self.held: list[Any] = []
        self.other_effects: list[Any] = []
        self.persisted = election
        self.snapshot: tuple[VoterSet, bytes] = VoterSet(), b""
        self.download = b""
        self.core = RaftCore(
            ReplicaKey(replica_id, bytes(15) + bytes([replica_id])),
            log,
            election,
            RaftConfig(seed=replica_id),
            net.now,
            "cluster",
        )

    def settle(self) -> None:
        """Carry out effects until there are none; the disk has no latency."""
        while True:
            effects = self.core.take_effects()
            if not effects and not self.held:
                return
            held, self.held = self.held, []
            progress = False
            for effect in held + effects:
                progress |= self.carry_out(effect)
            if not progress:
                return

    def carry_out(self, effect: Any) -> bool:
        """Carry out an effect and return True, or hold it for the disk and return False."""
        core, now = self.core, self.net.now
        if isinstance(effect, (Send, Reply)) and not core.is_durable(effect.after):
            self.held.append(effect)
            return False
        if isinstance(effect, PersistElection):
            self.persisted = effect.state
            core.handle(ElectionPersisted(effect.version), now)
        elif isinstance(effect, Append):
            self.batches.append(effect.batch)
            core.handle(Flushed(effect.batch.last_offset + 1), now)
        elif isinstance(effect, Truncate):
            self.batches = [batch for batch in self.batches if batch.last_offset < effect.offset]
        elif isinstance(effect, Send):
            self.net.note_channel(core.me.id, effect)
            self.net.wire.append((core.me.id, effect.peer, effect))
        elif isinstance(effect, Reply):
            self.net.replies.append((effect.pending, self.with_data(effect.body)))
        elif isinstance(effect, DropPrefix):
            self.batches = [batch for batch in self.batches if batch.last_offset >= effect.offset]
        elif isinstance(effect, WriteSnapshot):
            assert effect.position == len(self.download)
            self.download += effect.data
        elif isinstance(effect, InstallSnapshot):
            self.install(effect.id)
        else:
            self.other_effects.append(effect)
        return True

    def take_snapshot(self) -> None:
        """Take a snapshot of the committed records; its content is one zero byte for each."""
        log = self.core.log
        end = OffsetAndEpoch(log.high_watermark, log.epochs.epoch_at(log.high_watermark - 1))
        self.snapshot = log.voters.committed(end.offset), bytes(end.offset)
        self.core.handle(SnapshotTaken(end), self.net.now)

    def install(self, end: OffsetAndEpoch) -> None:
        """Replace the log by the downloaded snapshot, with the voters of the leader's snapshot."""
        leader = self.net.hosts[self.core.election.leader_id]
        self.snapshot = leader.snapshot[0], self.download
        self.batches, self.download = [], b""
        self.core.handle(SnapshotInstalled(end, self.snapshot[0]), self.net.now)

    def with_data(self, body: Any) -> Any:
        """Fill the batches of the range into a fetch response, as a leader's host does."""
        if isinstance(body, FetchResult) and body.limit >= 0:
            wanted = [
                batch for batch in self.batches if body.offset <= batch.base_offset < body.limit
            ]
            return body.replace(batches=tuple(wanted))
        if isinstance(body, SnapshotChunk) and not body.error:
            whole = self.snapshot[1]
            data = whole[body.position : body.position + min(body.max_bytes, CHUNK_SIZE_BYTES)]
            return body.replace(size=len(whole), length=len(data), data=data)
        return body


class CoreNetwork:
    """Cores with a wire: messages wait until a test delivers or drops them."""

    host_type = Host

    def __init__(self, *ids: int, voters: tuple[int, ...] = ()) -> None:
        self.now = Now(0, 1_000_000)
        self.wire: list[Any] = []
        self.replies: list[Any] = []
        self.cut: set[tuple[int, int]] = set()
        self.connections: dict[tuple[int, int], int] = {}
        self.channels: dict[tuple[int, int], Any] = {}
        self.hosts: dict[int, Host] = {}
        for replica_id in ids:
            log = RaftLog(VoterHistory(voters_by_id(*(voters or ids))))
            self.hosts[replica_id] = self.host_type(self, replica_id, ElectionState(), log)

    def core(self, replica_id: int) -> RaftCore:
        return self.hosts[replica_id].core

    def settle(self) -> None:
        for host in self.hosts.values():
            host.settle()

    def deliver_all(self, limit: int = 1000) -> None:
        """Deliver until no message is left."""
        for _ in range(limit):
            self.settle()
            if self.wire:
                self.deliver(self.wire.pop(0))
            elif self.replies:
                self.deliver_reply(*self.replies.pop(0))
            else:
                return
        raise AssertionError("messages do not end")

    def note_channel(self, source: int, send: Send) -> None:
        """Name the connection of a request; before the previous response it is a new connection."""
        pair = source, send.peer
        self.connections[pair] = self.connections.get(pair, 0) + send.needs_new_connection
        self.channels[source, send.number] = *pair, self.connections[pair]

    def deliver(self, message: Any) -> None:
        source, target, send = message
        if (source, target) in self.cut or target not in self.hosts:
            self.core(source).handle(NoResponse(target, send.number), self.now)
            return
        pending = (source, target, send.number)
        self.core(target).handle(
            Request(pending, send.body, self.channels[source, send.number], send.number), self.now
        )

    def deliver_reply(self, pending: Any, body: Any) -> None:
        source, target, number = pending
        if source not in self.hosts:
            return
        if (target, source) in self.cut:
            self.core(source).handle(NoResponse(target, number), self.now)
        else:
            self.core(source).handle(Response(target, number, body), self.now)

    def pass_time(self, ms: int) -> None:
        """Advance the clock timer by timer, delivering all messages in between."""
        end = self.now.monotonic_ms + ms
        self.deliver_all()
        while True:
            due = [host.core.deadline() for host in self.hosts.values()]
            deadlines = [deadline for deadline in due if deadline is not None]
            if not deadlines or min(deadlines) > end:
                break
            next_ms = min(deadlines)
            self._set_clock(max(next_ms, self.now.monotonic_ms))
            for host in self.hosts.values():
                host.core.poll(self.now)
            self.deliver_all()
        self._set_clock(end)

    def _set_clock(self, monotonic_ms: int) -> None:
        self.now = Now(monotonic_ms, 1_000_000 + monotonic_ms)

    def leader(self) -> RaftCore:
        """The leader of the newest epoch; there must be one."""
        leaders = [host.core for host in self.hosts.values() if host.core.role.name == "leader"]
        return max(leaders, key=lambda core: core.election.epoch)

    def isolate(self, replica_id: int) -> None:
        for other in self.hosts:
            self.cut |= {(replica_id, other), (other, replica_id)}

    def heal(self) -> None:
        self.cut.clear()
