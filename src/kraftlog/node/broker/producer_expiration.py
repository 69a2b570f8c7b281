"""What a broker looks after now and then: producers that were silent for long are forgotten."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.node.node import Node
    from kraftlog.types import Now


class ProducerExpiration:
    """`deadline` is in monotonic milliseconds; how old a producer is, its timestamps say."""

    def __init__(self, node: Node, now: Now) -> None:
        self._node = node
        self._interval_ms: int = node.config.settings["producer.id.expiration.check.interval.ms"]
        self._due_ms = 0
        self.postpone(now)

    def postpone(self, now: Now) -> None:
        self._due_ms = now.monotonic_ms + self._interval_ms

    def poll(self, now: Now) -> None:
        if now.monotonic_ms < self._due_ms:
            return
        self.postpone(now)
        expiration_ms = self._node.config_layers().value("producer.id.expiration.ms")
        for partition in self._node.partitions.values():
            if partition.producers is not None:
                partition.producers.expire(now.wall_ms, expiration_ms)

    def deadline(self) -> int:
        return self._due_ms
