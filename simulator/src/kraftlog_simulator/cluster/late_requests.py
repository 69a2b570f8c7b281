"""A fault of a cluster: requests of brokers to others arrive once more, much later.

A broker that gets no response sends the request again, on a new connection; the first one may still
be on its way. Epochs alone tell that it is late (V1, V9, V23). If it is of an earlier process or
leader epoch, by what its receiver knows when it arrives, it must be refused.
"""

from __future__ import annotations

from kraftlog.effects import RequestFailed
from kraftlog.node.fetch_sessions import INITIAL_EPOCH
from kraftlog.replication.replica_fetchers import CHANNEL_PREFIX
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import APIS, ApiKey
from kraftlog_simulator.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.effects import RequestReport, SendRequest
    from kraftlog_simulator.rng import Rng

LATE_REQUESTS = "late-requests"
#: The requests that are repeated: those to controllers, and the fetches of followers.
REPEATED = frozenset(
    (
        ApiKey.ALTER_PARTITION,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.FETCH,
    )
)
#: How much later a copy arrives: minimum and maximum.
LATE_BY_MS = 100, 5000
#: How much longer than other faults this one lasts: changes of an ISR are rare.
LONGER = 4
#: How many copies of a request are late.
COPIES = 3
#: Of a thousand requests that are many, this many are repeated.
PERMILLE = {ApiKey.BROKER_HEARTBEAT: 50, ApiKey.FETCH: 200}


class LateRequests:
    """While the fault lasts, copies of what brokers send to controllers arrive once more."""

    def __init__(self, world: Any) -> None:
        self._world = world
        self._rng = world.rng("late requests")
        self.until_ms = 0
        #: The last ISR change that each broker has proposed.
        self.proposals: dict[int, Any] = {}
        #: The processes, by broker and broker epoch, of which a heartbeat that wants a fence was
        #: late, or has failed and may still arrive: they may want none any more.
        self.want_fence: set[tuple[int, int]] = set()
        #: The heartbeats in flight that want a fence, by broker, channel and number: the epoch.
        self._in_flight: dict[tuple[int, str, int], int] = {}
        #: The processes in the order of their first registrations, by incarnation id.
        self._processes: dict[bytes, int] = {}
        #: Called at the next ISR change that a broker proposes.
        self.on_proposal: dict[int, Callable[[], None]] = {}

    def sent(self, effect: SendRequest) -> None:
        """A broker sends a request."""
        request: Any = effect.request
        if effect.api_key == ApiKey.ALTER_PARTITION:
            self.proposals[request.broker_id] = request
            if request.broker_id in self.on_proposal:
                self.on_proposal.pop(request.broker_id)()
        if effect.api_key == ApiKey.BROKER_HEARTBEAT and request.want_fence:
            key = request.broker_id, effect.channel, effect.number
            self._in_flight[key] = request.broker_epoch
        if effect.api_key == ApiKey.BROKER_REGISTRATION:
            self._processes.setdefault(request.incarnation_id, len(self._processes))
        world = self._world
        if world.time >= self.until_ms or effect.api_key not in REPEATED:
            return
        if effect.api_key == ApiKey.FETCH and not _is_full_fetch_of_follower(effect):
            return
        if not self._rng.permille(PERMILLE.get(effect.api_key, 1000)):
            return
        for _ in range(COPIES):
            late_ms = self._rng.between(*LATE_BY_MS)
            world.schedule(world.time + late_ms, self._arrive_at_peer, effect)

    def reported(self, broker: int, report: RequestReport) -> None:
        """A broker learns the outcome of a request; one that has failed may still arrive."""
        epoch = self._in_flight.pop((broker, report.channel, report.number), None)
        if epoch is not None and isinstance(report, RequestFailed):
            self.want_fence.add((broker, epoch))

    def _arrive_at_peer(self, effect: SendRequest) -> None:
        if effect.api_key != ApiKey.FETCH:
            self.arrive(effect.api_key, effect.request)
            return
        leader = self._world.replicas[effect.peer]
        if not self._world.healed and leader.core is not None and leader.was_ready:
            self._send(leader, effect.api_key, effect.request)

    def arrive(self, api_key: int, request: Any) -> None:
        """A copy of a request reaches the active controller."""
        world = self._world
        leader = world.leader()
        if world.healed or leader is None or leader.core is None:
            return
        if api_key == ApiKey.BROKER_HEARTBEAT and request.want_fence:
            self.want_fence.add((request.broker_id, request.broker_epoch))
        self._send(world.replicas[leader.id], api_key, request)

    def _send(self, target: Any, api_key: int, request: Any) -> None:
        world, name = self._world, APIS[api_key].name
        if target.paused:
            return
        world.saw(f"late {name}")
        outdated = self._outdated(target, api_key, request)
        if outdated:
            world.saw(f"outdated {name}")

        def on_response(response: Any) -> None:
            # Not in the turn of the node, which has yet to show what it did.
            world.schedule(world.time, check_response, target, name, outdated, response)

        target.send_as_client(api_key, APIS[api_key].last, request, on_response)

    # What must be refused ------------------------------------------------------------------------

    def _outdated(self, target: Any, api_key: int, request: Any) -> str:
        """Why the receiver must refuse the request, whatever it learns until it decides."""
        if api_key == ApiKey.FETCH:
            return _outdated_fetch(target, request)
        active = target.node.active_controller
        if active is None or not active.is_active:
            return ""
        broker = active.controller.state.brokers.get(request.broker_id)
        if broker is None:
            return ""
        if api_key == ApiKey.BROKER_REGISTRATION:
            registered = self._processes.get(broker.incarnation_id, -1)
            is_earlier = self._processes[request.incarnation_id] < registered
        else:
            is_earlier = request.broker_epoch < broker.epoch
        return f"an earlier process than that of broker epoch {broker.epoch}" if is_earlier else ""


