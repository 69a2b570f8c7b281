"""`ClientQuotas`: throttles clients that do more than their quota permits, as Kafka does.

A throttled connection is muted: its requests wait, and nothing else does. Quotas are looked up in
the image for each request, so a change applies to the next one.
"""

from __future__ import annotations

from math import inf

from kraftlog.authorization.hosts import java_address
from kraftlog.metadata.changes import QuotaChanged
from kraftlog.metadata.loader import MetadataPublisher
from kraftlog.node.controller_request import ForwardedClient
from kraftlog.quotas.byte_quota import ByteQuota
from kraftlog.quotas.connection_rates import ConnectionRates
from kraftlog.quotas.limits import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from kraftlog.quotas.mutation_quota import MutationQuota
from kraftlog.quotas.time_quota import TimeQuota
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from kraftlog.metadata.changes import Change
    from kraftlog.metadata.image import Image
    from kraftlog.metadata.loader import MetadataLoader
    from kraftlog.node.controller_request import ControllerRequest
    from kraftlog.node.delayed_operations import DelayedOperation
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.quotas.limits import Entity
    from kraftlog.quotas.mutation_quota import Mutations
    from kraftlog.quotas.usages import Usages
    from kraftlog.types import Now
    from kraftlog.wire.messages.fetch import FetchRequest


#: The versions since which an exhausted quota refuses changes of partitions; older ones, whose
#: clients do not know the error code, are carried out, and throttled.
STRICT_SINCE = {ApiKey.CREATE_TOPICS: 6, ApiKey.DELETE_TOPICS: 5, ApiKey.CREATE_PARTITIONS: 3}
#: The keys that each Produce and Fetch request is checked for.
_OF_DATA = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE)


