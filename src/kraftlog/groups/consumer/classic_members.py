"""Members of a consumer group that speak the classic protocol: JoinGroup, SyncGroup, Heartbeat.

The coordinator assigns, and such a member hears of it in its own words: a heartbeat tells it that a
rebalance is in progress, it joins and says what it has, and gets its assignment with SyncGroup. Its
generation is its member epoch. It never waits for others: the response comes with the next commit.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode, ProtocolError
from kraftlog.groups.consumer import downgrade, sessions
from kraftlog.groups.consumer.decision import Decision
from kraftlog.groups.consumer.embedded_protocol import encoded_assignment, subscription_of
from kraftlog.groups.consumer.refused import RefusedRequestError, unknown_member
from kraftlog.groups.consumer.states import MemberState
from kraftlog.groups.consumer.writes import write
from kraftlog.groups.group import CONSUMER
from kraftlog.groups.member import protocols_of
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.consumer_group_heartbeat import TopicPartitions
from kraftlog.wire.messages.consumer_group_records import ClassicMemberMetadata, ClassicProtocol
from kraftlog.wire.messages.heartbeat import HeartbeatResponse
from kraftlog.wire.messages.join_group import JoinGroupResponse
from kraftlog.wire.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from kraftlog.groups.consumer.group import ConsumerGroup
    from kraftlog.groups.consumer.interfaces import Shard
    from kraftlog.groups.consumer.member import ConsumerMember
    from kraftlog.groups.messages import RequestContext
    from kraftlog.types import Now
    from kraftlog.wire.messages.consumer_protocol import ConsumerProtocolSubscription
    from kraftlog.wire.messages.heartbeat import HeartbeatRequest
    from kraftlog.wire.messages.join_group import JoinGroupRequest
    from kraftlog.wire.messages.sync_group import SyncGroupRequest

#: From this version on, a new member receives its id before it joins.
ID_REQUIRED_SINCE = 4


def join(
    shard: Shard,
    pending: object,
    context: RequestContext,
    group: ConsumerGroup,
    request: JoinGroupRequest,
    now: Now,
) -> None:
    try:
        _join(shard, pending, context, group, request, now)
    except RefusedRequestError as error:
        shard.respond(pending, _not_joined(error.code, request.member_id))


def _not_joined(code: int, member_id: str = "") -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=code, protocol_name=None, leader="", member_id=member_id, members=()
    )


def _join(
    shard: Shard,
    pending: object,
    context: RequestContext,
    group: ConsumerGroup,
    request: JoinGroupRequest,
    now: Now,
) -> None:
    if shard.config.consumer_migration_policy == "disabled":
        raise RefusedRequestError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"Cannot join the consumer group {group.group_id} with the classic protocol because "
            "the group migration is disabled.",
        )
    instance_id = request.group_instance_id
    member_id = request.member_id or shard.new_member_id("").removeprefix("-")
    decision = Decision(shard, group, [], now)
    decision.check_size(request.member_id, instance_id)
    if not _are_supported(group, request):
        what = f"Member {member_id}'s protocols are not supported."
        raise RefusedRequestError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, what)
    is_new = not request.member_id
    if is_new and instance_id is None and context.version >= ID_REQUIRED_SINCE:
        shard.respond(pending, _not_joined(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        return
    if instance_id is None:
        before = decision.joining_member(member_id)
    elif is_new:
        before = decision.joining_static_member(member_id, instance_id, speaks_classic=True)
    else:
        before = _known(group, member_id, instance_id)
    subscription = _subscription(request)
    after = _updated(before, context, request, subscription)
    changed = decision.change_metadata(before, after)
    epoch = decision.group_epoch(before, after, must_rise=decision.needs_epoch)
    static = None if instance_id is None else group.static_member(instance_id)
    downgrades = static is not None and downgrade.is_possible(shard, group, [static], joining=1)
    owned = [
        TopicPartitions(topic_id=topic.id, partitions=each.partitions)
        for each in subscription.owned_partitions
        if (topic := shard.topics.named(each.topic)) is not None
    ]
    if downgrades:
        target_epoch, part = group.target_epoch, decision.last_target(after)
    else:
        target_epoch, part = decision.target(epoch, before, after)
    reconciled = after
    if not downgrades or target_epoch >= epoch:
        reconciled = decision.reconciled(
            after, target_epoch, part, owned, has_subscription_changed=changed
        )
    response = JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=reconciled.epoch,
        protocol_type=CONSUMER,
        protocol_name=_protocol(reconciled),
        leader="",
        member_id=reconciled.member_id,
        members=(),
    )
    if downgrades:
        assert static is not None
        shard.become_classic_group(
            group, [static], reconciled, decision.records, target_epoch < epoch, now,
            pending, response, _not_joined,
        )  # fmt: skip
        return
    write(shard, group, decision.records, pending, response, _not_joined, now)
    decision.accepted(reconciled, has_moved=reconciled != after)
    sessions.await_sync(shard, group, reconciled, now)


def _are_supported(group: ConsumerGroup, request: JoinGroupRequest) -> bool:
    """Whether all classic members support one of the protocols of the request."""
    names = [
        {protocol.name for protocol in member.classic.supported_protocols}
        for member in group.members.values()
        if member.classic is not None
    ]
    return request.protocol_type == CONSUMER and any(
        all(protocol.name in of_member for of_member in names) for protocol in request.protocols
    )


def _subscription(request: JoinGroupRequest) -> ConsumerProtocolSubscription:
    try:
        return subscription_of(request.protocols[0].metadata)
    except ProtocolError as error:
        what = "Malformed embedded consumer protocol in subscription deserialization."
        raise RefusedRequestError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, what) from error


def _updated(
    member: ConsumerMember,
    context: RequestContext,
    request: JoinGroupRequest,
    subscription: ConsumerProtocolSubscription,
) -> ConsumerMember:
    given = request.rebalance_timeout_ms
    return member.replace(
        instance_id=request.group_instance_id or member.instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if given == -1 else given,
        topic_names=frozenset(subscription.topics),
        topic_regex="",
        client_id=context.client_id,
        client_host=context.client_host,
        classic=ClassicMemberMetadata(
            session_timeout_ms=request.session_timeout_ms,
            supported_protocols=tuple(
                [
                    ClassicProtocol(name=name, metadata=metadata)
                    for name, metadata in protocols_of(request)
                ]
            ),
        ),
    )


def _protocol(member: ConsumerMember) -> str:
    """The name of the protocol that the member prefers, which is that of its generation."""
    assert member.classic is not None
    name: str = member.classic.supported_protocols[0].name
    return name


def _known(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    """The member with this id and instance id."""
    if instance_id is None:
        member = group.members.get(member_id)
    else:
        member = group.static_member(instance_id)
        if member is not None and member.member_id != member_id:
            what = f"Static member {member_id} was fenced by member {member.member_id}."
            raise RefusedRequestError(ErrorCode.FENCED_INSTANCE_ID, what)
    if member is None:
        raise unknown_member(member_id, group.group_id)
    return member


def _classic(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> ConsumerMember:
    """The classic member with this id, instance id and generation."""
    member = _known(group, member_id, instance_id)
    if member.classic is None:
        what = f"Member {member_id} does not use the classic protocol."
        raise RefusedRequestError(ErrorCode.UNKNOWN_MEMBER_ID, what)
    if generation != member.epoch:
        what = f"The request generation id {generation} is not {member.epoch}."
        raise RefusedRequestError(ErrorCode.ILLEGAL_GENERATION, what)
    return member


def sync(
    shard: Shard, pending: object, group: ConsumerGroup, request: SyncGroupRequest, now: Now
) -> None:
    """Respond with the member's assignment, once it is committed."""
    try:
        member = _classic(
            group, request.member_id, request.group_instance_id, request.generation_id
        )
        _check_protocol(member, request)
        if group.target_epoch > member.epoch and member.state != MemberState.UNREVOKED_PARTITIONS:
            sessions.await_join(shard, group, member, now)
            raise RefusedRequestError(ErrorCode.REBALANCE_IN_PROGRESS, "There is a new target.")
    except RefusedRequestError as error:
        shard.respond(pending, _no_assignment(error.code))
        return
    assert member.classic is not None
    metadata = member.classic.supported_protocols[0].metadata
    response = SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=encoded_assignment(shard.topics, member.assigned, metadata),
    )
    write(shard, group, [], pending, response, _no_assignment, now)
    sessions.synced(shard, group, member, now)


