"""Groups that change at random from round to round, with the assignments of each round."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kraftlog.groups.assignors.interface import (
    Assignments,
    MemberSubscription,
    SubscribedTopics,
)
from kraftlog.types import Uuid, uuid_text
from tests.groups.assignors.at_once import assign

if TYPE_CHECKING:
    from random import Random

RACKS = ("a", "b", "c")


@dataclass(frozen=True)
class Round:
    """A group as an assignor sees it, and what it returned."""

    assignor: str
    members: dict[str, MemberSubscription]
    topics: SubscribedTopics
    result: Assignments

    def as_json(self) -> dict[str, Any]:
        return {
            "assignor": self.assignor,
            "homogeneous": self.topics.is_homogeneous,
            "members": [self._member(self.members[name]) for name in sorted(self.members)],
            "topics": {
                uuid_text(topic): [
                    sorted(self.topics.racks.get(topic, {}).get(index, ()))
                    for index in range(count)
                ]
                for topic, count in self.topics.partition_counts.items()
            },
        }

    @staticmethod
    def _member(member: MemberSubscription) -> dict[str, Any]:
        return {
            "id": member.member_id,
            "instance": member.instance_id,
            "rack": member.rack_id,
            "topics": [uuid_text(topic) for topic in sorted(member.topic_ids)],
            "owned": {
                uuid_text(topic): sorted(member.owned[topic]) for topic in sorted(member.owned)
            },
        }


@dataclass
class RandomGroup:
    """A group whose members, subscriptions and topics change; `rounds` has what happened."""

    rng: Random
    homogeneous: bool
    assignor: str
    max_members: int = 12
    max_partitions: int = 24
    partition_counts: dict[Uuid, int] = field(default_factory=dict)
    members: dict[str, MemberSubscription] = field(default_factory=dict)
    rounds: list[Round] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._common: frozenset[Uuid] = frozenset()
        for _ in range(self.rng.randint(1, 6)):
            self._add_topic()
        self._common = self._some_topics()
        for _ in range(self.rng.randint(1, self.max_members)):
            self._join()

    def run(self, rounds: int) -> list[Round]:
        self._assign()
        for _ in range(rounds - 1):
            for _ in range(self.rng.randint(1, 4)):
                self._change()
            self._assign()
        return self.rounds

    def subscribe_all(self, topic_ids: frozenset[Uuid]) -> None:
        self._common = topic_ids
        for name, member in self.members.items():
            self.members[name] = member.replace(topic_ids=topic_ids)

    def _assign(self) -> None:
        topics = SubscribedTopics(
            dict(self.partition_counts),
            {
                topic: {
                    index: frozenset(self.rng.sample(RACKS, self.rng.randint(1, 3)))
                    for index in range(count)
                }
                for topic, count in self.partition_counts.items()
            },
            is_homogeneous=self.homogeneous,
        )
        members = dict(self.members)
        result = assign(self.assignor, members, topics)
        self.rounds.append(Round(self.assignor, members, topics, result))
        for name, member in members.items():
            self.members[name] = member.replace(owned=result.get(name, {}))

    def _change(self) -> None:
        changes = (self._join, self._leave, self._leave, self._join, self._grow, self._subscribe)
        self.rng.choice(changes)()
        if self.rng.random() < 0.1:
            self._add_topic()
        if self.rng.random() < 0.1 and len(self.partition_counts) > 1:
            self._delete_topic()
        if self.rng.random() < 0.1:
            self.assignor = self.rng.choice(("uniform", "range"))

    def _join(self) -> None:
        rng = self.rng
        name = rng.choice(
            (uuid_text(rng.randbytes(16)), f"member-{rng.randrange(1000)}", "ü\U0001f600")
        )
        is_static = rng.random() < 0.3
        self.members[name] = MemberSubscription(
            member_id=name,
            topic_ids=self._common if self.homogeneous else self._some_topics(),
            owned=self.members[name].owned if name in self.members else {},
            instance_id=f"instance-{rng.randrange(10**6)}" if is_static else None,
            rack_id=rng.choice((*RACKS, None)),
        )

    def _leave(self) -> None:
        if len(self.members) > 1:
            del self.members[self.rng.choice(sorted(self.members))]

    def _grow(self) -> None:
        topic = self.rng.choice(sorted(self.partition_counts))
        self.partition_counts[topic] += self.rng.randint(1, self.max_partitions // 4)

    def _subscribe(self) -> None:
        if self.homogeneous:
            self.subscribe_all(self._some_topics())
        else:
            name = self.rng.choice(sorted(self.members))
            self.members[name] = self.members[name].replace(topic_ids=self._some_topics())

    def _add_topic(self) -> None:
        self.partition_counts[self.rng.randbytes(16)] = self.rng.randint(1, self.max_partitions)

    def _delete_topic(self) -> None:
        deleted = self.rng.choice(sorted(self.partition_counts))
        del self.partition_counts[deleted]
        self._common -= {deleted}
        for name, member in self.members.items():
            self.members[name] = member.replace(topic_ids=member.topic_ids - {deleted})

    def _some_topics(self) -> frozenset[Uuid]:
        names = sorted(self.partition_counts)
        least = 0 if self.rng.random() < 0.05 else 1
        return frozenset(self.rng.sample(names, self.rng.randint(least, len(names))))
