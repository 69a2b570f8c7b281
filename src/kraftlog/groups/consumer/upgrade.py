"""A classic group becomes a consumer group, with its members, when one joins that speaks the other
protocol.

The classic members stay, in an epoch that is their generation, and learn with their next heartbeat
that they have to join again; see `classic_members`.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode, ProtocolError
from kraftlog.groups.consumer import records
from kraftlog.groups.consumer.embedded_protocol import assignment_of, subscription_of
from kraftlog.groups.consumer.group import ConsumerGroup
from kraftlog.groups.consumer.member import ConsumerMember
from kraftlog.groups.consumer.refused import RefusedRequestError
from kraftlog.groups.group import CONSUMER
from kraftlog.groups.records import group_tombstone
from kraftlog.groups.states import GroupState
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.consumer_group_records import ClassicMemberMetadata, ClassicProtocol

if TYPE_CHECKING:
    from kraftlog.groups.consumer.group import Target
    from kraftlog.groups.consumer.interfaces import Shard
    from kraftlog.groups.group import Group
    from kraftlog.groups.member import Member
    from kraftlog.groups.records import GroupRecord

UPGRADING = ("upgrade", "bidirectional")


def upgraded(shard: Shard, classic: Group) -> tuple[ConsumerGroup, list[GroupRecord]]:
    """The consumer group in the place of a classic one, and the records that make it.

    Nothing is changed: the classic group is retired once the decision is accepted.
    """
    group_id = classic.group_id
    if classic.state == GroupState.DEAD:
        what = f"Group {group_id} is being deleted."
        raise RefusedRequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, what)
    first_records = [group_tombstone(group_id)]
    group = ConsumerGroup(group_id)
    if not classic.members:
        return group, first_records
    obstacle = _obstacle(shard, classic)
    if obstacle:
        raise _refused(group_id, f"because {obstacle}.")
    try:
        members = [_member_of(shard, classic, member) for member in classic.members.values()]
    except ProtocolError as error:
        raise _refused(group_id, "because the embedded consumer protocol is malformed.") from error
    names = {name for member, _ in members for name in member.topic_names}
    metadata_hash = shard.topics.hash_of(names)
    generation = classic.generation
    new_records = [
        *[records.member_metadata(group_id, member) for member, _ in members],
        records.group_epoch(group_id, generation, metadata_hash),
        *[records.target_of_member(group_id, each.member_id, part) for each, part in members],
        records.target_epoch(group_id, generation, 0),
        *[records.current_assignment(group_id, member) for member, _ in members],
    ]
    for record in new_records:
        group.apply(record.key, record.value)
    return group, first_records + new_records


def _obstacle(shard: Shard, classic: Group) -> str:
    if shard.config.consumer_migration_policy not in UPGRADING:
        return "online upgrade is disabled"
    if classic.protocol_type != CONSUMER:
        return "the group does not use the consumer embedded protocol"
    if len(classic.members) > shard.config.consumer_max_size:
        return "the group size exceeds the consumer group maximum size"
    return ""


def _refused(group_id: str, why: str) -> RefusedRequestError:
    what = f"Cannot upgrade classic group {group_id} to consumer group {why}"
    return RefusedRequestError(ErrorCode.GROUP_ID_NOT_FOUND, what)


def _member_of(shard: Shard, classic: Group, member: Member) -> tuple[ConsumerMember, Target]:
    """A member of the consumer group, and its target: what it has."""
    protocol = classic.protocol if classic.protocol is not None else member.protocols[0][0]
    subscription = subscription_of(member.metadata(protocol))
    part, user_data = assignment_of(shard.topics, member.assignment)
    if user_data:
        raise _refused(
            classic.group_id,
            "because an unsupported custom assignor is in use. Please refer to the documentation "
            "or switch to a default assignor before re-attempting the upgrade.",
        )
    generation = classic.generation
    return ConsumerMember(
        member.member_id,
        {topic_id: dict.fromkeys(indexes, generation) for topic_id, indexes in part.items()},
        {},
        epoch=generation,
        previous_epoch=generation,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id or None,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topic_names=frozenset(subscription.topics),
        classic=ClassicMemberMetadata(
            session_timeout_ms=member.session_timeout_ms,
            supported_protocols=tuple(
                [ClassicProtocol(name=name, metadata=data) for name, data in member.protocols]
            ),
        ),
    ), part
