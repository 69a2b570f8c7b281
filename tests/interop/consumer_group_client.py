"""Members of a consumer group of one broker, request by request, and responses without topic ids.

The same calls on two brokers give equal results if the brokers decide equally.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kraftlog.client.deadline import Deadline
from kraftlog.types import NULL_UUID
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages import consumer_group_heartbeat as heartbeats
from kraftlog.wire.messages import consumer_protocol, delete_groups, describe_groups, list_groups
from kraftlog.wire.messages import join_group as joins
from kraftlog.wire.messages import leave_group as leaving
from kraftlog.wire.messages import metadata as metadatas
from kraftlog.wire.messages import offset_commit as commits
from kraftlog.wire.messages import offset_fetch as fetches
from kraftlog.wire.messages import sync_group as syncs
from kraftlog.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kraftlog.wire.messages.heartbeat import HeartbeatRequest
from kraftlog.wire.record_frames import decode_consumer_protocol, encode_versioned
from tests.server.sasl_raw import Raw
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kraftlog.types import Uuid
    from kraftlog.wire.schema import Message

#: What a member reports to own: nothing said, what it was given last, or other partitions.
UNSAID, LAST = "unsaid", "last"
Owned = "str | Mapping[str, Sequence[int]]"
REBALANCE_MS = 600_000
MEMBER_ID_REQUIRED = 79


def encoded_assignment(part: Mapping[str, Sequence[int]]) -> bytes:
    """An assignment as a leader of the classic protocol sends it."""
    message = consumer_protocol.ConsumerProtocolAssignment(
        assigned_partitions=[
            consumer_protocol.ConsumerProtocolAssignmentTopicPartition(
                topic=topic, partitions=indexes
            )
            for topic, indexes in part.items()
        ]
    )
    return encode_versioned(message, 3)


def decoded_assignment(raw: bytes) -> dict[str, list[int]]:
    """An assignment by topic, as brokers order topics differently."""
    if not raw:
        return {}
    assignment = decode_consumer_protocol(consumer_protocol.ConsumerProtocolAssignment, raw)
    return {each.topic: sorted(each.partitions) for each in assignment.assigned_partitions}


class GroupClient:
    """The members of one group, on a connection to its broker."""

    def __init__(self, address: str, group_id: str) -> None:
        self._raw = Raw(int(address.rpartition(":")[2]))
        self.group_id = group_id
        self.topic_ids: dict[str, Uuid] = {}
        #: The epoch and the assignment that each member has from its last responses.
        self.epochs: dict[str, int] = {}
        self.assigned: dict[str, dict[str, list[int]]] = {}
        #: The ids that members of the classic protocol got from the broker.
        self.ids: dict[str, str] = {}

    def close(self) -> None:
        self._raw.close()

    def send(self, api_key: int, version: int, request: Message) -> Any:
        return self._raw.call(api_key, version, request)

    def learn_topics(self, *names: str) -> None:
        request = metadatas.MetadataRequest(
            topics=[metadatas.MetadataRequestTopic(name=name, topic_id=NULL_UUID) for name in names]
        )
        response = self.send(ApiKey.METADATA, 12, request)
        for topic in response.topics:
            self.topic_ids[topic.name] = topic.topic_id

    # Heartbeats ----------------------------------------------------------------------------------

    def heartbeat(
        self,
        member: str,
        epoch: int | None = None,
        *,
        topics: Sequence[str] | None = None,
        regex: str | None = None,
        owned: Any = UNSAID,
        instance: str | None = None,
        assignor: str | None = None,
        rack: str | None = None,
        rebalance_ms: int = -1,
        version: int = 1,
    ) -> dict[str, Any]:
        """Send a heartbeat, by default with the member's epoch; return the response."""
        request = heartbeats.ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=member,
            member_epoch=self.epochs.get(member, 0) if epoch is None else epoch,
            instance_id=instance,
            rack_id=rack,
            rebalance_timeout_ms=rebalance_ms,
            subscribed_topic_names=topics,
            subscribed_topic_regex=regex,
            server_assignor=assignor,
            topic_partitions=self._owned(member, owned),
        )
        response = self.send(ApiKey.CONSUMER_GROUP_HEARTBEAT, version, request)
        if not response.error_code:
            self.epochs[member] = response.member_epoch
            if response.assignment is not None:
                self.assigned[member] = self._named(response.assignment.topic_partitions)
        return {
            "code": response.error_code,
            "message": response.error_message,
            "member": response.member_id,
            "epoch": response.member_epoch,
            "interval": response.heartbeat_interval_ms,
            "assignment": None
            if response.assignment is None
            else self._named(response.assignment.topic_partitions),
        }

    def join(self, member: str, topics: Sequence[str], **fields: Any) -> dict[str, Any]:
        """Send the first heartbeat of a member."""
        fields = {"assignor": "range", "rebalance_ms": REBALANCE_MS, "owned": {}, **fields}
        return self.heartbeat(member, 0, topics=topics, **fields)

    def settled(self, member: str, **fields: Any) -> dict[str, Any]:
        """Send heartbeats until the epoch has risen; return the last response."""
        deadline, before = Deadline(LIMIT_S), self.epochs[member]
        while (response := self.heartbeat(member, **fields))["epoch"] == before:
            assert not response["code"], response
            assert not deadline.is_over
            deadline.pause(0.05)
        return response

    def _owned(self, member: str, owned: Any) -> list[heartbeats.TopicPartitions] | None:
        if owned == UNSAID:
            return None
        by_topic = self.assigned.get(member, {}) if owned == LAST else owned
        return [
            heartbeats.TopicPartitions(topic_id=self.topic_ids[name], partitions=indexes)
            for name, indexes in by_topic.items()
        ]

    def _named(self, topics: Sequence[Any]) -> dict[str, list[int]]:
        names = {topic_id: name for name, topic_id in self.topic_ids.items()}
        return {names[each.topic_id]: sorted(each.partitions) for each in topics}

    # Other requests ------------------------------------------------------------------------------

    def commit(
        self, member: str, epoch: int, *partitions: tuple[str, int], version: int = 10
    ) -> list[tuple[int, int]]:
        """Commit offset 7 for each partition; return the error code of each."""
        request = commits.OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=epoch,
            member_id=member,
            topics=[
                commits.OffsetCommitRequestTopic(
                    name=name,
                    topic_id=self.topic_ids[name] if version >= 10 else NULL_UUID,
                    partitions=[
                        commits.OffsetCommitRequestPartition(
                            partition_index=index, committed_offset=7, committed_metadata=""
                        )
                    ],
                )
                for name, index in partitions
            ],
        )
        response = self.send(ApiKey.OFFSET_COMMIT, version, request)
        return [
            (part.partition_index, part.error_code)
            for topic in response.topics
            for part in topic.partitions
        ]

    def fetch(
        self, member: str | None, epoch: int, *, version: int = 9
    ) -> tuple[int, dict[str, dict[int, int]]]:
        """Fetch all offsets; return the error code and the offsets."""
        group = fetches.OffsetFetchRequestGroup(
            group_id=self.group_id, member_id=member, member_epoch=epoch, topics=None
        )
        response = self.send(
            ApiKey.OFFSET_FETCH, version, fetches.OffsetFetchRequest(groups=[group])
        )
        [found] = response.groups
        return found.error_code, {
            topic.name: {
                part.partition_index: part.committed_offset
                for part in sorted(topic.partitions, key=lambda part: part.partition_index)
            }
            for topic in sorted(found.topics, key=lambda topic: topic.name)
        }

    def describe(self) -> dict[str, Any]:
        """The group's description, with members in the order of their ids."""
        request = ConsumerGroupDescribeRequest(
            group_ids=[self.group_id], include_authorized_operations=False
        )
        [group] = self.send(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, request).groups
        members = {
            self._name(member.member_id): {
                **{
                    name: getattr(member, name)
                    for name in (
                        "instance_id",
                        "rack_id",
                        "member_epoch",
                        "client_id",
                        "client_host",
                        "subscribed_topic_regex",
                        "member_type",
                    )
                },
                "topics": sorted(member.subscribed_topic_names),
                "assignment": self._named(member.assignment.topic_partitions),
                "target": self._named(member.target_assignment.topic_partitions),
            }
            for member in sorted(group.members, key=lambda member: self._name(member.member_id))
        }
        return {
            "code": group.error_code,
            "message": group.error_message,
            "state": group.group_state,
            "epoch": group.group_epoch,
            "target epoch": group.assignment_epoch,
            "assignor": group.assignor_name,
            "members": members,
        }

    def describe_as_classic(self, version: int = 6) -> tuple[int, str | None, str]:
        request = describe_groups.DescribeGroupsRequest(groups=[self.group_id])
        [group] = self.send(ApiKey.DESCRIBE_GROUPS, version, request).groups
        return group.error_code, group.error_message, group.group_state

    def listed(self, *, types: Sequence[str] = (), states: Sequence[str] = ()) -> list[Any]:
        """The group in ListGroups, with its protocol type, state and type."""
        request = list_groups.ListGroupsRequest(states_filter=states, types_filter=types)
        response = self.send(ApiKey.LIST_GROUPS, 5, request)
        return [
            (each.protocol_type, each.group_state, each.group_type)
            for each in response.groups
            if each.group_id == self.group_id
        ]

    def delete(self) -> int:
        request = delete_groups.DeleteGroupsRequest(groups_names=[self.group_id])
        [result] = self.send(ApiKey.DELETE_GROUPS, 2, request).results
        code: int = result.error_code
        return code

    def remove(self, *members: tuple[str, str | None]) -> tuple[int, list[int]]:
        """Remove members, by id and instance id, with LeaveGroup."""
        request = leaving.LeaveGroupRequest(
            group_id=self.group_id,
            members=[
                leaving.MemberIdentity(member_id=member_id, group_instance_id=instance)
                for member_id, instance in members
            ],
        )
        response = self.send(ApiKey.LEAVE_GROUP, 5, request)
        return response.error_code, [each.error_code for each in response.members]

    # The classic protocol ------------------------------------------------------------------------

    def _name(self, member_id: str) -> str:
        """The name of a member of the classic protocol, whose ids differ between brokers."""
        return next((name for name, known in self.ids.items() if known == member_id), member_id)

    def classic_join(
        self, name: str, topics: Sequence[str], *, instance: str | None = None
    ) -> tuple[int, int, str | None, bool]:
        """Join, with the member's id if it has one, and as what it was assigned last.

        Returns the error code, the generation, the protocol, and whether there are members.
        """
        owned = [
            consumer_protocol.TopicPartition(topic=topic, partitions=indexes)
            for topic, indexes in self.assigned.get(name, {}).items()
        ]
        subscription = consumer_protocol.ConsumerProtocolSubscription(
            topics=topics, owned_partitions=owned, generation_id=self.epochs.get(name, -1)
        )
        metadata = encode_versioned(subscription, 3)
        request = joins.JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=600_000,
            member_id=self.ids.get(name, ""),
            group_instance_id=instance,
            protocol_type="consumer",
            protocols=[joins.JoinGroupRequestProtocol(name="range", metadata=metadata)],
        )
        response = self.send(ApiKey.JOIN_GROUP, 9, request)
        if response.error_code in {0, MEMBER_ID_REQUIRED}:
            self.ids[name] = response.member_id
        if not response.error_code:
            self.epochs[name] = response.generation_id
        has_members = bool(response.members)
        return response.error_code, response.generation_id, response.protocol_name, has_members

    def classic_sync(
        self,
        name: str,
        assign: Mapping[str, Mapping[str, Sequence[int]]] | None = None,
        *,
        generation: int | None = None,
        instance: str | None = None,
    ) -> tuple[int, dict[str, list[int]] | None]:
        """Sync, as a leader with the assignment of each member; return the member's own."""
        request = syncs.SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.epochs[name] if generation is None else generation,
            member_id=self.ids[name],
            group_instance_id=instance,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[
                syncs.SyncGroupRequestAssignment(
                    member_id=self.ids[each], assignment=encoded_assignment(part)
                )
                for each, part in (assign or {}).items()
            ],
        )
        response = self.send(ApiKey.SYNC_GROUP, 5, request)
        if response.error_code:
            return response.error_code, None
        found = self.assigned[name] = decoded_assignment(response.assignment)
        return response.error_code, found

    def classic_beat(
        self, name: str, *, generation: int | None = None, instance: str | None = None
    ) -> int:
        request = HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.epochs[name] if generation is None else generation,
            member_id=self.ids[name],
            group_instance_id=instance,
        )
        code: int = self.send(ApiKey.HEARTBEAT, 4, request).error_code
        return code

    def classic_leave(self, name: str) -> tuple[int, list[int]]:
        return self.remove((self.ids[name], None))

    def classic_commit(self, name: str, *partitions: tuple[str, int]) -> list[tuple[int, int]]:
        return self.commit(self.ids[name], self.epochs[name], *partitions)

    def described_as_classic(self) -> dict[str, Any]:
        request = describe_groups.DescribeGroupsRequest(groups=[self.group_id])
        [group] = self.send(ApiKey.DESCRIBE_GROUPS, 6, request).groups
        return {
            "code": group.error_code,
            "state": group.group_state,
            "protocol": group.protocol_data,
            "members": {
                self._name(member.member_id): (
                    member.group_instance_id,
                    member.client_id,
                    member.client_host,
                    decoded_assignment(member.member_assignment),
                )
                for member in sorted(group.members, key=lambda each: self._name(each.member_id))
            },
        }

    def join_as_classic(self, member_id: str = "") -> int:
        """The error code of a JoinGroup of the classic protocol."""
        request = joins.JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[joins.JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0")],
        )
        code: int = self.send(ApiKey.JOIN_GROUP, 9, request).error_code
        return code
