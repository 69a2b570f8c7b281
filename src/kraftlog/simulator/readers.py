"""Clients with linearizable reads at any replica (P6), checked by I16 like reads at the leader."""

from __future__ import annotations

from kraftlog.raft.messages import LeaderChanged, NoResponse, Request, Response, Send
from kraftlog.raft.reads import Applied, ReadDone, Reads
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.raft.core import RaftCore
    from kraftlog.simulator.process import Replica
    from kraftlog.simulator.snapshot import Snapshot
    from kraftlog.simulator.world import World

GAP_MS = (5, 40)
#: How long the state machine may lag behind the high watermark.
APPLYING_MS = (0, 30)


class ReplicaReads:
    """The reads of one incarnation of a replica."""

    def __init__(self, replica: Replica, core: RaftCore) -> None:
        self.replica = replica
        self.incarnation = replica.incarnation
        self.reads = Reads(core)

    @property
    def lives(self) -> bool:
        return self.incarnation == self.replica.incarnation and self.replica.core is not None


class PendingReadOffset:
    """The slot of a request at the leader: setting `answer` sends the response."""

    def __init__(self, readers: Readers, asker: ReplicaReads, number: int, leader: int) -> None:
        self._way_back = readers, asker, number, leader

    def __repr__(self) -> str:
        return f"question {self._way_back[2]} of {self._way_back[1].replica.id}"

    @property
    def answer(self) -> Any:
        raise AttributeError("the response is sent when it is set")

    @answer.setter
    def answer(self, body: Any) -> None:
        readers, asker, number, leader = self._way_back
        readers.carry(leader, asker.replica.id, readers.answered, asker, leader, number, body)


class Readers:
    """Takes part in a run from before its replicas start, until the workload's reads stop."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._rng = world.rng("readers")
        self.beside: dict[int, ReplicaReads] = {}
        world.listen("on_start", self._started)
        world.listen("on_role", self._role_changed)
        world.listen("on_apply", self._committed)
        world.listen("on_load", self._loaded)
        world.at(world.time, self._read)

    # Clients ---------------------------------------------------------------------------------

    def _read(self) -> None:
        world = self.world
        world.at(world.time + self._rng.between(*GAP_MS), self._read)
        if world.workload.reads and self.beside:
            self.read_at(self._rng.pick(list(self.beside.values())))

    def read_at(self, beside: ReplicaReads) -> None:
        self._when_awake(beside, self._begin, beside, self.world.workload.begin_read())

    def _begin(self, beside: ReplicaReads, number: int) -> None:
        beside.reads.read(number, beside.replica.read_clock())
        self._settle(beside)

    # Host ------------------------------------------------------------------------------------

    def _started(self, replica: Replica) -> None:
        assert replica.core is not None
        self.beside[replica.id] = ReplicaReads(replica, replica.core)

        self._committed(replica, replica.applied)  # the content of a snapshot

    def _loaded(self, replica: Replica, snapshot: Snapshot) -> None:
        self._committed(replica, snapshot.id.offset)

    def _role_changed(self, replica: Replica, core: RaftCore) -> None:
        beside = self.beside[replica.id]
        election = core.election
        self._notify(beside, LeaderChanged(election.leader_id, election.epoch))

    def _committed(self, replica: Replica, offset: int) -> None:
        """The state machine applies with its own delay."""
        when = self.world.time + self._rng.between(*APPLYING_MS)
        self.world.at(when, self._applied, self.beside[replica.id], offset)

    def _applied(self, beside: ReplicaReads, offset: int) -> None:
        if offset > beside.reads.applied:
            self._when_awake(beside, self._notify, beside, Applied(offset))

    def _notify(self, beside: ReplicaReads, message: Any) -> None:
        beside.reads.handle(message, beside.replica.read_clock())
        self._settle(beside)

    def _settle(self, beside: ReplicaReads) -> None:
        for effect in beside.reads.take_effects():
            if isinstance(effect, Send):
                self._send(beside, effect)
            elif isinstance(effect, ReadDone):
                self.world.saw("read at any replica" if not effect.error else "read given up")
                self.world.workload.read_done(effect.slot, effect.error, effect.offset)
        deadline = beside.reads.deadline()
        if deadline is not None:
            wait = max(deadline - beside.replica.read_clock().monotonic_ms, 1)
            self.world.at(self.world.time + wait, self._wake, beside, deadline)

    def _wake(self, beside: ReplicaReads, deadline: int) -> None:
        if deadline == beside.reads.deadline():
            self._when_awake(beside, self._poll, beside)

    def _poll(self, beside: ReplicaReads) -> None:
        beside.reads.poll(beside.replica.read_clock())
        self._settle(beside)

    def _when_awake(self, beside: ReplicaReads, act: Callable[..., None], *arguments: Any) -> None:
        """Call now, or when a paused process resumes, or never."""
        if not beside.lives:
            return
        if beside.replica.paused:
            beside.replica.waiting.append((self._when_awake, (beside, act, *arguments)))
        else:
            act(*arguments)

    # Requests to the leader ------------------------------------------------------------------

    def _send(self, beside: ReplicaReads, send: Send) -> None:
        asker, leader = beside.replica.id, send.peer
        slot = PendingReadOffset(self, beside, send.number, leader)
        self.carry(asker, leader, self._arrive, leader, slot, send.body)
        given_up = self.world.time + self.world.setting.request_timeout_ms
        gone = NoResponse(leader, send.number)
        self.world.at(given_up, self._when_awake, beside, self._notify, beside, gone)

    def carry(self, source: int, target: int, act: Callable[..., None], *arguments: Any) -> None:
        """Carry a message with the faults of the replicas' network; to itself at once."""
        world, network = self.world, self.world.network
        if source == target:
            world.at(world.time, act, *arguments)
            return
        if (source, target) in network.cuts or self._rng.permille(network.loss):
            return
        when = world.time + self._rng.between(*world.setting.network_ms)
        if self._rng.permille(network.delayed):
            when += self._rng.long_tail(network.delay_ms)
        world.at(when, act, *arguments)
        if self._rng.permille(network.duplicates):
            world.at(when + self._rng.long_tail(network.delay_ms or 20), act, *arguments)

    def _arrive(self, leader: int, slot: PendingReadOffset, body: Any) -> None:
        target = self.world.replicas[leader]
        if target.paused:
            target.waiting.append((self._arrive, (leader, slot, body)))
        elif target.core is not None:
            target.handle(Request(slot, body))

    def answered(self, beside: ReplicaReads, leader: int, number: int, body: Any) -> None:
        self._when_awake(beside, self._notify, beside, Response(leader, number, body))
