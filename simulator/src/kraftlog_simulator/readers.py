"""Clients with linearizable reads at any replica (P6), checked by I16 like reads at the leader."""

from __future__ import annotations

from kraftlog.raft.messages import LeaderChanged, NoResponse, Request, Response, Send
from kraftlog.raft.reads import Applied, ReadDone, Reads
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.raft.core import RaftCore
    from kraftlog_simulator.process import Replica
    from kraftlog_simulator.snapshot import Snapshot
    from kraftlog_simulator.world import World

#: The time between reads: minimum and maximum.
GAP_MS = (5, 40)
#: How long the state machine may lag behind the high watermark.
APPLYING_MS = (0, 30)


class ReplicaReader:
    """Reads at one incarnation of a replica."""

    def __init__(self, replica: Replica, core: RaftCore) -> None:
        self.replica = replica
        self.incarnation = replica.incarnation
        self.reads = Reads(core)

    @property
    def is_current(self) -> bool:
        return self.incarnation == self.replica.incarnation and self.replica.core is not None


class PendingReadOffset:
    """A pending response of the leader to ReadOffset: setting `response` sends the response."""

    def __init__(
        self, readers: Readers, requester: ReplicaReader, number: int, leader: int
    ) -> None:
        self._return_path = readers, requester, number, leader

    def __repr__(self) -> str:
        return f"read {self._return_path[2]} of {self._return_path[1].replica.id}"

    @property
    def response(self) -> Any:
        raise AttributeError("only set `response`: that sends the response")

    @response.setter
    def response(self, body: Any) -> None:
        readers, requester, number, leader = self._return_path
        readers.carry(
            leader, requester.replica.id, readers.on_response, requester, leader, number, body
        )


class Readers:
    """All clients that read at any replica; create it before the replicas start."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._rng = world.rng("readers")
        self.by_replica: dict[int, ReplicaReader] = {}
        world.add_listener("on_start", self._started)
        world.add_listener("on_role", self._role_changed)
        world.add_listener("on_apply", self._committed)
        world.add_listener("on_load", self._loaded)
        world.schedule(world.time, self._read)

    # Clients ---------------------------------------------------------------------------------

    def _read(self) -> None:
        world = self.world
        world.schedule(world.time + self._rng.between(*GAP_MS), self._read)
        if world.workload.is_reading and self.by_replica:
            self.read_at(self._rng.pick(list(self.by_replica.values())))

    def read_at(self, reader: ReplicaReader) -> None:
        self._when_awake(reader, self._begin, reader, self.world.workload.begin_read())

    def _begin(self, reader: ReplicaReader, number: int) -> None:
        reader.reads.read(number, reader.replica.read_clock())
        self._settle(reader)

    # Host ------------------------------------------------------------------------------------

    def _started(self, replica: Replica) -> None:
        assert replica.core is not None
        self.by_replica[replica.id] = ReplicaReader(replica, replica.core)
        self._committed(replica, replica.applied)  # the content of a snapshot

    def _loaded(self, replica: Replica, snapshot: Snapshot) -> None:
        self._committed(replica, snapshot.id.offset)

    def _role_changed(self, replica: Replica, core: RaftCore) -> None:
        reader = self.by_replica[replica.id]
        election = core.election
        self._notify(reader, LeaderChanged(election.leader_id, election.epoch))

    def _committed(self, replica: Replica, offset: int) -> None:
        """The state machine applies with its own delay."""
        when = self.world.time + self._rng.between(*APPLYING_MS)
        self.world.schedule(when, self._applied, self.by_replica[replica.id], offset)

    def _applied(self, reader: ReplicaReader, offset: int) -> None:
        if offset > reader.reads.applied:
            self._when_awake(reader, self._notify, reader, Applied(offset))

    def _notify(self, reader: ReplicaReader, message: Any) -> None:
        reader.reads.handle(message, reader.replica.read_clock())
        self._settle(reader)

    def _settle(self, reader: ReplicaReader) -> None:
        for effect in reader.reads.take_effects():
            if isinstance(effect, Send):
                self._send(reader, effect)
            elif isinstance(effect, ReadDone):
                self.world.saw("read at any replica" if not effect.error else "read given up")
                self.world.workload.read_done(effect.pending, effect.error, effect.offset)
        deadline = reader.reads.deadline()
        if deadline is not None:
            wait = max(deadline - reader.replica.read_clock().monotonic_ms, 1)
            self.world.schedule(self.world.time + wait, self._wake, reader, deadline)

    def _wake(self, reader: ReplicaReader, deadline: int) -> None:
        if deadline == reader.reads.deadline():
            self._when_awake(reader, self._poll, reader)

    def _poll(self, reader: ReplicaReader) -> None:
        reader.reads.poll(reader.replica.read_clock())
        self._settle(reader)

    def _when_awake(self, reader: ReplicaReader, act: Callable[..., None], *arguments: Any) -> None:
        """Call `act` now, or when a paused process resumes; never if the process has ended."""
        if not reader.is_current:
            return
        if reader.replica.paused:
            reader.replica.waiting.append((self._when_awake, (reader, act, *arguments)))
        else:
            act(*arguments)

    # Requests to the leader ------------------------------------------------------------------

    def _send(self, reader: ReplicaReader, send: Send) -> None:
        requester, leader = reader.replica.id, send.peer
        pending = PendingReadOffset(self, reader, send.number, leader)
        self.carry(requester, leader, self._arrive, leader, pending, send.body)
        timeout_at = self.world.time + self.world.setting.request_timeout_ms
        no_response = NoResponse(leader, send.number)
        self.world.schedule(timeout_at, self._when_awake, reader, self._notify, reader, no_response)

    def carry(self, source: int, target: int, act: Callable[..., None], *arguments: Any) -> None:
        """Deliver a message with the faults of the replicas' network; within a replica at once."""
        world, network = self.world, self.world.network
        if source == target:
            world.schedule(world.time, act, *arguments)
            return
        if (source, target) in network.cuts or self._rng.permille(network.loss):
            return
        when = world.time + self._rng.between(*world.setting.network_ms)
        if self._rng.permille(network.delayed):
            when += self._rng.long_tail(network.delay_ms)
        world.schedule(when, act, *arguments)
        if self._rng.permille(network.duplicates):
            world.schedule(when + self._rng.long_tail(network.delay_ms or 20), act, *arguments)

    def _arrive(self, leader: int, pending: PendingReadOffset, body: Any) -> None:
        target = self.world.replicas[leader]
        if target.paused:
            target.waiting.append((self._arrive, (leader, pending, body)))
        elif target.core is not None:
            target.handle(Request(pending, body))

    def on_response(self, reader: ReplicaReader, leader: int, number: int, body: Any) -> None:
        self._when_awake(reader, self._notify, reader, Response(leader, number, body))
