"""`Usages`: what clients have used of the quotas with one key."""

from __future__ import annotations

from kraftlog.quotas.limits import limit_for
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from kraftlog.quotas.limits import Entity, Scope

#: What nobody has used for this long is forgotten, as in Kafka.
UNUSED_MS = 3_600_000
#: What is unused is looked for at most this often.
SWEEP_MS = 60_000


class Usages:
    """A rate or a token bucket for each entity with a quota and each scope of its clients.

    A quota that is removed takes them along: one that is set later for the same name starts anew.
    """

    def __init__(self, key: str, new: Callable[[], Any]) -> None:
        self._key, self._new = key, new
        #: What was used, and when it was last.
        self._used: dict[Entity, dict[Scope, tuple[Any, int]]] = {}
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
    ) -> tuple[float, Any] | None:
        """The limit of a client (user, client id) and what it has used; None: no quota applies."""
        found = limit_for(quotas, *client, self._key)
        if found is None:
            return None
        limit, scope, entity = found
        return limit, self.used(entity, scope, now_ms)

    def used(self, entity: Entity, scope: Scope, now_ms: int) -> Any:
        """What the clients of a scope have used of the quota of an entity."""
        kept = self._used.get(entity, {}).get(scope)
        if kept is None:
            self._sweep(now_ms)
        used = self._new() if kept is None else kept[0]
        self._used.setdefault(entity, {})[scope] = used, now_ms
        return used

    def forget(self, entity: Entity) -> None:
        """The quota of an entity is removed."""
        self._used.pop(entity, None)

    def _sweep(self, now_ms: int) -> None:
        if now_ms < self._sweep_from_ms:
            return
        self._sweep_from_ms = now_ms + SWEEP_MS
        for entity, by_scope in list(self._used.items()):
            kept = {
                scope: (used, used_ms)
                for scope, (used, used_ms) in by_scope.items()
                if now_ms - used_ms < UNUSED_MS
            }
            if kept:
                self._used[entity] = kept
            else:
                del self._used[entity]
