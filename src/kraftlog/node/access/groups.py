"""Requests about groups, their offsets and their coordinators."""

from __future__ import annotations

from kraftlog.authorization.acls import CLUSTER_NAME, Operation, ResourceType
from kraftlog.errors import ErrorCode
from kraftlog.types import NULL_UUID
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.node.access.asked import Asked

    Check = Callable[[Asked], bool]

DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
#: Types of keys of FindCoordinator.
GROUP_KEY, TRANSACTION_KEY = 0, 1
#: The first version of FindCoordinator with several keys, and of OffsetFetch with several groups.
SEVERAL_KEYS_SINCE, SEVERAL_GROUPS_SINCE = 4, 8
#: The first versions of OffsetFetch with an error code for the group, and with topic ids.
GROUP_ERROR_SINCE = 2


def member(asked: Asked) -> bool:
    """Members of a group read with it."""
    if asked.allows_on_group(Operation.READ, asked.request.group_id):
        return True
    return asked.refuse(DENIED)


def consumer_member(asked: Asked) -> bool:
    """Members of a group read with it, and may know of all topics that they name."""
    request = asked.request
    if not asked.allows_on_group(Operation.READ, request.group_id):
        return asked.refuse(DENIED)
    for name in dict.fromkeys(request.subscribed_topic_names or ()):
        if not asked.allows_on_topic(Operation.DESCRIBE, name):
            return asked.refuse(TOPIC_DENIED)
    return True


def offset_commit(asked: Asked) -> bool:
    from kraftlog.wire.messages import offset_commit as api

    request = asked.request
    is_member = asked.allows_on_group(Operation.READ, request.group_id)
    code = TOPIC_DENIED if is_member else DENIED
    if not is_member and not request.topics:
        asked.respond(topics=())
        return False

    def is_allowed(topic: Any) -> bool:
        name = asked.topic_name(topic.name, topic.topic_id)
        return is_member and (name is None or asked.allows_on_topic(Operation.READ, name))

    def refused(topic: Any) -> Any:
        results = [
            api.OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
            for each in topic.partitions
        ]
        return api.OffsetCommitResponseTopic(
            name=topic.name, topic_id=topic.topic_id, partitions=results
        )

    return asked.split("topics", is_allowed, "topics", refused)


def offset_delete(asked: Asked) -> bool:
    from kraftlog.wire.messages import offset_delete as api

    request = asked.request
    if not asked.allows_on_group(Operation.DELETE, request.group_id):
        asked.respond(error_code=DENIED, topics=())
        return False

    def refused(topic: Any) -> Any:
        results = [
            api.OffsetDeleteResponsePartition(
                partition_index=each.partition_index, error_code=TOPIC_DENIED
            )
            for each in topic.partitions
        ]
        return api.OffsetDeleteResponseTopic(name=topic.name, partitions=results)

    return asked.split(
        "topics",
        lambda topic: asked.allows_on_topic(Operation.READ, topic.name),
        "topics",
        refused,
        error_code=ErrorCode.NONE,
    )


def find_coordinator(asked: Asked) -> bool:
    from kraftlog.wire.messages.find_coordinator import Coordinator

    request = asked.request
    kinds = {
        GROUP_KEY: (ResourceType.GROUP, DENIED),
        TRANSACTION_KEY: (
            ResourceType.TRANSACTIONAL_ID,
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
    }
    if request.key_type not in kinds:
        return True  # the handler refuses it
    resource, code = kinds[request.key_type]
    if asked.pending.version < SEVERAL_KEYS_SINCE:
        if asked.allows(Operation.DESCRIBE, resource, request.key):
            return True
        asked.respond(error_code=code, node_id=-1, host="", port=-1)
        return False
    if not request.coordinator_keys:
        asked.respond(coordinators=())
        return False
    return asked.split(
        "coordinator_keys",
        lambda key: asked.allows(Operation.DESCRIBE, resource, key),
        "coordinators",
        lambda key: Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code),
    )


def list_groups(asked: Asked) -> bool:
    """Whoever may not describe the cluster sees only groups that it may describe."""
    if not asked.may(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):

        def leave_out(response: Any) -> None:
            response.groups = [
                group
                for group in response.groups
                if asked.may(Operation.DESCRIBE, ResourceType.GROUP, group.group_id)
            ]

        asked.then(leave_out)
    return True


def describe_groups(asked: Asked) -> bool:
    from kraftlog.wire.messages.describe_groups import DescribedGroup

    def refused(group_id: str) -> DescribedGroup:
        return DescribedGroup(
            error_code=DENIED,
            group_id=group_id,
            group_state="",
            protocol_type="",
            protocol_data="",
            members=(),
        )

    if asked.request.include_authorized_operations:
        asked.then(lambda response: _set_operations(asked, response))
    return asked.split(
        "groups",
        lambda group_id: asked.allows_on_group(Operation.DESCRIBE, group_id),
        "groups",
        refused,
    )


