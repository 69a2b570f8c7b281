"""What Kafka checks of a ConsumerGroupHeartbeat before it decides."""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.groups.consumer.refused import RefusedRequestError
from kraftlog.groups.consumer.states import JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.groups.consumer.member import ConsumerMember, EpochsOfPartitions
    from kraftlog.wire.messages.consumer_group_heartbeat import (
        ConsumerGroupHeartbeatRequest,
        TopicPartitions,
    )

#: From this version on, the client makes the member id.
ID_BY_CLIENT_SINCE = 1


def check(request: ConsumerGroupHeartbeatRequest, version: int, assignors: Sequence[str]) -> None:
    """Refuse a request that is wrong in itself."""
    epoch = request.member_epoch
    needs_id = version >= ID_BY_CLIENT_SINCE or epoch > 0 or epoch == LEAVE_EPOCH
    named = {
        "MemberId": request.member_id if needs_id else None,
        "GroupId": request.group_id,
        "InstanceId": request.instance_id,
        "RackId": request.rack_id,
    }
    for what, text in named.items():
        # Java's trim removes all characters up to the space.
        if text is not None and not text.strip(_TRIMMED):
            raise _invalid(f"{what} can't be empty.")
    if epoch == JOIN_EPOCH:
        _check_join(request)
    elif epoch == LEAVE_STATIC_EPOCH and request.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif epoch < LEAVE_STATIC_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise RefusedRequestError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: "
            f"{', '.join(assignors)}.",
        )


_TRIMMED = "".join(map(chr, range(33)))


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or len(request.topic_partitions):
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid(
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
            "(re-)joining."
        )


def check_epoch(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest) -> None:
    """Fence a member with another epoch than the group has for it.

    The epoch before is accepted from a member that has missed the response with its new one, as
    long as it has no partition that it should have given up.
    """
    epoch = request.member_epoch
    if epoch in {JOIN_EPOCH, member.epoch}:
        return
    if (
        epoch < member.epoch
        and epoch == member.previous_epoch
        and _has_no_others(request.topic_partitions, member.assigned)
    ):
        return
    relation = "greater" if epoch > member.epoch else "smaller"
    raise RefusedRequestError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {relation} member epoch ({epoch}) than the one known by "
        f"the group coordinator ({member.epoch}). The member must abandon all its partitions and "
        "rejoin.",
    )


def _has_no_others(owned: Sequence[TopicPartitions] | None, assigned: EpochsOfPartitions) -> bool:
    """Whether the member reports what it has, and all of that is assigned to it."""
    return owned is not None and all(
        topic.topic_id in assigned and assigned[topic.topic_id].keys() >= set(topic.partitions)
        for topic in owned
    )


def check_instance(
    member: ConsumerMember | None, request: ConsumerGroupHeartbeatRequest
) -> ConsumerMember:
    """The static member with the request's instance id, if it has the request's member id too."""
    instance_id = request.instance_id
    if member is None:
        raise RefusedRequestError(
            ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown."
        )
    if member.member_id != request.member_id:
        raise RefusedRequestError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {request.member_id} with instance id {instance_id} was fenced by "
            f"member {member.member_id}.",
        )
    return member


def _invalid(message: str) -> RefusedRequestError:
    return RefusedRequestError(ErrorCode.INVALID_REQUEST, message)
