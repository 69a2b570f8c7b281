"""`MutationQuota`: how many partitions clients may create and delete per second."""

from __future__ import annotations

from kraftlog.quotas.limits import CONTROLLER_MUTATION_RATE
from kraftlog.quotas.token_bucket import TokenBucket
from kraftlog.quotas.usages import Usages
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kraftlog.quotas.limits import Entity
    from kraftlog.quotas.usages import Usage


class MutationQuota:
    """The token buckets of all clients to which a quota applies."""

    def __init__(self, windows: int, window_ms: int) -> None:
        seconds = windows * window_ms / 1000
        self.usages = Usages(CONTROLLER_MUTATION_RATE, lambda: TokenBucket(seconds))

    def begin(
        self,
        quotas: Mapping[Entity, Mapping[str, float]],
        client: tuple[str, str],
        now_ms: int,
        *,
        is_strict: bool,
    ) -> Mutations | None:
        """Begin a request of a client (user, client id); None: no quota applies."""
        found = self.usages.of(quotas, client, now_ms)
        return None if found is None else Mutations(found[1], found[0], is_strict=is_strict)


class Mutations:
    """What one request changes.

    Strict: nothing is permitted while the quota is exhausted. Permissive, for versions without an
    error code for that: all is permitted, and the client is throttled.
    """

    __slots__ = ("_at_ms", "_bucket", "_is_strict", "_limit", "_taken", "_throttle_ms", "_usage")

    def __init__(self, usage: Usage, limit: float, *, is_strict: bool) -> None:
        self._usage, self._limit, self._is_strict = usage, limit, is_strict
        self._bucket: TokenBucket = usage.used
        self._taken = 0
        #: How long to throttle the client, from when on.
        self._throttle_ms = self._at_ms = 0

    def permits(self, count: int, now_ms: int) -> bool:
        """Count partitions; return whether they may be created or deleted."""
        is_permitted = True
        if self._is_strict and self._bucket.is_exhausted(self._limit, now_ms):
            is_permitted = False
        else:
            self._bucket.take(count, self._limit, now_ms)
            self._taken += count
        if not (self._is_strict and is_permitted):
            self._throttle_ms = self._bucket.throttle_ms(self._limit, now_ms)
            self._at_ms = now_ms
        return is_permitted

    def throttle_ms(self, now_ms: int) -> int:
        """How long to throttle the client from now on; the request may have taken some time."""
        return max(self._throttle_ms - (now_ms - self._at_ms), 0)

    def throttle(self, now_ms: int) -> int:
        """Throttle the client for this long, as its response tells it."""
        throttle_ms = self.throttle_ms(now_ms)
        if throttle_ms:
            self._usage.throttles.add(throttle_ms, now_ms)
        return throttle_ms

    def take_back(self, now_ms: int) -> None:
        """The request is not carried out, or decided once more."""
        self._bucket.take(-self._taken, self._limit, now_ms)
        self._taken = self._throttle_ms = 0
