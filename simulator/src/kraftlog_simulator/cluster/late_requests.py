"""A fault of a cluster: requests of brokers to the controller arrive once more, much later.

A broker that gets no response sends the request again, on a new connection; the first one may still
be on its way. Epochs alone tell the controller that it is late (V1, V9).
"""

from __future__ import annotations

from kraftlog.effects import RequestFailed
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import APIS, ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.effects import RequestReport, SendRequest
    from kraftlog_simulator.rng import Rng

LATE_REQUESTS = "late-requests"
#: The requests that are repeated. (A late registration would end the session of a live process.)
REPEATED = frozenset((ApiKey.ALTER_PARTITION, ApiKey.BROKER_HEARTBEAT))
#: How much later a copy arrives: minimum and maximum.
LATE_BY_MS = 100, 5000
#: How much longer than other faults this one lasts: changes of an ISR are rare.
LONGER = 4
#: How many copies of a request are late.
COPIES = 3
#: Heartbeats are many: of a thousand this many are repeated.
HEARTBEATS_PERMILLE = 50


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
        #: Called at the next ISR change that a broker proposes.
        self.on_proposal: dict[int, Callable[[], None]] = {}

    def sent(self, effect: SendRequest) -> None:
        """A broker sends a request to a controller."""
        if effect.api_key == ApiKey.ALTER_PARTITION:
            proposer = effect.request.broker_id
            self.proposals[proposer] = effect.request
            if proposer in self.on_proposal:
                self.on_proposal.pop(proposer)()
        if effect.api_key == ApiKey.BROKER_HEARTBEAT and effect.request.want_fence:
            heartbeat = effect.request
            key = heartbeat.broker_id, effect.channel, effect.number
            self._in_flight[key] = heartbeat.broker_epoch
        world = self._world
        if world.time >= self.until_ms or effect.api_key not in REPEATED:
            return
        if effect.api_key == ApiKey.BROKER_HEARTBEAT and not self._rng.permille(
            HEARTBEATS_PERMILLE
        ):
            return
        for _ in range(COPIES):
            late_ms = self._rng.between(*LATE_BY_MS)
            world.schedule(world.time + late_ms, self.arrive, effect.api_key, effect.request)

    def reported(self, broker: int, report: RequestReport) -> None:
        """A broker learns the outcome of a request; one that has failed may still arrive."""
        epoch = self._in_flight.pop((broker, report.channel, report.number), None)
        if epoch is not None and isinstance(report, RequestFailed):
            self.want_fence.add((broker, epoch))

    def arrive(self, api_key: int, request: Any) -> None:
        """A copy of a request reaches the active controller."""
        world = self._world
        leader = world.leader()
        if world.healed or leader is None or leader.core is None or leader.paused:
            return
        world.saw(f"late {APIS[api_key].name}")
        if api_key == ApiKey.BROKER_HEARTBEAT and request.want_fence:
            self.want_fence.add((request.broker_id, request.broker_epoch))
        world.replicas[leader.id].send_as_client(api_key, APIS[api_key].last, request, _ignore)


def repeat_late(world: Any, rng: Rng, for_ms: int) -> None:  # noqa: ARG001 - interface of faults
    """For a while, requests to the controller are repeated when they are outdated."""
    until_ms = world.time + LONGER * for_ms
    world.late_requests.until_ms = max(world.late_requests.until_ms, until_ms)


def _ignore(_: Any) -> None:
    """Nobody waits for the response any more."""
