"""`uniform` for a group whose members subscribe to different topics.

Members keep what they own. Topics with the most partitions per subscriber come first: their free
partitions go to the least loaded subscribers; then, topic by topic, the most loaded subscribers
give partitions to the least loaded, until a round over all topics moves nothing.
"""

from __future__ import annotations

from kraftlog.groups.assignors.hash_order import strings_in_hash_order
from kraftlog.groups.assignors.load import LeastLoaded, MostLoaded
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from kraftlog.groups.assignors.interface import (
        Assignments,
        MemberSubscription,
        SubscribedTopics,
    )
    from kraftlog.types import Uuid

#: Topics with few partitions may never come into balance; Kafka stops after this number of rounds.
MAX_ROUNDS = 16
#: Owned partitions, or moves, in one step; each takes less than a microsecond.
PARTITIONS_PER_STEP = 500

NO_OWNER = -1


def assign_heterogeneous(
    members: Mapping[str, MemberSubscription], topics: SubscribedTopics
) -> Generator[int, None, Assignments]:
    """Assign in steps."""
    ordered = [members[member_id] for member_id in (yield from strings_in_hash_order(members))]
    builder = _Builder(ordered, topics)
    yield from builder.retain_in_steps()
    yield from builder.assign_free_in_steps()
    yield from builder.balance_in_steps()
    return (yield from builder.assignments_in_steps())


