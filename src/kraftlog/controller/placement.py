"""Replica placement: stripes replicas over racks and brokers, as Kafka does.

The first replica of each partition comes from the next rack with an unfenced broker, the others
from the following racks; within a rack brokers take turns. When every broker has been first once,
racks and brokers are shuffled, so that the same combinations do not repeat. Fenced brokers are
used only after the unfenced ones of their rack, and never for the first replica.
"""

from __future__ import annotations

from kraftlog.controller.decision import Refusal
from kraftlog.errors import ErrorCode
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable
    from typing import Any, Protocol

    from kraftlog.metadata.values import BrokerImage

    class Rng(Protocol):
        """A random number generator, given by the host."""

        def getrandbits(self, k: int, /) -> int: ...


#: Cost of placing a partition, in microseconds.
PARTITION_COST = 3


class _Rotation:
    """Brokers of a rack in rotation; each round, for one partition, starts one broker further."""

    def __init__(self) -> None:
        self.brokers: list[int] = []
        self._index = 0
        self._offset = 0
        self._round = 0

    def begin(self, rng: Rng) -> None:
        self.brokers.sort()
        if self.brokers:
            self._offset = random_below(rng, len(self.brokers))

    def next(self, round_number: int) -> int | None:
        """The next broker in this round; None after the last."""
        if not self.brokers:
            return None
        if self._round != round_number:
            self._round = round_number
            self._index = 0
            self._offset = (self._offset + 1) % len(self.brokers)
        if self._index >= len(self.brokers):
            return None
        broker = self.brokers[(self._index + self._offset) % len(self.brokers)]
        self._index += 1
        return broker


class _Rack:
    def __init__(self) -> None:
        self.unfenced = _Rotation()
        self.fenced = _Rotation()

    def next(self, round_number: int) -> int | None:
        broker = self.unfenced.next(round_number)
        return self.fenced.next(round_number) if broker is None else broker


class _Racks:
    """The racks in rotation."""

    def __init__(self, brokers: Iterable[BrokerImage], rng: Rng) -> None:
        self._rng = rng
        self._racks: dict[str | None, _Rack] = {}
        #: Number of brokers, in all and unfenced.
        self.total = self.unfenced = 0
        for broker in brokers:
            rack = self._racks.setdefault(broker.rack, _Rack())
            (rack.fenced if broker.fenced else rack.unfenced).brokers.append(broker.id)
            self.total += 1
            self.unfenced += not broker.fenced
        self._names = sorted(self._racks, key=lambda name: (name is not None, name or ""))
        for name in self._names:
            self._racks[name].fenced.begin(rng)
            self._racks[name].unfenced.begin(rng)
        #: Partitions placed, in all and since the last shuffle.
        self._round = self._since_shuffle = 0
        self._offset = random_below(rng, len(self._names)) if self._names else 0

    def place(self, replicas: int) -> tuple[int, ...]:
        """The replicas of one partition, the preferred leader first."""
        if self._since_shuffle == self.unfenced and self.unfenced > 1:
            self._shuffle()
            self._since_shuffle = 0
        if self._offset == len(self._names):
            self._offset = 0
        first_rack, leader = self._next_leader()
        placed = [leader]
        skipped = False
        rack = self._offset
        while len(placed) < replicas:
            if rack == first_rack and not skipped:
                skipped = True  # it has provided the leader
            else:
                broker = self._racks[self._names[rack]].next(self._round)
                if broker is not None:
                    placed.append(broker)
            rack = (rack + 1) % len(self._names)
        self._round += 1
        self._since_shuffle += 1
        self._offset += 1
        return tuple(placed)

    def _next_leader(self) -> tuple[int, int]:
        """The next rack with an unfenced broker, and the broker."""
        rack = self._offset
        while True:
            broker = self._racks[self._names[rack]].unfenced.next(self._round)
            if broker is not None:
                return rack, broker
            rack = (rack + 1) % len(self._names)

    def _shuffle(self) -> None:
        shuffle(self._names, self._rng)
        for name in self._names:
            shuffle(self._racks[name].fenced.brokers, self._rng)
            shuffle(self._racks[name].unfenced.brokers, self._rng)


def place_in_steps(
    brokers: Iterable[BrokerImage], partitions: int, replicas: int, rng: Rng
) -> Generator[int, None, list[tuple[int, ...]] | Refusal]:
    """Place replicas of new partitions on the usable brokers, step by step."""
    usable = [broker for broker in brokers if broker.takes_replicas]
    racks = _Racks(usable, rng)
    if replicas <= 0:
        why = f"Invalid replication factor {replicas}: the replication factor must be positive."
    elif not racks.unfenced:
        why = "All brokers are currently fenced, or have all their log directories cordoned."
    elif replicas > racks.total:
        why = (
            f"The target replication factor of {replicas} cannot be reached because only "
            f"{racks.total} broker(s) are registered or some brokers have all their log "
            "directories cordoned."
        )
    else:
        placed = []
        for _ in range(partitions):
            placed.append(racks.place(replicas))
            yield PARTITION_COST
        return placed
    return Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, why)


def random_below(rng: Rng, end: int) -> int:
    """A number below `end`, by `getrandbits` only, so that all Python versions return the same."""
    bits = end.bit_length()
    while (drawn := rng.getrandbits(bits)) >= end:
        pass
    return drawn


def shuffle(items: list[Any], rng: Rng) -> None:
    for last in range(len(items) - 1, 0, -1):
        other = random_below(rng, last + 1)
        items[last], items[other] = items[other], items[last]