def describe_consumer_groups(asked: Asked) -> bool:
    """A group with topics that the client may not describe is refused as a whole."""
    from kraftlog.groups.consumer.describe import error_result

    includes_operations = asked.request.include_authorized_operations

    def complete(response: Any) -> None:
        response.groups = [
            each if _may_describe_topics(asked, each) else refused_for_topics(each.group_id)
            for each in response.groups
        ]
        if includes_operations:
            _set_operations(asked, response)

    def refused_for_topics(group_id: str) -> Any:
        what = "The group has described topic(s) that the client is not authorized to describe."
        return error_result(group_id, TOPIC_DENIED, what)

    asked.then(complete)
    return asked.split(
        "group_ids",
        lambda group_id: asked.allows_on_group(Operation.DESCRIBE, group_id),
        "groups",
        lambda group_id: error_result(group_id, DENIED),
    )


def _may_describe_topics(asked: Asked, group: Any) -> bool:
    names = {
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    }
    return all(asked.may(Operation.DESCRIBE, ResourceType.TOPIC, name) for name in names)


def _set_operations(asked: Asked, response: Any) -> None:
    for group in response.groups:
        if not group.error_code:
            group.authorized_operations = asked.operations(ResourceType.GROUP, group.group_id)


def delete_groups(asked: Asked) -> bool:
    from kraftlog.wire.messages.delete_groups import DeletableGroupResult

    return asked.split(
        "groups_names",
        lambda group_id: asked.allows_on_group(Operation.DELETE, group_id),
        "results",
        lambda group_id: DeletableGroupResult(group_id=group_id, error_code=DENIED),
    )


def offset_fetch(asked: Asked) -> bool:
    from kraftlog.wire.messages import offset_fetch as api

    request = asked.request
    if asked.pending.version >= SEVERAL_GROUPS_SINCE:

        def refused_group(group: Any) -> Any:
            return api.OffsetFetchResponseGroup(
                group_id=group.group_id, topics=(), error_code=DENIED
            )

        may_go_on = asked.split(
            "groups",
            lambda group: asked.allows_on_group(Operation.DESCRIBE, group.group_id),
            "groups",
            refused_group,
        )
        for group in request.groups if may_go_on else ():
            _split_topics(asked, group, group.group_id)
        return may_go_on
    if not asked.allows_on_group(Operation.DESCRIBE, request.group_id):
        if asked.pending.version >= GROUP_ERROR_SINCE:
            asked.respond(topics=(), error_code=DENIED)
        else:
            asked.respond(
                topics=[_refused_topic(api, topic, DENIED, old=True) for topic in request.topics]
            )
        return False
    _split_topics(asked, request, None)
    return True


def _split_topics(asked: Asked, group: Any, group_id: str | None) -> None:
    """Take topics that may not be described out of a group's request, and add their results.

    `group_id` is None in the versions with a single group. If all topics are requested, those that
    may not be described are left out.
    """
    from kraftlog.wire.messages import offset_fetch as api

    def name_of(topic: Any) -> str | None:
        return asked.topic_name(topic.name, getattr(topic, "topic_id", NULL_UUID))

    def is_allowed(topic: Any) -> bool:
        name = name_of(topic)
        return name is None or asked.may(Operation.DESCRIBE, ResourceType.TOPIC, name)

    def results_of(response: Any) -> list[Any]:
        if group_id is None:
            return [response]
        return [each for each in response.groups if each.group_id == group_id]

    if group.topics is None:

        def leave_out(response: Any) -> None:
            for each in results_of(response):
                each.topics = [topic for topic in each.topics if is_allowed(topic)]

        asked.then(leave_out)
        return
    kept, denied = [], []
    for topic in group.topics:
        if is_allowed(topic):
            kept.append(topic)
        else:
            denied.append(topic)
            asked.denied(Operation.DESCRIBE, ResourceType.TOPIC, name_of(topic) or "")
    if not denied:
        return
    group.topics = kept
    more = [_refused_topic(api, each, TOPIC_DENIED, old=group_id is None) for each in denied]

    def add(response: Any) -> None:
        for each in results_of(response)[:1]:
            if not each.error_code:
                each.topics = [*each.topics, *more]

    asked.then(add)


def _refused_topic(api: Any, topic: Any, code: int, *, old: bool) -> Any:
    """The result of a topic, in the versions with a single group or with several."""
    if old:
        topic_type, partition_type = api.OffsetFetchResponseTopic, api.OffsetFetchResponsePartition
        named = {"name": topic.name}
    else:
        topic_type = api.OffsetFetchResponseTopics
        partition_type = api.OffsetFetchResponsePartitions
        named = {"name": topic.name, "topic_id": topic.topic_id}
    partitions = [
        partition_type(partition_index=each, committed_offset=-1, metadata="", error_code=code)
        for each in topic.partition_indexes
    ]
    return topic_type(partitions=partitions, **named)


def init_producer_id(asked: Asked) -> bool:
    """Idempotent producers need a topic to write to, or IDEMPOTENT_WRITE."""
    transactional_id = asked.request.transactional_id
    if transactional_id is not None:
        if asked.allows(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
            return True
        return _no_producer(asked, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    may_write = asked.authorizer.allows_any(
        asked.principal, asked.host, Operation.WRITE, ResourceType.TOPIC
    )
    if may_write or asked.allows_on_cluster(Operation.IDEMPOTENT_WRITE):
        return True
    return _no_producer(asked, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def _no_producer(asked: Asked, code: int) -> bool:
    asked.respond(error_code=code, producer_id=-1, producer_epoch=-1)
    return False