class ClientQuotas(MetadataPublisher):
    name = "client quotas"

    def __init__(
        self,
        windows: tuple[int, int],
        mutation_windows: tuple[int, int],
        loader: MetadataLoader,
        now: Callable[[], Now],
        wait_for_ms: Callable[[DelayedOperation, int], None],
        stopwatch_ns: Callable[[], int] = lambda: 0,
    ) -> None:
        """The windows: how many, and how long each is in milliseconds."""
        #: Whether quotas limit data: without one, Produce and Fetch cost nothing more than this
        #: check.
        self.is_active = False
        #: Whether quotas limit changes of partitions.
        self.limits_mutations = False
        #: Whether quotas limit the time of requests: only then it is measured.
        self.limits_time = False
        #: The number of entities that have a quota with a key.
        self._entities: dict[str, int] = {}
        self._loader = loader
        self._now = now
        self._wait_for_ms = wait_for_ms
        self._stopwatch_ns = stopwatch_ns
        self._produce = ByteQuota(PRODUCER_BYTE_RATE, *windows)
        self._fetch = ByteQuota(CONSUMER_BYTE_RATE, *windows)
        self._mutations = MutationQuota(*mutation_windows)
        self._time = TimeQuota(*windows)
        self.connections = ConnectionRates(*windows)
        #: The quotas of addresses, as Java prints them, and of all others; None: look again.
        self._addresses: dict[str | None, tuple[float, Entity]] | None = None
        self._usages = {
            PRODUCER_BYTE_RATE: self._produce.usages,
            CONSUMER_BYTE_RATE: self._fetch.usages,
            CONTROLLER_MUTATION_RATE: self._mutations.usages,
            REQUEST_PERCENTAGE: self._time.usages,
            CONNECTION_CREATION_RATE: self.connections.addresses,
        }

    def usages(self, key: str) -> Usages:
        """What clients have used of the quotas with a key."""
        return self._usages[key]

    # The metadata ----------------------------------------------------------------------------

    def changed(self, change: Change) -> None:
        if isinstance(change, QuotaChanged):
            self._count(change.key, (change.after is not None) - (change.before is not None))
            if change.after is None:
                self._removed(change.entity, change.key)

    def reloaded(self, before: Image) -> None:
        after = self._loader.image.quotas
        for entity, values in before.quotas.items():
            for key in values:
                self._count(key, -1)
                if key not in after.get(entity, {}):
                    self._removed(entity, key)
        for values in after.values():
            for key in values:
                self._count(key, 1)

    def _count(self, key: str, change: int) -> None:
        self._entities[key] = self._entities.get(key, 0) + change
        if key == CONNECTION_CREATION_RATE:
            self._addresses = None
        self.is_active = any(map(self._entities.get, _OF_DATA))
        self.limits_time = bool(self._entities.get(REQUEST_PERCENTAGE))
        self.limits_mutations = bool(self._entities.get(CONTROLLER_MUTATION_RATE))

    def _removed(self, entity: Entity, key: str) -> None:
        """If it is set again, it starts from zero."""
        usages = self._usages.get(key)
        if usages is not None:
            usages.forget(entity)

    # Produce and Fetch -----------------------------------------------------------------------

    def produced(self, pending: PendingResponse) -> int:
        """Count a Produce request; mute its connection if its client exceeds the quota.

        Returns the response's `throttle_time_ms`.
        """
        throttle_ms = self._produce.record(
            self._loader.image.quotas, _client(pending), pending.size, self._now().monotonic_ms
        )
        return self._throttle(pending, throttle_ms)

    def fetched(self, pending: PendingResponse, size: int) -> int:
        """Count the records of a response, unless they exceed the quota: then they are not sent.

        Mutes the connection then; returns the response's `throttle_time_ms`.
        """
        throttle_ms = self._fetch.record(
            self._loader.image.quotas,
            _client(pending),
            size,
            self._now().monotonic_ms,
            unless_throttled=True,
        )
        return self._throttle(pending, throttle_ms)

    def bounded(self, pending: PendingResponse, request: FetchRequest) -> FetchRequest:
        """The request of a consumer for no more than the windows of its quota have room for."""
        if request.replica_id >= 0 or request.replica_state.replica_id >= 0:
            pending.time = None
            return request
        most = self._fetch.most_at_once(self._loader.image.quotas, _client(pending))
        if most is None or request.max_bytes <= most:
            return request
        return request.replace(max_bytes=most, min_bytes=min(request.min_bytes, most))

    # Time ------------------------------------------------------------------------------------

    def measure(self, pending: PendingResponse) -> None:
        """Measure the time of a request, unless it is one of another node."""
        from kraftlog.node.request_time import RequestTime, is_exempt

        if not is_exempt(pending):
            pending.time = RequestTime(pending, self._stopwatch_ns, self._spent, self._throttle)

    def _spent(self, pending: PendingResponse, spent_ns: int) -> int:
        return self._time.record(
            self._loader.image.quotas, _client(pending), spent_ns, self._now().monotonic_ms
        )

    # Connections -----------------------------------------------------------------------------

    def address_wait_ms(self, host: str, now_ms: int) -> int:
        """Count a new connection of an address, unless its quota has it throttled.

        Returns for how long its socket is held before it is closed; 0: it is accepted.
        """
        if not self._entities.get(CONNECTION_CREATION_RATE):
            return 0
        if self._addresses is None:
            self._addresses = dict(self._quotas_of_addresses())
        address = java_address(host)
        found = self._addresses.get(address) or self._addresses.get(None)
        if found is None:
            return 0
        limit, entity = found
        return self.connections.address_wait_ms(entity, address, limit, now_ms)

    def _quotas_of_addresses(self) -> Iterator[tuple[str | None, tuple[float, Entity]]]:
        """In a log that others wrote, a quota may be no number above 0: it limits nothing."""
        for entity, values in self._loader.image.quotas.items():
            limit = values.get(CONNECTION_CREATION_RATE)
            if limit is not None and entity[0][0] == IP:
                name = entity[0][1]
                address = None if name is None else java_address(name)
                yield address, (limit if limit > 0 else inf, entity)

    # Changes of partitions -------------------------------------------------------------------

    def client_of(self, pending: PendingResponse) -> ForwardedClient | None:
        """The client of a request that quotas may limit on the controller; None: they do not."""
        assert pending.api is not None
        return self.creator_of(pending) if pending.api.key in STRICT_SINCE else None

    def creator_of(self, pending: PendingResponse) -> ForwardedClient | None:
        """The client that topics are created for, if quotas may limit it."""
        if not self.limits_mutations:
            return None
        return ForwardedClient.of(pending)

    def mutations_of(self, request: ControllerRequest) -> Mutations | None:
        """What the quota of its client permits a request to this controller to change."""
        strict_since = STRICT_SINCE.get(request.api_key)
        if request.client is None or strict_since is None or not self.limits_mutations:
            return None
        return self._mutations.begin(
            self._loader.image.quotas,
            request.client.user_and_client_id,
            self._now().monotonic_ms,
            is_strict=request.version >= strict_since,
        )

    def mutated(self, pending: PendingResponse, response: Any) -> None:
        """Mute a connection for as long as the controller has its client throttled."""
        assert pending.api is not None
        if pending.api.key in STRICT_SINCE:
            self._throttle(pending, response.throttle_time_ms)

    def _throttle(self, pending: PendingResponse, throttle_ms: int) -> int:
        if throttle_ms <= 0:
            return 0
        pending.connection.mute()
        self._wait_for_ms(_Throttle(pending.connection), throttle_ms)
        return throttle_ms


def _client(pending: PendingResponse) -> tuple[str, str]:
    """User and client id."""
    return pending.connection.principal.partition(":")[2], pending.client_id or ""


class _Throttle:
    """Mutes a connection until it expires."""

    pending = None

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    @property
    def done(self) -> bool:
        return bool(self._connection.closed)

    def expire(self, now: Now) -> None:  # noqa: ARG002 - interface of delayed operations
        if not self.done:
            self._connection.unmute()
