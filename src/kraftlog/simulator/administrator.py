"""A simulated administrator that requests voter changes and retries them."""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.logstate.voters import Endpoint, ReplicaKey, Voter
from kraftlog.simulator.faults.survivable import is_sound, lost_voters
from kraftlog.simulator.voter_change import VoterChange
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.simulator.interfaces import SimulatedWorld
    from kraftlog.simulator.process import Replica

#: Errors after which it retries: another replica leads, or the change cannot begin yet.
AGAIN = {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT}
ASKS_AGAIN_AFTER_MS = 100
#: How long it retries one of its own changes.
DEFAULT_TIMEOUT_MS = 10_000


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
    def is_made(self) -> bool:
        return self.error == ErrorCode.NONE


class ChangeAttempt:
    """One attempt at a replica, which the core sees as the slot of the request."""

    def __init__(self, request: ChangeRequest, number: int) -> None:
        self.request = request
        self.number = number

    def __repr__(self) -> str:
        return f"attempt {self.number} of the {self.request!r}"

    def decided(self, error: int, end_offset: int) -> None:
        self.request.administrator.decided(self, error, end_offset)


class Administrator:
    """Requests voter changes from any running process, as a client does."""

    def __init__(self, world: SimulatedWorld) -> None:
        self.world = world
        self.requests: list[ChangeRequest] = []
        self._rng = world.rng("administrator")
        self._works = False
        self._updates = 0

    @property
    def is_idle(self) -> bool:
        return all(request.is_over for request in self.requests)

    @property
    def wants_to_move(self) -> bool:
        return any(r.change.kind == "reassign" and not r.is_over for r in self.requests)

    # Random changes --------------------------------------------------------------------------

    def begin(self) -> None:
        self._works = self.world.setting.change_gap_ms[1] > 0
        if self._works:
            self._pause()

    def stop(self) -> None:
        """Make no new changes; pending ones are still retried."""
        self._works = False

    def _pause(self) -> None:
        gap = self._rng.between(*self.world.setting.change_gap_ms)
        self.world.at(self.world.time + gap, self._work)

    def _work(self) -> None:
        if not self._works:
            return
        self._pause()
        leader = self.world.leader()
        # Sometimes it does not wait for the previous change, as if there were two administrators.
        if leader is not None and (self.is_idle or self._rng.below(4) == 0):
            self.ask(self._some_change(leader), DEFAULT_TIMEOUT_MS)

    def _some_change(self, leader: Replica) -> VoterChange:
        assert leader.core is not None
        world, rng = self.world, self._rng
        voters = leader.core.log.voter_set
        outside = [
            r for r in world.replicas.values() if r.is_controller and not voters.holds(r.key)
        ]
        kind = rng.below(8)
        lost = lost_voters(world, voters)
        if lost and rng.below(2):
            return self.removing(lost[0].key)
        if kind < 2 and outside:
            return self.adding(rng.pick(outside))
        if kind < 4:
            return self.removing(rng.pick(voters.voters).key)
        if kind < 5:
            return self.updating(world.replicas[rng.pick(voters.ids)])
        if not world.reassigns:
            return self.removing(rng.pick(voters.voters).key)
        if kind < 6 and voters.targets is not None:
            return VoterChange("reassign", None)
        there = list(world.replicas)
        return VoterChange("reassign", tuple(rng.some(there, 1 + rng.below(min(len(there), 5)))))

    # One change ------------------------------------------------------------------------------

    @staticmethod
    def adding(replica: Replica) -> VoterChange:
        return VoterChange("add_voter", Voter(replica.key, replica.endpoints))

    @staticmethod
    def removing(key: ReplicaKey) -> VoterChange:
        return VoterChange("remove_voter", key)

    def updating(self, replica: Replica) -> VoterChange:
        """An update of the voter's address, and of its directory id if that was unknown."""
        self._updates += 1
        host = replica.endpoints[0].host if replica.endpoints else f"host{replica.id}"
        endpoint = Endpoint("CONTROLLER", host, self._updates)
        return VoterChange("update_voter", Voter(replica.key, (endpoint,)))

    def ask(self, change: VoterChange, timeout_ms: int = 60_000) -> ChangeRequest:
        """Request a change, and retry until `timeout_ms`; the outcome may stay unknown."""
        request = ChangeRequest(self, change)
        self.requests.append(request)
        self.world.note(None, "requests to", str(change))
        self.world.at(self.world.time + timeout_ms, self._give_up, request)
        self._ask(request, 0)
        return request

    def _ask(self, request: ChangeRequest, after: int) -> None:
        """Retry, unless the change was decided, or requested again, since attempt `after`."""
        world = self.world
        if request.is_over or request.attempts != after:
            return
        request.attempts += 1
        attempt = ChangeAttempt(request, request.attempts)
        world.at(world.time + world.setting.request_timeout_ms, self._ask, request, attempt.number)
        if world.leaders:
            self._put(world.replicas[self._rng.pick(list(world.leaders))], attempt)
        else:
            self._ask_soon(attempt)

    def _ask_soon(self, attempt: ChangeAttempt) -> None:
        wait = ASKS_AGAIN_AFTER_MS + self._rng.below(ASKS_AGAIN_AFTER_MS)
        self.world.at(self.world.time + wait, self._ask, attempt.request, attempt.number)

    def _put(self, replica: Replica, attempt: ChangeAttempt) -> None:
        request, core = attempt.request, replica.core
        if replica.paused:
            replica.waiting.append((self._put, (replica, attempt)))
        elif core is None or request.is_over:
            pass  # there is no leader, or the request has timed out
        elif not is_sound(self.world, core.log.voter_set, request.change):
            self._ask_soon(attempt)
        else:
            self.put(replica, attempt)

    def put(self, replica: Replica, attempt: ChangeAttempt) -> int:
        """Make one attempt at one replica, valid or not; return an error code."""
        request = attempt.request
        error = replica.change(request.change.kind, attempt, request.change.what)
        if not error:
            return error
        self.world.note(replica, "refuses", error)
        if error in AGAIN:
            self._ask_soon(attempt)
        else:
            self._over(request, error)
        return error

    def decided(self, attempt: ChangeAttempt, error: int, end_offset: int) -> None:
        """An accepted attempt is committed, or its outcome is unknown."""
        request = attempt.request
        if error:
            self.world.saw("voter change of unknown outcome")
            self._ask_soon(attempt)
            return
        self.world.change_committed(request.change, end_offset)
        if not request.is_over:
            self._over(request, error)

    def _over(self, request: ChangeRequest, error: int) -> None:
        request.error = error
        self.world.progress += 1
        self.world.note(None, "gets a response", (str(request.change), error))

    def _give_up(self, request: ChangeRequest) -> None:
        if not request.is_over:
            request.gave_up = True
            self.world.progress += 1
