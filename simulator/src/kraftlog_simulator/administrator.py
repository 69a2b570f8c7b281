"""A simulated administrator that requests voter changes and retries them."""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.logstate.voters import Endpoint, ReplicaKey, Voter
from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.faults.survivable import is_survivable, lost_voters
from kraftlog_simulator.voter_change import VoterChange

if TYPE_CHECKING:
    from kraftlog_simulator.interfaces import SimulatedWorld
    from kraftlog_simulator.process import Replica

#: Errors after which a change is retried: another replica leads, or the change cannot begin yet.
RETRIABLE = {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT}
RETRY_MS = 100
#: How long the administrator retries a random change.
RANDOM_CHANGE_TIMEOUT_MS = 10_000


class ChangeRequest:
    """A requested change; `error` is None until it is decided, NONE once it is committed."""

    def __init__(self, administrator: Administrator, change: VoterChange) -> None:
        self.administrator = administrator
        self.change = change
        self.attempts = 0
        self.error: int | None = None
        self.gave_up = False

    def __repr__(self) -> str:
        return f"request to {self.change}"

    @property
    def is_over(self) -> bool:
        return self.error is not None or self.gave_up

    @property
    def is_committed(self) -> bool:
        return self.error == ErrorCode.NONE


class ChangeAttempt:
    """One attempt at one replica; the core holds it as the pending response of the request."""

    def __init__(self, request: ChangeRequest, number: int) -> None:
        self.request = request
        self.number = number

    def __repr__(self) -> str:
        return f"attempt {self.number} of the {self.request!r}"

    def decided(self, error: int, end_offset: int) -> None:
        self.request.administrator.decided(self, error, end_offset)


class Administrator:
    """Requests voter changes from the replicas that claim to lead, as a client does."""

    def __init__(self, world: SimulatedWorld) -> None:
        self.world = world
        self.requests: list[ChangeRequest] = []
        self._rng = world.rng("administrator")
        self._is_running = False
        #: The number of address updates; each update uses it as the new port.
        self._updates = 0

    @property
    def is_idle(self) -> bool:
        return all(request.is_over for request in self.requests)

    @property
    def is_reassigning(self) -> bool:
        return any(r.change.kind == "reassign" and not r.is_over for r in self.requests)

    # Random changes --------------------------------------------------------------------------

    def begin(self) -> None:
        self._is_running = self.world.setting.change_gap_ms[1] > 0
        if self._is_running:
            self._schedule_change()

    def stop(self) -> None:
        """Request no new changes; pending ones are still retried."""
        self._is_running = False

    def _schedule_change(self) -> None:
        gap = self._rng.between(*self.world.setting.change_gap_ms)
        self.world.schedule(self.world.time + gap, self._request_random_change)

    def _request_random_change(self) -> None:
        if not self._is_running:
            return
        self._schedule_change()
        leader = self.world.leader()
        # Sometimes it does not wait for the previous change, as if there were two administrators.
        if leader is not None and (self.is_idle or self._rng.below(4) == 0):
            self.request(self._random_change(leader), RANDOM_CHANGE_TIMEOUT_MS)

    def _random_change(self, leader: Replica) -> VoterChange:
        assert leader.core is not None
        world, rng = self.world, self._rng
        voters = leader.core.log.voter_set
        outside = [
            r for r in world.replicas.values() if r.is_controller and not voters.holds(r.key)
        ]
        choice = rng.below(8)
        lost = lost_voters(world, voters)
        if lost and rng.below(2):
            return self.removal(lost[0].key)
        if choice < 2 and outside:
            return self.addition(rng.pick(outside))
        if choice < 4:
            return self.removal(rng.pick(voters.voters).key)
        if choice < 5:
            return self.update(world.replicas[rng.pick(voters.ids)])
        if not world.reassigns:
            return self.removal(rng.pick(voters.voters).key)
        if choice < 6 and voters.targets is not None:
            return VoterChange("reassign", None)  # cancels the reassignment
        ids = list(world.replicas)
        return VoterChange("reassign", tuple(rng.some(ids, 1 + rng.below(min(len(ids), 5)))))

    # One change ------------------------------------------------------------------------------

    @staticmethod
    def addition(replica: Replica) -> VoterChange:
        return VoterChange("add_voter", Voter(replica.key, replica.endpoints))

    @staticmethod
    def removal(key: ReplicaKey) -> VoterChange:
        return VoterChange("remove_voter", key)

    def update(self, replica: Replica) -> VoterChange:
        """An update of the voter's address, and of its directory id if that was unknown."""
        self._updates += 1
        host = replica.endpoints[0].host if replica.endpoints else f"host{replica.id}"
        endpoint = Endpoint("CONTROLLER", host, self._updates)
        return VoterChange("update_voter", Voter(replica.key, (endpoint,)))

    def request(self, change: VoterChange, timeout_ms: int = 60_000) -> ChangeRequest:
        """Request a change, and retry until `timeout_ms`; the outcome may stay unknown."""
        request = ChangeRequest(self, change)
        self.requests.append(request)
        self.world.note(None, "requests to", str(change))
        self.world.schedule(self.world.time + timeout_ms, self._give_up, request)
        self._attempt(request, 0)
        return request

    def _attempt(self, request: ChangeRequest, last_attempt: int) -> None:
        """Try the change (again), unless it is over or was attempted since `last_attempt`."""
        world = self.world
        if request.is_over or request.attempts != last_attempt:
            return
        request.attempts += 1
        attempt = ChangeAttempt(request, request.attempts)
        world.schedule(
            world.time + world.setting.request_timeout_ms, self._attempt, request, attempt.number
        )
        if world.leaders:
            self._send(world.replicas[self._rng.pick(list(world.leaders))], attempt)
        else:
            self._retry_soon(attempt)

    def _retry_soon(self, attempt: ChangeAttempt) -> None:
        wait = RETRY_MS + self._rng.below(RETRY_MS)
        self.world.schedule(self.world.time + wait, self._attempt, attempt.request, attempt.number)

    def _send(self, replica: Replica, attempt: ChangeAttempt) -> None:
        request, core = attempt.request, replica.core
        if replica.paused:
            replica.waiting.append((self._send, (replica, attempt)))
        elif core is None or request.is_over:
            pass  # if the replica is down, the attempt scheduled by `_attempt` retries
        elif not is_survivable(self.world, core.log.voter_set, request.change):
            self._retry_soon(attempt)
        else:
            self.attempt_at(replica, attempt)

    def attempt_at(self, replica: Replica, attempt: ChangeAttempt) -> int:
        """Make one attempt at one replica, survivable or not; return an error code."""
        request = attempt.request
        error = replica.change(request.change.kind, attempt, request.change.what)
        if not error:
            return error
        self.world.note(replica, "refuses", error)
        if error in RETRIABLE:
            self._retry_soon(attempt)
        else:
            self._finish(request, error)
        return error

    def decided(self, attempt: ChangeAttempt, error: int, end_offset: int) -> None:
        """An accepted attempt is committed, or its outcome is unknown."""
        request = attempt.request
        if error:
            self.world.saw("voter change of unknown outcome")
            self._retry_soon(attempt)
            return
        self.world.change_committed(request.change, end_offset)
        if not request.is_over:
            self._finish(request, error)

    def _finish(self, request: ChangeRequest, error: int) -> None:
        request.error = error
        self.world.progress += 1
        self.world.note(None, "gets a response", (str(request.change), error))

    def _give_up(self, request: ChangeRequest) -> None:
        if not request.is_over:
            request.gave_up = True
            self.world.progress += 1
