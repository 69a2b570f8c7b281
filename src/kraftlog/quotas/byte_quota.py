"""`ByteQuota`: the rates of all clients to which one kind of quota applies."""

from __future__ import annotations

from kraftlog.quotas.rate import Rate
from kraftlog.quotas.usages import Usages
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kraftlog.quotas.limits import Entity

#: More bytes than a request can ask for.
MAX_BYTES = (1 << 31) - 1


class ByteQuota:
    """Throttles the clients that exceed the quotas with a key, such as `producer_byte_rate`."""

    def __init__(self, key: str, windows: int, window_ms: int) -> None:
        self._windows, self._window_ms = windows, window_ms
        self.usages = Usages(key, lambda: Rate(windows, window_ms))

    def record(
        self,
        quotas: Mapping[Entity, Mapping[str, float]],
        client: tuple[str, str],
        size: int,
        now_ms: int,
        *,
        unless_throttled: bool = False,
    ) -> int:
        """Count bytes of a client (user, client id); return how long to throttle it, in ms.

        With `unless_throttled` bytes that exceed the quota do not count: they are not sent.
        """
        found = self.usages.of(quotas, client, now_ms)
        if found is None:
            return 0
        limit, usage = found
        rate: Rate = usage.used
        rate.record(size, now_ms)
        throttle_ms = rate.throttle_ms(limit, now_ms)
        if throttle_ms:
            usage.throttles.add(throttle_ms, now_ms)
        if throttle_ms and unless_throttled:
            rate.record(-size, now_ms)
        return throttle_ms

    def most_at_once(
        self, quotas: Mapping[Entity, Mapping[str, float]], client: tuple[str, str]
    ) -> int | None:
        """The most bytes that fit into the quota's windows; None: no quota applies.

        A larger response would be throttled whenever it is asked for.
        """
        limit = self.usages.limit(quotas, client)
        if limit is None:
            return None
        return int(min(limit * (self._windows - 1) * self._window_ms / 1000, MAX_BYTES))
