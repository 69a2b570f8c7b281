"""The network between replicas: carries requests and responses, and applies its faults."""

from __future__ import annotations

from heapq import heappush

from kraftlog.raft.messages import FetchResult, Request, Response, VoteResult
from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.faults.corruption import corrupted, damaged
from kraftlog_simulator.replica import CoreReplica
from kraftlog_simulator.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from kraftlog.raft.messages import Send
    from kraftlog_simulator.interfaces import SimulatedWorld
    from kraftlog_simulator.process import Replica

#: More requests than a process ever sends, so that request numbers grow across incarnations.
REQUESTS_PER_INCARNATION = 1 << 32
#: How long after the request timeout a late response is sent: minimum and maximum.
LATE_BY_MS = (0, 1000)
#: Where a response goes: the sender of the request, its incarnation, and the request's number.
PendingResponse = tuple[CoreReplica, int, int]


class Network:
    """Rates are per thousand messages. While `calm`, each message arrives after a short delay."""

    def __init__(self, world: SimulatedWorld) -> None:
        self.world = world
        self._bits = world.rng("network").bits
        self.rng = world.rng("network faults")
        self._low, high = world.setting.network_ms
        self._span = high - self._low + 1
        #: Directions (from, to) that lose every message.
        self.cuts: set[tuple[int, int]] = set()
        #: Directions that hold all messages back until a time.
        self.clogged: dict[tuple[int, int], int] = {}
        #: The rates of lost, duplicated and delayed messages, and the usual delay of the last.
        self.loss = 0
        self.duplicates = 0
        self.delayed = 0
        self.delay_ms = 0
        self.corrupt_permille = 0
        #: The rate of responses that arrive after their requests timed out.
        self.late_responses = 0
        self.late_by_ms = LATE_BY_MS
        self.calm = True
        self.wire = Wire() if world.setting.in_bytes else None

    # Sending ---------------------------------------------------------------------------------

    def request(self, source: CoreReplica, send: Send) -> None:
        number, peer = send.number, send.peer
        channel = source.channel_for(peer, number, is_new=send.needs_new_connection)
        target = self.world.replicas[peer]
        pending = (source, source.incarnation, number)
        body = send.body
        self.world.sent(source, target, body)
        if self.wire is not None:
            body = self.wire.request((source.id, source.incarnation, number), body)
        self._carry(source.id, peer, self._arrive, (target, pending, channel, body))

    def respond(self, source: Replica, pending: PendingResponse, body: Any) -> None:
        requester = pending[0]
        self.world.sent(source, requester, body)
        kind = type(body)
        if kind is VoteResult:
            self._note_vote(source, pending, body)
        elif kind is FetchResult and body.diverging is not None:
            self.world.saw("log diverges")
        if self.wire is not None or self.corrupt_permille:
            body = self._as_received(pending, body)
        delivery = source.id, requester.id, self._deliver_response, (pending, source.id, body)
        if self.late_responses and self.rng.permille(self.late_responses):
            self.world.saw("response after the request timeout")
            late = self.world.setting.request_timeout_ms + self.rng.between(*self.late_by_ms)
            self.world.schedule(self.world.time + late, self._carry, *delivery)
        else:
            self._carry(*delivery)

    def _as_received(self, pending: PendingResponse, body: Any) -> Any:
        """A response as it arrives: through bytes if the setting says so, and possibly corrupt."""
        damage = None
        if type(body) is FetchResult and body.batches and self.rng.permille(self.corrupt_permille):
            self.world.saw("corrupt response")
            if self.wire is not None and self.rng.below(2):
                damage = lambda data: damaged(data, self.rng)  # noqa: E731 - used once, below
            else:
                body = corrupted(body, self.rng)
        if self.wire is None:
            return body
        return self.wire.response((pending[0].id, *pending[1:]), body, damage)

    def _note_vote(self, source: Replica, pending: PendingResponse, result: VoteResult) -> None:
        candidate, voter = pending[0].core, source.core
        if candidate is None or voter is None:
            return
        if not result.granted:
            is_real = candidate.role.name == "candidate"
            self.world.saw("vote refused" if is_real else "pre-vote refused")
        if not voter.log.voter_set.holds(candidate.me):
            for_leader = not result.granted and voter.role.has_live_leader(voter)
            outcome = "refused for a live leader" if for_leader else "considered"
            self.world.saw(f"vote request of a non-voter {outcome}")

    def _carry(
        self, source: int, target: int, act: Callable[..., None], arguments: tuple[Any, ...]
    ) -> None:
        world = self.world
        when = world.time + self._low + (self._bits(32) * self._span >> 32)
        if not self.calm:
            direction = (source, target)
            if direction in self.cuts:
                return
            if self.rng.permille(self.loss):
                world.saw("message lost")
                return
            if self.rng.permille(self.delayed):
                when += self.rng.long_tail(self.delay_ms)
            when = max(when, self.clogged.get(direction, 0))
            if self.rng.permille(self.duplicates):
                world.saw("message duplicated")
                again = when + self.rng.long_tail(self.delay_ms or 20)
                world.schedule(again, act, *arguments)
        world.sequence += 1
        heappush(world.events, (when, world.sequence, act, arguments))

    # Arriving --------------------------------------------------------------------------------

    def _arrive(
        self, target: Replica, pending: PendingResponse, channel: tuple[int, int, int], body: Any
    ) -> None:
        source, incarnation, number = pending
        if (source.id, target.id) in self.cuts:
            return
        if target.core is None:
            if target.machine_up:
                self._refuse(target, source, incarnation)
            return
        if target.paused:
            target.waiting.append((self._arrive, (target, pending, channel, body)))
            return
        target.handle(
            Request(pending, body, channel, incarnation * REQUESTS_PER_INCARNATION + number)
        )
        self.world.received(target, source, body)

    def _deliver_response(self, pending: PendingResponse, peer: int, body: Any) -> None:
        source, incarnation, number = pending
        if incarnation != source.incarnation or (peer, source.id) in self.cuts:
            return
        if source.paused:
            source.waiting.append((self._deliver_response, (pending, peer, body)))
            return
        in_flight = source.in_flight.get(peer)
        if in_flight is not None and in_flight[0] == number:
            del source.in_flight[peer]
        if source.core is not None:
            source.handle(Response(peer, number, body))

    # Connections that end --------------------------------------------------------------------

    def _refuse(self, target: Replica, source: Replica, incarnation: int) -> None:
        if (target.id, source.id) not in self.cuts:
            self.world.schedule(
                self.world.time + 1, self._connection_ended, source, incarnation, target
            )

    def _connection_ended(self, source: Replica, incarnation: int, target: Replica) -> None:
        refused = target.core is None
        source.disconnected(incarnation, target.id, refused=refused)

    def process_ended(self, dead: Replica) -> None:
        """The machine of a dead process resets its connections."""
        for other in self.world.replicas.values():
            if other is dead or other.core is None:
                continue
            if {(dead.id, other.id), (other.id, dead.id)} & self.cuts:
                continue
            self.world.schedule(
                self.world.time + 1 + self.rng.below(5),
                self._connection_ended,
                other,
                other.incarnation,
                dead,
            )

    def reset(self, source: Replica, target: Replica) -> None:
        """A connection breaks with all messages in flight."""
        assert isinstance(source, CoreReplica)
        if source.core is not None and target.id in source.in_flight:
            self.world.saw("connection reset")
            source.disconnected(source.incarnation, target.id, refused=False)

    def refuse_falsely(self, source: Replica, target: Replica) -> None:
        """A connection ends and a new one is refused, though the peer's process runs."""
        if source.core is not None and source is not target:
            if target.core is not None:
                self.world.saw("a running process seemed gone")
            source.disconnected(source.incarnation, target.id, refused=True)

    # Faults ----------------------------------------------------------------------------------

    def cut(self, sources: Iterable[int], targets: Iterable[int]) -> None:
        """Lose all messages in one direction."""
        self.calm = False
        targets = list(targets)
        self.cuts.update((a, b) for a in sources for b in targets if a != b)

    def isolate(self, replica_id: int) -> None:
        ids = list(self.world.replicas)
        self.cut([replica_id], ids)
        self.cut(ids, [replica_id])

    def split(self, side: Iterable[int]) -> None:
        """Cut the replicas of one side off from all others."""
        inside = list(side)
        outside = [replica_id for replica_id in self.world.replicas if replica_id not in inside]
        self.cut(inside, outside)
        self.cut(outside, inside)

    def heal(self) -> None:
        self.cuts.clear()
        self.clogged.clear()
        self.loss = self.duplicates = self.delayed = self.delay_ms = self.corrupt_permille = 0
        self.late_responses, self.late_by_ms = 0, LATE_BY_MS
        self.calm = True
