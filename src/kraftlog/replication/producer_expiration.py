"""`ProducerExpiration`: periodic expiration of idle producer ids."""

from __future__ import annotations

from kraftlog.part import Part
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from kraftlog.replication.partition import Partition
    from kraftlog.types import Now


class ProducerExpiration(Part):
    """Expires producers by the timestamps of their batches; `deadline` is monotonic."""

    task = "expiring producer ids"

    def __init__(
        self,
        partitions: Mapping[Any, Partition],
        interval_ms: int,
        expiration_ms: Callable[[], int],
        now: Now,
    ) -> None:
        self._partitions = partitions
        self._interval_ms = interval_ms
        #: The current producer.id.expiration.ms.
        self._expiration_ms = expiration_ms
        self._due_ms = 0
        self.postpone(now)

    def postpone(self, now: Now) -> None:
        self._due_ms = now.monotonic_ms + self._interval_ms

    def poll(self, now: Now) -> None:
        if now.monotonic_ms < self._due_ms:
            return
        self.postpone(now)
        expiration_ms = self._expiration_ms()
        for partition in self._partitions.values():
            if partition.producers is not None:
                partition.producers.expire(now.wall_ms, expiration_ms)

    def deadline(self) -> int:
        return self._due_ms