def _no_assignment(code: int) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=code, assignment=b"")


def _check_protocol(member: ConsumerMember, request: SyncGroupRequest) -> None:
    is_same_type = request.protocol_type in {None, CONSUMER}
    if not is_same_type or request.protocol_name not in {None, _protocol(member)}:
        what = "The protocol is not that of the join response."
        raise RefusedRequestError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, what)


def heartbeat(
    shard: Shard, pending: object, group: ConsumerGroup, request: HeartbeatRequest, now: Now
) -> None:
    """Tell the member to join again if its target or its partitions have changed."""
    try:
        member = _classic(
            group, request.member_id, request.group_instance_id, request.generation_id
        )
    except RefusedRequestError as error:
        shard.respond(pending, HeartbeatResponse(error_code=error.code))
        return
    sessions.restart(shard, group, member.member_id, now)
    code = ErrorCode.NONE
    if (
        member.epoch < group.target_epoch
        or member.state == MemberState.UNREVOKED_PARTITIONS
        or (member.state == MemberState.UNRELEASED_PARTITIONS and not _must_wait(group, member))
    ):
        code = ErrorCode.REBALANCE_IN_PROGRESS
        sessions.await_join(shard, group, member, now)

    def error_response(failed: int) -> HeartbeatResponse:
        return HeartbeatResponse(error_code=failed)

    write(shard, group, [], pending, HeartbeatResponse(error_code=code), error_response, now)


def _must_wait(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether a partition of the member's target still has another owner."""
    return any(
        index not in member.assigned.get(topic_id, ()) and group.is_owned(topic_id, index)
        for topic_id, indexes in group.targets.get(member.member_id, {}).items()
        for index in indexes
    )
