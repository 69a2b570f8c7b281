"""Lists, describes and deletes consumer groups; fetches, commits and deletes their offsets."""

from __future__ import annotations

from kraftlog.client.group_membership import PROTOCOL_TYPE, read_assignment
from kraftlog.client.model import Broker
from kraftlog.errors import ErrorCode
from kraftlog.value import TYPE_CHECKING, Value
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages import (
    delete_groups,
    describe_groups,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kraftlog.client.cluster import Cluster, ErrorContext
    from kraftlog.client.model import PartitionName

NO_GENERATION = -1


class ListedGroup(Value):
    id: str
    #: "" for a group that only commits offsets.
    protocol_type: str
    state: str
    #: "classic" or "consumer"; "" if the broker is too old to report it.
    type: str


class GroupMember(Value):
    id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[PartitionName, ...]
    #: The member epoch; -1 in a classic group.
    epoch: int = -1


class Group(Value):
    id: str
    state: str
    type: str
    assignor: str
    coordinator: Broker
    members: tuple[GroupMember, ...]
    #: The group epoch; -1 in a classic group.
    epoch: int = -1


class GroupOffset(Value):
    offset: int
    leader_epoch: int = -1
    metadata: str = ""


def list_all(cluster: Cluster) -> list[ListedGroup]:
    """The groups of all brokers, by name."""
    deadline = cluster.deadline()
    cluster.retry(lambda: cluster.refresh((), deadline), deadline)
    groups = []
    for broker in sorted(cluster.brokers):
        result = cluster.call(
            list_groups.ListGroupsRequest(),
            list_groups.ListGroupsResponse,
            broker=broker,
            check=lambda response, context: context.check(response.error_code),
        )
        groups += [
            ListedGroup(each.group_id, each.protocol_type, each.group_state, each.group_type)
            for each in result.groups
        ]
    return sorted(groups, key=lambda group: group.id)


def describe(cluster: Cluster, name: str) -> Group:
    """A group of either protocol with its members; an unknown one raises RefusedError."""

    def check(response: describe_groups.DescribeGroupsResponse, context: ErrorContext) -> None:
        for group in response.groups:
            if group.error_code != ErrorCode.GROUP_ID_NOT_FOUND:
                context.check(group.error_code, f"group {name}", group.error_message)

    result = cluster.call_coordinator(
        name,
        describe_groups.DescribeGroupsRequest(groups=[name]),
        describe_groups.DescribeGroupsResponse,
        check=check,
    ).groups[0]
    deadline = cluster.deadline()
    coordinator = cluster.coordinator(name, deadline)
    connection = cluster.connection(coordinator, deadline)
    is_missing = result.error_code == ErrorCode.GROUP_ID_NOT_FOUND or result.group_state == "Dead"
    if is_missing and ApiKey.CONSUMER_GROUP_DESCRIBE in connection.served:
        return _describe_consumer_group(cluster, name)
    context = cluster.error_context("DescribeGroups", coordinator)
    if is_missing:
        context.check(ErrorCode.GROUP_ID_NOT_FOUND, f"group {name}", result.error_message)
    members = [
        GroupMember(
            each.member_id,
            each.group_instance_id,
            each.client_id,
            each.client_host,
            tuple(read_assignment(each.member_assignment))
            if result.protocol_type == PROTOCOL_TYPE
            else (),
        )
        for each in result.members
    ]
    return Group(
        name,
        result.group_state,
        "classic",
        result.protocol_data,
        cluster.brokers[coordinator],
        tuple(members),
    )


def _describe_consumer_group(cluster: Cluster, name: str) -> Group:
    from kraftlog.wire.messages.consumer_group_describe import (
        ConsumerGroupDescribeRequest,
        ConsumerGroupDescribeResponse,
    )

    def check(response: ConsumerGroupDescribeResponse, context: ErrorContext) -> None:
        for group in response.groups:
            context.check(group.error_code, f"group {name}", group.error_message)

    result = cluster.call_coordinator(
        name,
        ConsumerGroupDescribeRequest(group_ids=[name], include_authorized_operations=False),
        ConsumerGroupDescribeResponse,
        check=check,
    ).groups[0]
    members = [
        GroupMember(
            each.member_id,
            each.instance_id,
            each.client_id,
            each.client_host,
            tuple(
                (topic.topic_name, index)
                for topic in each.assignment.topic_partitions
                for index in topic.partitions
            ),
            each.member_epoch,
        )
        for each in result.members
    ]
    coordinator = cluster.brokers[cluster.coordinator(name, cluster.deadline())]
    return Group(
        name,
        result.group_state,
        "consumer",
        result.assignor_name,
        coordinator,
        tuple(members),
        result.group_epoch,
    )


def delete(cluster: Cluster, name: str) -> None:
    def check(response: delete_groups.DeleteGroupsResponse, context: ErrorContext) -> None:
        for result in response.results:
            context.check(result.error_code, f"group {name}", result.error_message)

    cluster.call_coordinator(
        name,
        delete_groups.DeleteGroupsRequest(groups_names=[name]),
        delete_groups.DeleteGroupsResponse,
        check=check,
    )


def committed(
    cluster: Cluster, name: str, partitions: Iterable[PartitionName] | None = None
) -> dict[PartitionName, GroupOffset]:
    """The committed offsets of a group, for these partitions or for all that have one."""
    topics = None
    if partitions is not None:
        topics = [
            offset_fetch.OffsetFetchRequestTopic(name=topic, partition_indexes=tuple(indexes))
            for topic, indexes in by_topic(partitions).items()
        ]

    def check(response: offset_fetch.OffsetFetchResponse, context: ErrorContext) -> None:
        context.check(response.error_code, f"group {name}")
        for topic in response.topics:
            for partition in topic.partitions:
                context.check(partition.error_code, f"group {name}, {topic.name}")

    result = cluster.call_coordinator(
        name,
        offset_fetch.OffsetFetchRequest(group_id=name, topics=topics),
        offset_fetch.OffsetFetchResponse,
        check=check,
    )
    return {
        (topic.name, each.partition_index): GroupOffset(
            each.committed_offset, each.committed_leader_epoch, each.metadata or ""
        )
        for topic in sorted(result.topics, key=lambda topic: topic.name)
        for each in sorted(topic.partitions, key=lambda part: part.partition_index)
        if each.committed_offset >= 0
    }


def commit(
    cluster: Cluster,
    name: str,
    offsets: Mapping[PartitionName, int],
    *,
    member_id: str = "",
    generation: int = NO_GENERATION,
    metadata: Mapping[PartitionName, str] | None = None,
) -> None:
    """Commit for a member, or, as an administrator, for a group without members.

    `metadata` is text that the group keeps with an offset.
    """
    if not offsets:
        return
    request = offset_commit.OffsetCommitRequest(
        group_id=name,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[
            offset_commit.OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    offset_commit.OffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=offsets[topic, index],
                        committed_metadata=(metadata or {}).get((topic, index), ""),
                    )
                    for index in indexes
                ],
            )
            for topic, indexes in by_topic(offsets).items()
        ],
    )

    def check(response: offset_commit.OffsetCommitResponse, context: ErrorContext) -> None:
        for topic in response.topics:
            for partition in topic.partitions:
                subject = f"group {name}, {topic.name}-{partition.partition_index}"
                context.check(partition.error_code, subject)

    cluster.call_coordinator(name, request, offset_commit.OffsetCommitResponse, check=check)


def delete_offsets(
    cluster: Cluster, name: str, partitions: Sequence[PartitionName]
) -> dict[PartitionName, int]:
    """Delete committed offsets; return the error code of each, 0 for success."""
    request = offset_delete.OffsetDeleteRequest(
        group_id=name,
        topics=[
            offset_delete.OffsetDeleteRequestTopic(
                name=topic,
                partitions=[
                    offset_delete.OffsetDeleteRequestPartition(partition_index=index)
                    for index in indexes
                ],
            )
            for topic, indexes in by_topic(partitions).items()
        ],
    )

    def check(response: offset_delete.OffsetDeleteResponse, context: ErrorContext) -> None:
        context.check(response.error_code, f"group {name}")

    result = cluster.call_coordinator(
        name, request, offset_delete.OffsetDeleteResponse, check=check
    )
    return {
        (topic.name, each.partition_index): each.error_code
        for topic in result.topics
        for each in topic.partitions
    }


def by_topic(partitions: Iterable[PartitionName]) -> dict[str, list[int]]:
    """Group partitions by topic: topic to indexes."""
    indexes: dict[str, list[int]] = {}
    for topic, index in partitions:
        indexes.setdefault(topic, []).append(index)
    return indexes
