"""`TimeQuota`: how much of the node's time the requests of clients take, in percent."""

from __future__ import annotations

from kraftlog.quotas.limits import REQUEST_PERCENTAGE
from kraftlog.quotas.rate import Rate
from kraftlog.quotas.usages import Usages
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kraftlog.quotas.limits import Entity

#: Percent of a second in a nanosecond.
PERCENT_OF_NS = 100 / 1e9


class TimeQuota:
    """The time of all clients to which a quota applies; 100 is that of one thread."""

    def __init__(self, windows: int, window_ms: int) -> None:
        self._window_ms = window_ms
        self.usages = Usages(REQUEST_PERCENTAGE, lambda: Rate(windows, window_ms))

    def record(
        self,
        quotas: Mapping[Entity, Mapping[str, float]],
        client: tuple[str, str],
        spent_ns: int,
        now_ms: int,
    ) -> int:
        """Count the time of a request; return how long to throttle its client, in ms.

        At most a window, as in Kafka: a client that is refused its time for longer would end its
        connection.
        """
        found = self.usages.of(quotas, client, now_ms)
        if found is None:
            return 0
        limit, usage = found
        rate: Rate = usage.used
        rate.record(spent_ns * PERCENT_OF_NS, now_ms)
        throttle_ms = min(rate.throttle_ms(limit, now_ms), self._window_ms)
        if throttle_ms:
            usage.throttles.add(throttle_ms, now_ms)
        return throttle_ms
