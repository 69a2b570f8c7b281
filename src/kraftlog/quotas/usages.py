"""`Usages`: what clients have used of the quotas with one key."""

from __future__ import annotations

from kraftlog.quotas.limits import limit_for
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from kraftlog.quotas.limits import Entity, Scope

#: What nobody has used for this long is forgotten, as in Kafka.
UNUSED_MS = 3_600_000
#: What is unused is looked for at most this often.
SWEEP_MS = 60_000
#: Averages cover one to two of these spans.
SPAN_MS = 30_000


class ThrottleTimes:
    """The average of the throttle times above 0 of the last 30 to 60 s."""

    __slots__ = ("_before", "_began_ms", "_latest")

    def __init__(self) -> None:
        self._began_ms = 0
        #: Count and sum, of the span before and of this one.
        self._before = self._latest = (0, 0)

    def add(self, throttle_ms: int, now_ms: int) -> None:
        self._roll(now_ms)
        count, total_ms = self._latest
        self._latest = count + 1, total_ms + throttle_ms

    def average_ms(self, now_ms: int) -> float:
        """0 if the client was not throttled."""
        self._roll(now_ms)
        count = self._before[0] + self._latest[0]
        return (self._before[1] + self._latest[1]) / count if count else 0.0

    def _roll(self, now_ms: int) -> None:
        if now_ms - self._began_ms >= SPAN_MS:
            is_next = now_ms - self._began_ms < 2 * SPAN_MS
            self._before = self._latest if is_next else (0, 0)
            self._latest, self._began_ms = (0, 0), now_ms


class Usage:
    """What clients have used: a rate or a token bucket, and how long they were throttled."""

    __slots__ = ("last_ms", "throttles", "used")

    def __init__(self, used: Any) -> None:
        self.used = used
        self.throttles = ThrottleTimes()
        #: When it was last used.
        self.last_ms = 0


class Usages:
    """A rate or a token bucket for each entity with a quota and each scope of its clients.

    A quota that is removed takes them along: one that is set later for the name starts from zero.
    """

    def __init__(self, key: str, new: Callable[[], Any]) -> None:
        self._key, self._new = key, new
        self._used: dict[Entity, dict[Scope, Usage]] = {}
        self._sweep_from_ms = 0

    def __len__(self) -> int:
        return sum(map(len, self._used.values()))

    def limit(
        self, quotas: Mapping[Entity, Mapping[str, float]], client: tuple[str, str]
    ) -> float | None:
        """The limit of a client; None: no quota applies."""
        found = limit_for(quotas, *client, self._key)
        return None if found is None else found[0]

    def of(
        self, quotas: Mapping[Entity, Mapping[str, float]], client: tuple[str, str], now_ms: int
    ) -> tuple[float, Usage] | None:
        """The limit of a client (user, client id) and what it has used; None: no quota applies."""
        found = limit_for(quotas, *client, self._key)
        if found is None:
            return None
        limit, scope, entity = found
        return limit, self.used(entity, scope, now_ms)

    def used(self, entity: Entity, scope: Scope, now_ms: int) -> Usage:
        """What the clients of a scope have used of the quota of an entity."""
        usage = self._used.get(entity, {}).get(scope)
        if usage is None:
            self._sweep(now_ms)
            usage = self._used.setdefault(entity, {})[scope] = Usage(self._new())
        usage.last_ms = now_ms
        return usage

    def each(
        self, quotas: Mapping[Entity, Mapping[str, float]]
    ) -> Iterator[tuple[Scope, float, Usage]]:
        """The scopes with the limits of their entities and what was used, oldest quotas first."""
        for entity, by_scope in list(self._used.items()):
            limit = quotas.get(entity, {}).get(self._key)
            if limit is not None:
                yield from [(scope, limit, usage) for scope, usage in by_scope.items()]

    def forget(self, entity: Entity) -> None:
        """The quota of an entity is removed."""
        self._used.pop(entity, None)

    def _sweep(self, now_ms: int) -> None:
        if now_ms < self._sweep_from_ms:
            return
        self._sweep_from_ms = now_ms + SWEEP_MS
        for entity, by_scope in list(self._used.items()):
            kept = {
                scope: usage
                for scope, usage in by_scope.items()
                if now_ms - usage.last_ms < UNUSED_MS
            }
            if kept:
                self._used[entity] = kept
            else:
                del self._used[entity]
