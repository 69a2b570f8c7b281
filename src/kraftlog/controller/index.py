"""Which partitions a decision is about, without looking through all of them.

Made from the partitions of an image and nothing else, so that it follows every change of them,
also one that is taken back.
"""

from __future__ import annotations

from kraftlog.metadata.values import NO_LEADER
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

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

    def change(self, before: PartitionImage | None, after: PartitionImage | None) -> None:
        """A partition is another, new (no before) or gone (no after)."""
        if before is not None:
            self._remove(before)
        if after is not None:
            self._add(after)

    def _add(self, partition: PartitionImage) -> None:
        key = partition.key
        for broker in partition.isr:
            self.in_isr.setdefault(broker, {})[key] = None
        for broker in partition.elr:
            self.in_elr.setdefault(broker, {})[key] = None
        self.led_by.setdefault(partition.leader, {})[key] = None
        if partition.leader != partition.replicas[0]:
            self.imbalanced[key] = None
        if partition.reassigning:
            self.reassigning[key] = None

    def _remove(self, partition: PartitionImage) -> None:
        key = partition.key
        _take_out(self.in_isr, partition.isr, key)
        _take_out(self.in_elr, partition.elr, key)
        _take_out(self.led_by, (partition.leader,), key)
        self.imbalanced.pop(key, None)
        self.reassigning.pop(key, None)


def _take_out(held: dict[int, Keys], brokers: Iterable[int], key: PartitionKey) -> None:
    for broker in brokers:
        keys: Any = held[broker]
        del keys[key]
        if not keys:
            del held[broker]
