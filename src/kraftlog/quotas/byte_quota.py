"""`ByteQuota`: the rates of all clients to which one kind of quota applies."""

from __future__ import annotations

from kraftlog.quotas.limits import limit_for
from kraftlog.quotas.rate import Rate
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kraftlog.quotas.limits import Entity, Scope

#: More bytes than a request can ask for.
MAX_BYTES = (1 << 31) - 1
#: A rate that nobody has used for this long is forgotten, as in Kafka.
UNUSED_MS = 3_600_000
#: Unused rates are looked for at most this often.
SWEEP_MS = 60_000


class ByteQuota:
    """Throttles the clients that exceed the quotas with a key, such as `producer_byte_rate`."""

    def __init__(self, key: str, windows: int, window_ms: int) -> None:
        self._key, self._windows, self._window_ms = key, windows, window_ms
        #: Rate and time of last use.
        self._rates: dict[Scope, tuple[Rate, int]] = {}
        self._sweep_from_ms = 0

    def __len__(self) -> int:
        return len(self._rates)

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
        found = limit_for(quotas, *client, self._key)
        if found is None:
            return 0
        limit, scope = found
        rate = self._rate(scope, now_ms)
        rate.record(size, now_ms)
        throttle_ms = rate.throttle_ms(limit, now_ms)
        if throttle_ms and unless_throttled:
            rate.record(-size, now_ms)
        return throttle_ms

    def most_at_once(
        self, quotas: Mapping[Entity, Mapping[str, float]], client: tuple[str, str]
    ) -> int | None:
        """The most bytes that fit into the quota's windows; None: no quota applies.

        A larger response would be throttled whenever it is asked for.
        """
        found = limit_for(quotas, *client, self._key)
        if found is None:
            return None
        return int(min(found[0] * (self._windows - 1) * self._window_ms / 1000, MAX_BYTES))

    def _rate(self, scope: Scope, now_ms: int) -> Rate:
        kept = self._rates.get(scope)
        if kept is None:
            self._sweep(now_ms)
        rate = Rate(self._windows, self._window_ms) if kept is None else kept[0]
        self._rates[scope] = rate, now_ms
        return rate

    def _sweep(self, now_ms: int) -> None:
        if now_ms >= self._sweep_from_ms:
            self._sweep_from_ms = now_ms + SWEEP_MS
            self._rates = {
                scope: (rate, used_ms)
                for scope, (rate, used_ms) in self._rates.items()
                if now_ms - used_ms < UNUSED_MS
            }
