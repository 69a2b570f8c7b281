"""Index of partitions, so that a decision need not scan all of them.

It depends only on the partitions of an image, and is updated when one of them is changed or when
such a change is undone.
"""

from __future__ import annotations

from kraftlog.metadata.values import NO_LEADER
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.metadata.values import PartitionImage, PartitionKey

#: Sets are dicts without values here: their order is that of insertion.
Keys = dict[tuple[bytes, int], None]


class PartitionIndex:
    """Partition keys by broker and by state."""

    def __init__(self) -> None:
        self.in_isr: dict[int, Keys] = {}
        self.in_elr: dict[int, Keys] = {}
        self.led_by: dict[int, Keys] = {}
        #: Partitions not led by their preferred leader.
        self.imbalanced: Keys = {}
        self.reassigning: Keys = {}

    @property
    def leaderless(self) -> Keys:
        return self.led_by.get(NO_LEADER, {})

    def leads(self, broker_id: int) -> bool:
        return broker_id in self.led_by

    def update(
        self, key: PartitionKey, before: PartitionImage | None, after: PartitionImage | None
    ) -> None:
        """Update the index for a changed, new (no before) or removed (no after) partition."""
        isr, elr, leader = (
            _NO_PARTITION if before is None else (before.isr, before.elr, before.leader)
        )
        new_isr, new_elr, new_leader = (
            _NO_PARTITION if after is None else (after.isr, after.elr, after.leader)
        )
        if isr != new_isr:
            _move(self.in_isr, key, isr, new_isr)
        if elr != new_elr:
            _move(self.in_elr, key, elr, new_elr)
        if leader != new_leader:
            _move(self.led_by, key, _broker(leader), _broker(new_leader))
        if after is not None and new_leader != after.replicas[0]:
            self.imbalanced[key] = None
        else:
            self.imbalanced.pop(key, None)
        if after is not None and after.reassigning:
            self.reassigning[key] = None
        else:
            self.reassigning.pop(key, None)


#: ISR, eligible leader replicas and leader of a partition that does not exist.
_NO_PARTITION: tuple[tuple[int, ...], tuple[int, ...], int | None] = ((), (), None)


def _broker(leader: int | None) -> tuple[int, ...]:
    return () if leader is None else (leader,)


def _move(
    keys_by_broker: dict[int, Keys],
    key: PartitionKey,
    before: tuple[int, ...],
    after: tuple[int, ...],
) -> None:
    """Move a partition from the keys of the brokers `before` to those of the brokers `after`."""
    for broker in before:
        if broker not in after:
            keys = keys_by_broker[broker]
            del keys[key]
            if not keys:
                del keys_by_broker[broker]
    for broker in after:
        if broker not in before:
            keys_by_broker.setdefault(broker, {})[key] = None