def _is_full_fetch_of_follower(effect: SendRequest) -> bool:
    """Whether a request is a follower's first of a session: others are refused by its epoch."""
    request: Any = effect.request
    is_of_partitions = effect.channel.startswith(CHANNEL_PREFIX)
    return is_of_partitions and request.session_epoch == INITIAL_EPOCH


def _outdated_fetch(leader: Any, request: Any) -> str:
    """Why all partitions of a fetch must have errors."""
    follower, partitions = request.replica_state, leader.node.replica_manager.partitions
    broker = leader.node.image.brokers.get(follower.replica_id)
    if broker is not None and follower.replica_epoch < broker.epoch:
        return f"an earlier process than that of broker epoch {broker.epoch}"
    fetched = [
        (partitions.get((topic.topic_id, part.partition)), part)
        for topic in request.topics
        for part in topic.partitions
    ]
    if fetched and all(
        partition is not None and partition.leader_epoch > part.current_leader_epoch
        for partition, part in fetched
    ):
        return "an earlier leader epoch"
    return ""


def check_response(target: Any, name: str, outdated: str, response: Any) -> None:
    """A response must have errors if the request was outdated when it arrived.

    A log that diverges is refused too: its position does not count (KAFKA-13141).
    """
    codes = [response.error_code]
    if hasattr(response, "responses") and not response.error_code:
        codes = [
            part.error_code or part.diverging_epoch.end_offset >= 0
            for topic in response.responses
            for part in topic.partitions
        ]
    if outdated and not all(codes):
        raise Violation(
            "late requests are refused", f"{target} accepts a late {name} of {outdated}: {codes}"
        )


def repeat_late(world: Any, rng: Rng, for_ms: int) -> None:  # noqa: ARG001 - interface of faults
    """For a while, requests of brokers are repeated when they may be outdated."""
    until_ms = world.time + LONGER * for_ms
    world.late_requests.until_ms = max(world.late_requests.until_ms, until_ms)
