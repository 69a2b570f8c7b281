"""The target assignment of a group, for all its members as they will be after a request."""

from __future__ import annotations

from collections.abc import Mapping

from kraftlog.errors import ErrorCode
from kraftlog.groups.assignors.builtin import BUILTIN_ASSIGNORS
from kraftlog.groups.assignors.interface import (
    AssignorError,
    MemberSubscription,
    SubscribedTopics,
)
from kraftlog.groups.consumer import records
from kraftlog.groups.consumer.refused import RefusedRequestError
from kraftlog.steps import result_of
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kraftlog.groups.assignors.interface import Assignor
    from kraftlog.groups.config import GroupConfig
    from kraftlog.groups.consumer.cluster_metadata import ClusterMetadata
    from kraftlog.groups.consumer.group import ConsumerGroup, Target
    from kraftlog.groups.consumer.member import ConsumerMember
    from kraftlog.groups.records import GroupRecord
    from kraftlog.metadata.values import TopicImage
    from kraftlog.types import Now, Uuid


class RacksOfTopics(Mapping["Uuid", "Mapping[int, frozenset[str]]"]):
    """The racks of each topic's partitions, looked up when asked for: most assignors never ask."""

    def __init__(self, topics: ClusterMetadata, of: Iterable[TopicImage]) -> None:
        self._topics = topics
        self._by_id = {topic.id: topic for topic in of}

    def __getitem__(self, topic_id: Uuid) -> Mapping[int, frozenset[str]]:
        racks = self._topics.racks(self._by_id[topic_id])
        return {index: frozenset(of_partition) for index, of_partition in enumerate(racks)}

    def __iter__(self) -> Iterator[Uuid]:
        return iter(self._by_id)

    def __len__(self) -> int:
        return len(self._by_id)


def may_assign(group: ConsumerGroup, interval_ms: int, now: Now) -> bool:
    """Whether the last target assignment is old enough for another one.

    So a group that many members join gets an assignment per interval, not one per member.
    """
    return not group.target_ms or not interval_ms or now.wall_ms >= group.target_ms + interval_ms


def new_target(
    group: ConsumerGroup,
    members: Mapping[str, ConsumerMember],
    targets: Mapping[str, Target],
    epoch: int,
    assignor: Assignor,
    topics: ClusterMetadata,
    now: Now,
) -> tuple[dict[str, Target], list[GroupRecord]]:
    """The targets of these members, whose targets until now are `targets`, and their records."""
    by_name: dict[str, TopicImage | None] = {}
    subscriptions: dict[str, MemberSubscription] = {}
    # Members with equal subscriptions, which most groups have, share one set of topic ids.
    shared: dict[frozenset[str], frozenset[Uuid]] = {}
    for member_id, member in members.items():
        names = group.topics_of(member)
        ids = shared.get(names)
        if ids is None:
            for name in names:
                if name not in by_name:
                    by_name[name] = topics.named(name)
            found = [topic for name in names if (topic := by_name[name]) is not None]
            ids = shared[names] = frozenset([topic.id for topic in found])
        subscriptions[member_id] = MemberSubscription(
            member_id, ids, targets.get(member_id, {}), member.instance_id, member.rack_id
        )
    existing = [topic for topic in by_name.values() if topic is not None]
    subscribed = SubscribedTopics(
        partition_counts={topic.id: topic.partition_count for topic in existing},
        racks=RacksOfTopics(topics, existing),
        is_homogeneous=_is_homogeneous(members),
    )
    try:
        assigned = result_of(assignor(subscriptions, subscribed))
    except AssignorError as error:
        what = f"Failed to compute a new target assignment for epoch {epoch}: {error}"
        raise RefusedRequestError(ErrorCode.UNKNOWN_SERVER_ERROR, what) from error
    new_records = [
        records.target_of_member(group.group_id, member_id, assigned.get(member_id, {}))
        for member_id in members
        if targets.get(member_id) != assigned.get(member_id, {})
    ]
    new_records.append(records.target_epoch(group.group_id, epoch, now.wall_ms))
    return {**assigned}, new_records


def assignor_named(name: str, config: GroupConfig) -> Assignor:
    return (config.own_assignors or BUILTIN_ASSIGNORS)[name]


def _is_homogeneous(members: Mapping[str, ConsumerMember]) -> bool:
    """Whether all members name the same topics and have the same expression, or none."""
    return len({(each.topic_names, each.topic_regex or "") for each in members.values()}) <= 1
