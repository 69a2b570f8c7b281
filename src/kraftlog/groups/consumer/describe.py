"""ConsumerGroupDescribe: the committed state of a group, with both assignments of its members."""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.groups.consumer.group import ConsumerGroup
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages import consumer_group_describe as api

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kraftlog.groups.consumer.interfaces import Shard
    from kraftlog.groups.consumer.member import ConsumerMember
    from kraftlog.types import Uuid

#: Types of members.
CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


def committed_group(shard: Shard, group_id: str) -> ConsumerGroup | None:
    """A group as it is in the log: without the decisions that are not committed yet."""
    group = shard.consumer_groups.get(group_id)
    if group is not None and not shard.writes.has_records_of_group(group_id):
        return group
    stored = shard.durable.consumer_groups.get(group_id)
    if stored is None:
        return None
    group = ConsumerGroup(group_id)
    group.load(stored)
    return group


def describe_consumer_group(shard: Shard, group_id: str) -> api.DescribedGroup:
    group = committed_group(shard, group_id)
    if group is None:
        is_classic = group_id in shard.groups
        return error_result(
            group_id,
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Group {group_id} is not a consumer group."
            if is_classic
            else f"Group {group_id} not found.",
        )
    return api.DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.preferred_assignor(shard.config.consumer_assignors[0]),
        members=[_member(shard, group, member) for member in group.members.values()],
    )


def error_result(group_id: str, code: int, message: str | None = None) -> api.DescribedGroup:
    return api.DescribedGroup(
        error_code=code,
        error_message=message,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=(),
    )


def _member(shard: Shard, group: ConsumerGroup, member: ConsumerMember) -> api.Member:
    both = {topic_id: list(epochs) for topic_id, epochs in member.assigned.items()}
    for topic_id, epochs in member.revoking.items():
        both.setdefault(topic_id, []).extend(epochs)
    return api.Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        assignment=_assignment(shard, both),
        target_assignment=_assignment(shard, group.targets.get(member.member_id, {})),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _assignment(shard: Shard, partitions: Mapping[Uuid, Iterable[int]]) -> api.Assignment:
    """Partitions of topics that exist, with the topics' names."""
    return api.Assignment(
        topic_partitions=[
            api.TopicPartitions(
                topic_id=topic_id, topic_name=topic.name, partitions=sorted(indexes)
            )
            for topic_id, indexes in partitions.items()
            if (topic := shard.topics.with_id(topic_id)) is not None
        ]
    )