class _Builder:
    """The assignment as it is built; members are known by their positions in the order."""

    __slots__ = ("_changed", "_counts", "_members", "_owners", "_sizes", "_subscribers", "_topics")

    def __init__(self, members: Sequence[MemberSubscription], topics: SubscribedTopics) -> None:
        self._members = members
        self._counts = topics
        #: The number of partitions of each member.
        self._sizes = [0] * len(members)
        #: Members whose assignment is not what they own.
        self._changed: set[int] = set()
        self._subscribers: dict[Uuid, list[int]] = {}
        #: Each partition's owner, by topic.
        self._owners: dict[Uuid, list[int]] = {}
        self._topics: list[Uuid] = []

    def retain_in_steps(self) -> Generator[int, None, None]:
        """Let members keep what they own of the topics that they subscribe to."""
        cost = 0
        for index, member in enumerate(self._members):
            for topic_id in member.topic_ids:
                self._subscribers.setdefault(topic_id, []).append(index)
            cost += 1 + len(member.topic_ids) // 4
            if cost >= PARTITIONS_PER_STEP:
                yield cost
                cost = 0
        for topic_id in sorted(self._subscribers):
            self._owners[topic_id] = [NO_OWNER] * self._counts.partition_count(topic_id)
        self._topics = sorted(self._subscribers, key=self._priority)
        yield cost + len(self._topics)
        cost = 0
        for index, member in enumerate(self._members):
            self._retain(index, member)
            cost += 1 + self._sizes[index] // 4
            if cost >= PARTITIONS_PER_STEP:
                yield cost
                cost = 0

    def _retain(self, index: int, member: MemberSubscription) -> None:
        for topic_id, partitions in member.owned.items():
            if topic_id in member.topic_ids:
                owners = self._owners[topic_id]
                for partition in partitions:
                    owners[partition] = index
                self._sizes[index] += len(partitions)
            else:
                self._changed.add(index)

    def _priority(self, topic_id: Uuid) -> tuple[float, int, int, int]:
        """Many partitions for each subscriber first, then few subscribers; then as Uuid sorts."""
        subscriber_count = len(self._subscribers[topic_id])
        first, second = (int.from_bytes(half, "big", signed=True) for half in halves(topic_id))
        return (
            -(len(self._owners[topic_id]) / subscriber_count),
            subscriber_count,
            first,
            second,
        )

    def assign_free_in_steps(self) -> Generator[int, None, None]:
        """Give the partitions that nobody owns to the least loaded subscribers."""
        for topic_id in self._topics:
            owners = self._owners[topic_id]
            free = [partition for partition, owner in enumerate(owners) if owner == NO_OWNER]
            yield 1 + len(owners) // 20
            if free:
                yield from self._deal_in_steps(owners, free, self._subscribers_by_load(topic_id))

    def _deal_in_steps(
        self, owners: list[int], free: Sequence[int], subscribers: list[int]
    ) -> Generator[int, None, None]:
        yield len(subscribers) // 4
        least = LeastLoaded(self._sizes, subscribers)
        for start in range(0, len(free), PARTITIONS_PER_STEP):
            for partition in free[start : start + PARTITIONS_PER_STEP]:
                member = least.next()
                owners[partition] = member
                self._sizes[member] += 1
                self._changed.add(member)
            yield min(PARTITIONS_PER_STEP, len(free) - start)

    def _subscribers_by_load(self, topic_id: Uuid) -> list[int]:
        """The subscribers in ascending order of their sizes; equal sizes in order of members."""
        return sorted(self._subscribers[topic_id], key=self._sizes.__getitem__)

    def balance_in_steps(self) -> Generator[int, None, None]:
        """Balance topic after topic until none has changed since the last time."""
        topics = [topic for topic in self._topics if len(self._subscribers[topic]) > 1]
        last_changed = None
        for _ in range(MAX_ROUNDS):
            for topic_id in topics:
                if topic_id == last_changed:
                    return
                moved = yield from self._balance_topic_in_steps(topic_id)
                if moved or last_changed is None:
                    last_changed = topic_id

    def _balance_topic_in_steps(self, topic_id: Uuid) -> Generator[int, None, int]:
        """Move partitions of a topic from the most to the least loaded; return how many."""
        subscribers = self._subscribers[topic_id]
        sizes = [self._sizes[index] for index in subscribers]
        yield 1 + len(sizes) // 10
        if max(sizes) - min(sizes) <= 1:
            return 0
        owners = self._owners[topic_id]
        held: dict[int, list[int]] = {}
        for partition, owner in enumerate(owners):
            held.setdefault(owner, []).append(partition)
        yield 1 + len(owners) // 5
        by_load = self._subscribers_by_load(topic_id)
        yield 1 + len(sizes) // 4
        most = MostLoaded(self._sizes, by_load, held)
        least = LeastLoaded(self._sizes, by_load)
        moved = 0
        while (giver := most.next()) is not None:
            taker = least.next()
            if most.level - least.level <= 1:
                break
            owners[held[giver].pop()] = taker
            self._sizes[giver] -= 1
            self._sizes[taker] += 1
            self._changed.update((giver, taker))
            moved += 1
            if moved % PARTITIONS_PER_STEP == 0:
                yield 2 * PARTITIONS_PER_STEP
        return moved

    def assignments_in_steps(self) -> Generator[int, None, Assignments]:
        """The assignments; members whose assignment is what they own get the same objects."""
        changed = self._changed
        found: dict[int, dict[Uuid, list[int]]] = {index: {} for index in changed}
        cost = 0
        for topic_id, owners in self._owners.items():
            for start in range(0, len(owners), PARTITIONS_PER_STEP):
                end = min(start + PARTITIONS_PER_STEP, len(owners))
                for partition in range(start, end):
                    owner = owners[partition]
                    if owner in changed:
                        found[owner].setdefault(topic_id, []).append(partition)
                cost += 1 + (end - start) // 4
                if cost >= PARTITIONS_PER_STEP:
                    yield cost
                    cost = 0
        assignments: Assignments = {}
        for index, member in enumerate(self._members):
            lists = found.get(index)
            assignments[member.member_id] = (
                dict(member.owned)
                if lists is None
                else {topic_id: frozenset(indexes) for topic_id, indexes in lists.items()}
            )
            cost += 2
            if cost >= PARTITIONS_PER_STEP:
                yield cost
                cost = 0
        return assignments


def halves(uuid: Uuid) -> tuple[bytes, bytes]:
    return uuid[:8], uuid[8:]
