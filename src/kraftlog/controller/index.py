"""Which partitions a decision is about, without looking through all of them.

Made from the partitions of an image and nothing else, so that it follows every change of them,
also one that is taken back.
"""

from __future__ import annotations

from kraftlog.metadata.values import NO_LEADER
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.metadata.values import PartitionImage, PartitionKey

#: Sets are dicts without values here: their order is that of insertion.
Keys = dict[tuple[bytes, int], None]


class PartitionIndex:
    """Keys of partitions by what they have in common."""

    def __init__(self) -> None:
        self.in_isr: dict[int, Keys] = {}
        self.in_elr: dict[int, Keys] = {}
        self.led_by: dict[int, Keys] = {}
        #: Those of which another than the first replica leads.
        self.imbalanced: Keys = {}
        self.reassigning: Keys = {}

    @property
    def leaderless(self) -> Keys:
        return self.led_by.get(NO_LEADER, {})

    def leads(self, broker_id: int) -> bool:
        return broker_id in self.led_by

    def change(
        self, key: PartitionKey, before: PartitionImage | None, after: PartitionImage | None
    ) -> None:
        """A partition is another, new (no before) or gone (no after)."""
        was = _NOTHING if before is None else (before.isr, before.elr, (before.leader,))
        now = _NOTHING if after is None else (after.isr, after.elr, (after.leader,))
        for held, brokers_before, brokers_after in zip(
            (self.in_isr, self.in_elr, self.led_by), was, now, strict=True
        ):
            if brokers_before != brokers_after:
                _move(held, key, brokers_before, brokers_after)
        imbalanced = after is not None and after.leader != after.replicas[0]
        reassigning = after is not None and after.reassigning
        for keys, belongs in ((self.imbalanced, imbalanced), (self.reassigning, reassigning)):
            if belongs:
                keys[key] = None
            else:
                keys.pop(key, None)


_NOTHING: tuple[tuple[int, ...], ...] = ((), (), ())


def _move(
    held: dict[int, Keys], key: PartitionKey, before: tuple[int, ...], after: tuple[int, ...]
) -> None:
    for broker in before:
        if broker not in after:
            keys = held[broker]
            del keys[key]
            if not keys:
                del held[broker]
    for broker in after:
        if broker not in before:
            held.setdefault(broker, {})[key] = None
