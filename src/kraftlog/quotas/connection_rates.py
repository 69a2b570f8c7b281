"""`ConnectionRates`: how many connections are accepted per second, by the node and by address."""

from __future__ import annotations

from kraftlog.quotas.limits import CONNECTION_CREATION_RATE
from kraftlog.quotas.rate import Rate
from kraftlog.quotas.usages import Usages
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kraftlog.quotas.limits import Entity


class ConnectionRates:
    """The rates of the node and its listeners, by name, and those of addresses with a quota.

    As in Kafka, no connection waits longer than a window.
    """

    def __init__(self, windows: int, window_ms: int) -> None:
        self._windows, self._window_ms = windows, window_ms
        self._rates: dict[str, Rate] = {}
        self.addresses = Usages(CONNECTION_CREATION_RATE, self._new)

    def _new(self) -> Rate:
        return Rate(self._windows, self._window_ms)

    def wait_ms(self, limits: Mapping[str, float], now_ms: int) -> int:
        """How long the next connection has to wait, by all these rates; 0: it need not."""
        waits = [
            self._excess_ms(self._rates.setdefault(name, self._new()), limit, now_ms)
            for name, limit in limits.items()
        ]
        return max(waits, default=0)

    def accepted(self, limits: Mapping[str, float], now_ms: int) -> None:
        """Count an accepted connection for rates that have a limit."""
        for name in limits:
            self._rates.setdefault(name, self._new()).record(1, now_ms)

    def address_wait_ms(self, entity: Entity, host: str, limit: float, now_ms: int) -> int:
        """Count a connection of an address, unless its quota has it throttled.

        Returns for how long its socket is held before it is closed; 0: it is accepted.
        """
        rate: Rate = self.addresses.used(entity, (host, None), now_ms).used
        excess_ms = self._excess_ms(rate, limit, now_ms)
        if not excess_ms:
            rate.record(1, now_ms)
        return excess_ms

    def _excess_ms(self, rate: Rate, limit: float, now_ms: int) -> int:
        """How long until one more connection is within the limit, at most a window."""
        if limit <= 0:
            return self._window_ms
        rate.record(1, now_ms)
        throttle_ms = rate.throttle_ms(limit, now_ms)
        rate.record(-1, now_ms)
        return min(throttle_ms, self._window_ms)
