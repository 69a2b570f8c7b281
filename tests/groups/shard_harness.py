"""One shard of a group coordinator, with its log and a clock that tests set.

Batches wait in `pending_writes` until a test commits or fails them; with `commits_at_once` they are
committed at once. `responses` has each response by the number that the request's method returned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kraftlog.errors import ErrorCode
from kraftlog.groups.config import GroupConfig
from kraftlog.groups.consumer.cluster_metadata import ClusterMetadata
from kraftlog.groups.messages import (
    GroupResponse,
    RequestContext,
    WriteFailed,
    WriteRecords,
    Written,
)
from kraftlog.groups.shard import GroupShard
from kraftlog.metadata.image import Image
from kraftlog.types import NULL_UUID, Now
from kraftlog.wire.codec import encode
from kraftlog.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from kraftlog.wire.messages.heartbeat import HeartbeatRequest
from kraftlog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kraftlog.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kraftlog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kraftlog.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kraftlog.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kraftlog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kraftlog.types import Uuid

OK = ErrorCode.NONE
WALL_MS = 1_700_000_000_000  # the wall clock when the monotonic clock is at 0
SESSION_MS = 10_000
REBALANCE_MS = 20_000


def subscription(*topics: str) -> bytes:
    """The subscription of a consumer, in version 0."""
    return b"\x00\x00" + encode(ConsumerProtocolSubscription(topics=topics), 0)


#: The protocols of a consumer that subscribes to topic t.
RANGE = (("range", subscription("t")),)
#: The versions of requests that current clients send.
LATEST: dict[str, int] = {"join": 9, "leave": 5, "commit": 9, "describe": 6}


class ShardHarness:
    """A shard, its log and its clock; a request's method returns its number or its response."""

    def __init__(self, *, commits_at_once: bool = True, **config: Any) -> None:
        self.config = GroupConfig(**config)
        #: The topics of the cluster, as consumer groups see them.
        self.image = Image()
        self.metadata_offset = 0
        self.topics = ClusterMetadata(lambda: self.image, lambda: self.metadata_offset)
        self.ids = 0
        self.commits_at_once = commits_at_once
        self.ms = 0
        self.log: list[tuple[int, bytes, bytes | None]] = []
        self.pending_writes: list[WriteRecords] = []
        self.responses: dict[int, Any] = {}
        self.requests = 0
        self.shard = self.new_shard()
        self.shard.finish_loading(self.now)

    def new_shard(self) -> GroupShard:
        return GroupShard(self.config, self.new_id, self.topics)

    def new_id(self, prefix: str) -> str:
        self.ids += 1
        return f"{prefix}-{self.ids}"

    @property
    def now(self) -> Now:
        return Now(self.ms, WALL_MS + self.ms)

    # In place of the host ------------------------------------------------------------------------

    def settle(self) -> None:
        """Carry out effects until there are none: keep responses and pending writes."""
        while effects := self.shard.take_effects():
            for effect in effects:
                if isinstance(effect, GroupResponse):
                    assert effect.pending not in self.responses, "a second response"
                    self.responses[effect.pending] = effect.response
                else:
                    self.pending_writes.append(effect)
            if self.commits_at_once:
                self.commit()

    def commit(self, count: int = 1_000_000) -> None:
        """Append the oldest pending batches to the log, and report them as replicated."""
        done, self.pending_writes = self.pending_writes[:count], self.pending_writes[count:]
        for write in done:
            base = len(self.log)
            self.log += [(base + i, key, value) for i, (key, value) in enumerate(write.records)]
            self.shard.handle(Written(write.token, base), self.now)
        if done:
            self.settle()

    def fail(self, error: int = ErrorCode.KAFKA_STORAGE_ERROR, count: int = 1_000_000) -> None:
        """Report the oldest pending batches as failed."""
        done, self.pending_writes = self.pending_writes[:count], self.pending_writes[count:]
        for write in done:
            self.shard.handle(WriteFailed(write.token, error), self.now)
        self.settle()

    def poll(self) -> None:
        self.shard.poll(self.now)
        self.settle()

    def advance(self, ms: int) -> None:
        """Let time pass, and poll at each deadline."""
        end = self.ms + ms
        while (due := self.shard.deadline()) is not None and due <= end:
            self.ms = max(due, self.ms)
            self.poll()
        self.ms = end

    def reloaded(self) -> GroupShard:
        """Another shard, loaded from the log."""
        shard = self.new_shard()
        shard.replay_batch(self.log)
        shard.finish_loading(self.now)
        return shard

    def move(self) -> None:
        """Unload the shard, and replace it with another that is loaded from the log."""
        self.shard.unload(self.now)
        self.settle()
        self.pending_writes.clear()
        self.shard = self.reloaded()
        self.settle()

    # Requests ------------------------------------------------------------------------------------

    def _next_number(self) -> int:
        self.requests += 1
        return self.requests

    def outcome(self, pending: int) -> Any:
        """The response, which must have been sent."""
        assert pending in self.responses, "no response yet"
        return self.responses[pending]

    def join(
        self,
        member_id: str = "",
        *,
        group: str = "g",
        version: int = LATEST["join"],
        instance: str | None = None,
        protocols: Sequence[tuple[str, bytes]] = RANGE,
        protocol_type: str = "consumer",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        client: str = "c",
    ) -> int:
        pending = self._next_number()
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms if version else -1,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=n, metadata=m) for n, m in protocols],
        )
        self.shard.join_group(
            pending, RequestContext(version, client, "/127.0.0.1"), request, self.now
        )
        self.settle()
        return pending

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: Mapping[str, bytes] | None = None,
        *,
        group: str = "g",
        instance: str | None = None,
        protocol: str | None = None,
        protocol_type: str | None = None,
    ) -> int:
        pending = self._next_number()
        request = SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol,
            assignments=[
                SyncGroupRequestAssignment(member_id=name, assignment=assignment)
                for name, assignment in (assignments or {}).items()
            ],
        )
        self.shard.sync_group(pending, request, self.now)
        self.settle()
        return pending

    def heartbeat(
        self, member_id: str, generation: int, *, group: str = "g", instance: str | None = None
    ) -> int:
        """Send a heartbeat; return the error code."""
        pending = self._next_number()
        request = HeartbeatRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
        )
        self.shard.heartbeat(pending, request, self.now)
        self.settle()
        code: int = self.outcome(pending).error_code
        return code

    def leave(
        self,
        *members: str | tuple[str, str],
        group: str = "g",
        version: int = LATEST["leave"],
    ) -> Any:
        """Send LeaveGroup for members, by id or by (id, instance id); return the response."""
        pending = self._next_number()
        named = [(each, None) if isinstance(each, str) else each for each in members]
        request = LeaveGroupRequest(
            group_id=group,
            member_id=named[0][0] if version < 3 else "",
            members=[
                MemberIdentity(member_id=member_id, group_instance_id=instance)
                for member_id, instance in named
            ],
        )
        self.shard.leave_group(pending, RequestContext(version), request, self.now)
        self.settle()
        return self.outcome(pending)

    def commit_offsets(
        self,
        offsets: Mapping[tuple[str, int], int],
        member_id: str = "",
        generation: int = -1,
        *,
        group: str = "g",
        version: int = LATEST["commit"],
        instance: str | None = None,
        metadata: str | None = None,
        topic_id: Uuid = NULL_UUID,
        retention_ms: int = -1,
        epoch: int = -1,
    ) -> int:
        pending = self._next_number()
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance,
            retention_time_ms=retention_ms,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    topic_id=topic_id,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=index,
                            committed_offset=offset,
                            committed_leader_epoch=epoch,
                            committed_metadata=metadata,
                        )
                    ],
                )
                for (topic, index), offset in offsets.items()
            ],
        )
        self.shard.offset_commit(pending, RequestContext(version, "c"), request, self.now)
        self.settle()
        return pending

    def fetch(
        self,
        *partitions: tuple[str, int],
        group: str = "g",
        stable: bool = False,
        topic_id: Uuid = NULL_UUID,
    ) -> int:
        """Send OffsetFetch for these partitions, or for all; return its number."""
        pending = self._next_number()
        topics = [
            OffsetFetchRequestTopics(name=topic, topic_id=topic_id, partition_indexes=(index,))
            for topic, index in partitions
        ]
        request = OffsetFetchRequestGroup(group_id=group, topics=topics or None)
        self.shard.offset_fetch(pending, request, stable)
        self.settle()
        return pending

    def offsets(self, *partitions: tuple[str, int], group: str = "g") -> dict[Any, int]:
        """Fetch offsets: (topic, partition) -> offset."""
        outcome = self.outcome(self.fetch(*partitions, group=group))
        return {
            (topic.name, part.partition_index): part.committed_offset
            for topic in outcome.topics
            for part in topic.partitions
        }

    def delete_offsets(self, *partitions: tuple[str, int], group: str = "g") -> int:
        pending = self._next_number()
        request = OffsetDeleteRequest(
            group_id=group,
            topics=[
                OffsetDeleteRequestTopic(
                    name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=index)]
                )
                for topic, index in partitions
            ],
        )
        self.shard.offset_delete(pending, request, self.now)
        self.settle()
        return pending

    def delete_groups(self, *groups: str) -> int:
        pending = self._next_number()
        self.shard.delete_groups(pending, groups, self.now)
        self.settle()
        return pending

    def describe(self, group: str = "g", version: int = LATEST["describe"]) -> Any:
        return self.shard.describe_groups(RequestContext(version), [group])[0]

    # Shortcuts -----------------------------------------------------------------------------------

    def request_member_ids(
        self, count: int = 1, *, group: str = "g", **join_fields: Any
    ) -> list[str]:
        """Send the first JoinGroup of new members, and return the member ids that they get."""
        joins = [self.join(group=group, **join_fields) for _ in range(count)]
        return [str(self.outcome(pending).member_id) for pending in joins]

    def join_generation(self, ids: Sequence[str], *, group: str = "g", **join_fields: Any) -> Any:
        """Let all these members join one generation; return the leader's response."""
        joins = [self.join(member_id, group=group, **join_fields) for member_id in ids]
        self.poll()
        responses = [self.outcome(pending) for pending in joins]
        assert {each.error_code for each in responses} == {OK}
        assert len({each.generation_id for each in responses}) == 1
        [leader] = [each for each in responses if each.members]
        return leader

    def make_stable_group(
        self, count: int = 1, *, group: str = "g", **join_fields: Any
    ) -> list[str]:
        """Make a stable group with the member ids as assignments; return the ids, leader first."""
        ids = self.request_member_ids(count, group=group, **join_fields)
        leader = self.join_generation(ids, group=group, **join_fields)
        self.assign(leader, group=group)
        return [leader.leader, *[each for each in ids if each != leader.leader]]

    def leader_response(self) -> Any:
        """The last JoinGroup response to a leader of the group."""
        responses = reversed(self.responses.values())
        return next(response for response in responses if getattr(response, "members", ()))

    def assign(self, leader: Any, *, group: str = "g") -> None:
        """Let all members sync, the leader last with the assignments."""
        ids = [each.member_id for each in leader.members]
        assignments = {member_id: member_id.encode() for member_id in ids}
        for member_id in sorted(ids, key=lambda each: each == leader.leader):
            given = assignments if member_id == leader.leader else None
            self.sync(member_id, leader.generation_id, given, group=group)

    def state(self, group: str = "g") -> str:
        return str(self.shard.groups[group].state) if group in self.shard.groups else "none"


def codes(response: Any) -> list[int]:
    """The error codes of all partitions of a response."""
    return [part.error_code for topic in response.topics for part in topic.partitions]
