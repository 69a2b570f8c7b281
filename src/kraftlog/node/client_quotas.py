"""`ClientQuotas`: throttles clients that produce or fetch more than their quota, as Kafka does.

A throttled connection is muted: its requests wait, and nothing else does. Quotas are looked up in
the image for each request, so a change applies to the next one.
"""

from __future__ import annotations

from kraftlog.metadata.loader import MetadataPublisher
from kraftlog.quotas.byte_quota import ByteQuota
from kraftlog.quotas.limits import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from kraftlog.metadata.image import Image
    from kraftlog.metadata.loader import MetadataLoader
    from kraftlog.node.delayed_operations import DelayedOperation
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.types import Now
    from kraftlog.wire.messages.fetch import FetchRequest


class ClientQuotas(MetadataPublisher):
    name = "client quotas"

    def __init__(
        self,
        windows: int,
        window_ms: int,
        loader: MetadataLoader,
        now: Callable[[], Now],
        wait_for_ms: Callable[[DelayedOperation, int], None],
    ) -> None:
        #: Whether there are quotas at all: without one, requests cost nothing more than this check.
        self.is_active = False
        self._loader = loader
        self._now = now
        self._wait_for_ms = wait_for_ms
        self._produce = ByteQuota(PRODUCER_BYTE_RATE, windows, window_ms)
        self._fetch = ByteQuota(CONSUMER_BYTE_RATE, windows, window_ms)

    def published(self) -> Iterable[int]:
        self.is_active = bool(self._loader.image.quotas)
        return ()

    def reloaded(self, before: Image) -> None:  # noqa: ARG002 - interface of publishers
        self.published()

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
            return request
        most = self._fetch.most_at_once(self._loader.image.quotas, _client(pending))
        if most is None or request.max_bytes <= most:
            return request
        return request.replace(max_bytes=most, min_bytes=min(request.min_bytes, most))

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
