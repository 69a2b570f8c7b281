"""The records of a shard, in the versions that Kafka 4.3 writes."""

from __future__ import annotations

from kraftlog.types import NULL_UUID
from kraftlog.value import TYPE_CHECKING, Value
from kraftlog.wire.messages.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kraftlog.wire.record_frames import OFFSETS_LOG

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kraftlog.groups.group import Group
    from kraftlog.types import Uuid
    from kraftlog.wire.messages.offset_commit import OffsetCommitRequestPartition
    from kraftlog.wire.schema import Message

GROUP_VERSION = 3
OFFSET_VERSION = 4
#: The only version with an expiration time.
EXPIRING_OFFSET_VERSION = 1
#: The largest expiration time, for clients that request more.
LAST_TIMESTAMP = 2**63 - 1


class GroupRecord(Value):
    """A record as messages; a value of None is a tombstone."""

    key: Message
    value: Message | None
    version: int = -1  # of the value; -1 for a tombstone

    def encoded(self) -> tuple[bytes, bytes | None]:
        """Encode and verify a record; raises UnwritableError if it decodes to other values."""
        return OFFSETS_LOG.read_back(self.key, self.value, self.version)


def group_record(group: Group, assignments: Mapping[str, bytes]) -> GroupRecord:
    """The group with its current members; missing assignments are empty."""
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader,
        current_state_timestamp=group.state_since,
        members=tuple(
            [
                MemberMetadata(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.metadata(group.protocol),
                    assignment=assignments.get(member.member_id, b""),
                )
                for member in group.members.values()
            ]
        ),
    )
    return GroupRecord(GroupMetadataKey(group=group.group_id), value, GROUP_VERSION)


def new_group_record(group: Group) -> GroupRecord:
    """A new group without members."""
    value = GroupMetadataValue(
        protocol_type="",
        generation=0,
        protocol=None,
        leader=None,
        current_state_timestamp=group.state_since,
        members=(),
    )
    return GroupRecord(GroupMetadataKey(group=group.group_id), value, GROUP_VERSION)


def group_tombstone(group_id: str) -> GroupRecord:
    return GroupRecord(GroupMetadataKey(group=group_id), None)


def offset_record(
    group_id: str,
    topic: str,
    topic_id: Uuid,
    requested: OffsetCommitRequestPartition,
    wall_ms: int,
    expire_timestamp: int = -1,
) -> GroupRecord:
    """A committed offset; with `expire_timestamp` -1 the broker's retention applies."""
    expires = expire_timestamp != -1
    expire_timestamp = min(expire_timestamp, LAST_TIMESTAMP)
    value = OffsetCommitValue(
        offset=requested.committed_offset,
        # The version with an expiration time has neither leader epoch nor topic id.
        leader_epoch=-1 if expires else requested.committed_leader_epoch,
        metadata=requested.committed_metadata or "",
        commit_timestamp=wall_ms,
        expire_timestamp=expire_timestamp,
        topic_id=NULL_UUID if expires else topic_id,
    )
    key = OffsetCommitKey(group=group_id, topic=topic, partition=requested.partition_index)
    return GroupRecord(key, value, EXPIRING_OFFSET_VERSION if expires else OFFSET_VERSION)


def offset_tombstone(group_id: str, topic: str, partition: int) -> GroupRecord:
    return GroupRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)
