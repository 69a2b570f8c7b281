"""A balanced assignment of partitions to brokers that moves few replicas.

First, replicas move away from brokers that are not to be used, if possible to a rack without
another replica of the partition. Then replicas move from brokers with many to brokers with few,
until their numbers differ by one at most; none of these moves leaves a partition in fewer racks.
Finally the order of replicas changes, which moves no data, until the numbers of preferred leaders
differ by one at most, as far as the replicas allow.
"""

from __future__ import annotations

from collections import Counter, deque

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kraftlog.client.model import PartitionName


class TooFewBrokersError(ValueError):
    """A partition has more replicas than there are brokers for them."""

    def __init__(self, needed: int, brokers: str, found: int) -> None:
        super().__init__(f"{needed} replicas need {needed} {brokers}; there are {found}")
        self.needed = needed


def balanced(
    assignment: Mapping[PartitionName, Sequence[int]], racks: Mapping[int, str | None]
) -> dict[PartitionName, tuple[int, ...]]:
    """The changed partitions of a balanced assignment to the brokers in `racks`."""
    most = max(map(len, assignment.values()), default=0)
    if most > len(racks):
        raise TooFewBrokersError(most, "brokers", len(racks))
    plan = _Plan(assignment, racks)
    plan.move_from_other_brokers()
    plan.even_out_replicas()
    plan.even_out_leaders()
    return {
        name: tuple(replicas)
        for name, replicas in plan.replicas.items()
        if replicas != list(assignment[name])
    }


def moved_away(
    assignment: Mapping[PartitionName, Sequence[int]], racks: Mapping[int, str | None], broker: int
) -> dict[PartitionName, tuple[int, ...]]:
    """The partitions of a broker, with another broker in its place; nothing else moves.

    `racks` has the brokers to choose from, so not `broker` itself.
    """
    held = {name: replicas for name, replicas in assignment.items() if broker in replicas}
    for replicas in held.values():
        # The other replicas stay, even on brokers that are not in `racks`.
        others = racks.keys() | set(replicas) - {broker}
        if len(replicas) > len(others):
            raise TooFewBrokersError(len(replicas), "other brokers", len(others))
    plan = _Plan(assignment, racks)
    plan.move_all_from(broker)
    return {name: tuple(plan.replicas[name]) for name in held}


class _Plan:
    """The assignment so far, with the partitions of each broker and their number by topic."""

    def __init__(
        self,
        assignment: Mapping[PartitionName, Sequence[int]],
        racks: Mapping[int, str | None],
    ) -> None:
        self.replicas = {name: list(assignment[name]) for name in sorted(assignment)}
        self.racks = racks
        self.brokers = sorted(racks)
        #: The partitions of each broker, in a stable order.
        self.partitions_of: dict[int, dict[PartitionName, None]] = {
            each: {} for each in self.brokers
        }
        #: (broker, topic) to the number of partitions of the topic on the broker.
        self.topic_counts: Counter[tuple[int, str]] = Counter()
        for name, replicas in self.replicas.items():
            for broker in replicas:
                self.partitions_of.setdefault(broker, {})[name] = None
                self.topic_counts[broker, name[0]] += 1

    def move(self, name: PartitionName, source: int, target: int) -> None:
        replicas = self.replicas[name]
        replicas[replicas.index(source)] = target
        del self.partitions_of[source][name]
        self.partitions_of[target][name] = None
        self.topic_counts[source, name[0]] -= 1
        self.topic_counts[target, name[0]] += 1

    def move_from_other_brokers(self) -> None:
        """Move all replicas from brokers that are not to be used to those with the fewest."""
        for source in sorted(self.partitions_of.keys() - self.racks.keys()):
            self.move_all_from(source)

    def move_all_from(self, source: int) -> None:
        """Move all replicas from a broker."""
        for name in list(self.partitions_of.get(source, ())):
            others = [each for each in self.replicas[name] if each != source]
            free = [each for each in self.brokers if each not in others]
            target = min(free, key=lambda each: self._cost(name, others, each))
            self.move(name, source, target)

    def _cost(
        self, name: PartitionName, others: Iterable[int], broker: int
    ) -> tuple[bool, int, int, int]:
        rack = self.racks[broker]
        shares_rack = rack is not None and rack in {self.racks.get(each) for each in others}
        return (
            shares_rack,
            len(self.partitions_of[broker]),
            self.topic_counts[broker, name[0]],
            broker,
        )

    def even_out_replicas(self) -> None:
        while self._move_one():
            pass

    def _move_one(self) -> bool:
        """Move a replica from a broker with many to one with at least two fewer."""
        by_load = sorted(self.brokers, key=lambda each: (len(self.partitions_of[each]), each))
        for source in reversed(by_load):
            for target in by_load:
                if len(self.partitions_of[source]) - len(self.partitions_of[target]) < 2:
                    break
                movable = [
                    name
                    for name in self.partitions_of[source]
                    if self._may_move(name, source, target)
                ]
                if movable:
                    name = max(movable, key=lambda each: self._surplus(each[0], source, target))
                    self.move(name, source, target)
                    return True
        return False

    def _surplus(self, topic: str, source: int, target: int) -> int:
        return self.topic_counts[source, topic] - self.topic_counts[target, topic]

    def _may_move(self, name: PartitionName, source: int, target: int) -> bool:
        """Whether `target` has no replica of it yet, and the partition stays in as many racks."""
        replicas = self.replicas[name]
        if target in replicas:
            return False
        racks = [self.racks[each] for each in replicas if each != source]
        return self.racks[target] not in racks or self.racks[source] in racks

    def even_out_leaders(self) -> None:
        #: The partitions whose preferred leader is each broker.
        led: dict[int, dict[PartitionName, None]] = {each: {} for each in self.brokers}
        for name, replicas in self.replicas.items():
            led[replicas[0]][name] = None
        while True:
            for source in sorted(self.brokers, key=lambda each: -len(led[each])):
                path = self._path_of_leaders(led, source)
                if path:
                    break
            else:
                return
            for name, target in path:
                replicas = self.replicas[name]
                del led[replicas[0]][name]
                led[target][name] = None
                # The other replicas keep their order, and their former leader is next.
                self.replicas[name] = [target, *[each for each in replicas if each != target]]

    def _path_of_leaders(
        self, led: Mapping[int, Iterable[PartitionName]], source: int
    ) -> list[tuple[PartitionName, int]]:
        """A chain of leader changes (partition, new leader), or none if `source` cannot lead fewer.

        After it `source` leads one fewer, a broker with at least two fewer leads one more, and all
        others between them lead as many as before.
        """
        counts = {each: len(list(led[each])) for each in self.brokers}
        reached_from: dict[int, tuple[int, PartitionName] | None] = {source: None}
        queue = deque([source])
        while queue:
            broker = queue.popleft()
            if counts[broker] <= counts[source] - 2:
                return _path(reached_from, broker)
            for name in led[broker]:
                for other in self.replicas[name]:
                    if other not in reached_from:
                        reached_from[other] = broker, name
                        queue.append(other)
        return []


def _path(
    reached_from: Mapping[int, tuple[int, PartitionName] | None], end: int
) -> list[tuple[PartitionName, int]]:
    path = []
    step = reached_from[end]
    while step is not None:
        path.append((step[1], end))
        end = step[0]
        step = reached_from[end]
    return path
