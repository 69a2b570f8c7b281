"""The records of a consumer group, in the versions that Kafka 4.4 writes."""

from __future__ import annotations

from kraftlog.groups.records import GroupRecord
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages import consumer_group_records as messages

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kraftlog.groups.consumer.group import ConsumerGroup
    from kraftlog.groups.consumer.member import ConsumerMember, EpochsOfPartitions
    from kraftlog.types import Uuid

VERSION = 0


def member_metadata(group_id: str, member: ConsumerMember) -> GroupRecord:
    return GroupRecord(
        messages.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        messages.ConsumerGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=tuple(sorted(member.topic_names)),
            subscribed_topic_regex=member.topic_regex,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            server_assignor=member.server_assignor,
            classic_member_metadata=member.classic,
        ),
        VERSION,
    )


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> GroupRecord:
    return GroupRecord(
        messages.ConsumerGroupMetadataKey(group_id=group_id),
        messages.ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
        VERSION,
    )


def target_epoch(group_id: str, epoch: int, wall_ms: int) -> GroupRecord:
    """The epoch of the target assignment, and when it was computed (0: it need not be old)."""
    return GroupRecord(
        messages.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        messages.ConsumerGroupTargetAssignmentMetadataValue(
            assignment_epoch=epoch, assignment_timestamp=wall_ms
        ),
        VERSION,
    )


def target_of_member(
    group_id: str, member_id: str, target: Mapping[Uuid, Iterable[int]]
) -> GroupRecord:
    return GroupRecord(
        messages.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        messages.ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=tuple(
                [
                    messages.TopicPartition(topic_id=topic_id, partitions=tuple(sorted(indexes)))
                    for topic_id, indexes in target.items()
                ]
            )
        ),
        VERSION,
    )


def current_assignment(group_id: str, member: ConsumerMember) -> GroupRecord:
    return GroupRecord(
        messages.ConsumerGroupCurrentMemberAssignmentKey(
            group_id=group_id, member_id=member.member_id
        ),
        messages.ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            state=member.state,
            assigned_partitions=_with_epochs(member.assigned),
            partitions_pending_revocation=_with_epochs(member.revoking),
        ),
        VERSION,
    )


def _with_epochs(assignment: EpochsOfPartitions) -> tuple[messages.TopicPartitions, ...]:
    return tuple(
        [
            messages.TopicPartitions(
                topic_id=topic_id,
                partitions=tuple(sorted(epochs)),
                assignment_epochs=tuple([epochs[index] for index in sorted(epochs)]),
            )
            for topic_id, epochs in assignment.items()
        ]
    )


def removed_member(group_id: str, member_id: str) -> list[GroupRecord]:
    """The tombstones of a member, in the order that Kafka's replay demands."""
    names = {"group_id": group_id, "member_id": member_id}
    return [
        GroupRecord(messages.ConsumerGroupCurrentMemberAssignmentKey(**names), None),
        GroupRecord(messages.ConsumerGroupTargetAssignmentMemberKey(**names), None),
        GroupRecord(messages.ConsumerGroupMemberMetadataKey(**names), None),
    ]


def resolved_regex(
    group_id: str, regex: str, topics: Sequence[str], version: int, wall_ms: int
) -> GroupRecord:
    """The topics that match an expression, as of an offset of the metadata log."""
    key = messages.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)
    value = messages.ConsumerGroupRegularExpressionValue(
        topics=sorted(topics), version=version, timestamp=wall_ms
    )
    return GroupRecord(key, value, 0)


def removed_regex(group_id: str, regex: str) -> GroupRecord:
    key = messages.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)
    return GroupRecord(key, None)


def removed_partition_metadata(group_id: str) -> GroupRecord:
    """The tombstone of a record that coordinators before Kafka 4.1 wrote."""
    return GroupRecord(messages.ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def removed_group(group: ConsumerGroup) -> list[GroupRecord]:
    """The tombstones of a group, in the order that Kafka's replay demands."""
    group_id = group.group_id
    of_members = [removed_member(group_id, member_id) for member_id in group.members]
    return [
        *[records[0] for records in of_members],
        *[records[1] for records in of_members],
        GroupRecord(messages.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        *[records[2] for records in of_members],
        *[removed_regex(group_id, regex) for regex in group.resolved_regexes],
        removed_partition_metadata(group_id),
        GroupRecord(messages.ConsumerGroupMetadataKey(group_id=group_id), None),
    ]
