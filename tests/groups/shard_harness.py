"""One shard of a group coordinator, with its log and a clock that tests set.

Batches wait in `under_way` until a test commits or fails them; with `prompt` they are committed at
once. `answers` has the responses, by the slot that the method of the request returned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kraftlog.errors import ErrorCode
from kraftlog.groups.config import GroupConfig
from kraftlog.groups.messages import (
    GroupResponse,
    RequestContext,
    WriteFailed,
    WriteRecords,
    Written,
)
from kraftlog.groups.shard import GroupShard
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
WALL_MS = 1_700_000_000_000  # the wall clock when the monotonic one is at 0
SESSION_MS = 10_000
REBALANCE_MS = 20_000


def subscription(*topics: str) -> bytes:
    """The subscription of a consumer, in version 0."""
    return b"\x00\x00" + encode(ConsumerProtocolSubscription(topics=topics), 0)


RANGE = (("range", subscription("t")),)
LATEST: dict[str, int] = {"join": 9, "leave": 5, "commit": 9, "describe": 6}


class ShardHarness:
    def __init__(self, *, prompt: bool = True, **config: int) -> None:
        self.config = GroupConfig(**config)
        self.ids = 0
        self.prompt = prompt
        self.ms = 0
        self.log: list[tuple[int, bytes, bytes | None]] = []
        self.under_way: list[WriteRecords] = []
        self.answers: dict[int, Any] = {}
        self.slots = 0
        self.shard = self.new_shard()
        self.shard.loaded(self.now)

    def new_shard(self) -> GroupShard:
        return GroupShard(self.config, self.new_id)

    def new_id(self, prefix: str) -> str:
        self.ids += 1
        return f"{prefix}-{self.ids}"

    @property
    def now(self) -> Now:
        return Now(self.ms, WALL_MS + self.ms)

    # The host's part -----------------------------------------------------------------------------

    def settle(self) -> None:
        """Carry out the effects, and those that follow from them, until there are none."""
        while effects := self.shard.take_effects():
            for effect in effects:
                if isinstance(effect, GroupResponse):
                    assert effect.slot not in self.answers, "answered twice"
                    self.answers[effect.slot] = effect.response
                else:
                    self.under_way.append(effect)
            if self.prompt:
                self.commit()

    def commit(self, count: int = 1_000_000) -> None:
        """Append the oldest batches under way to the log, and report them as replicated."""
        done, self.under_way = self.under_way[:count], self.under_way[count:]
        for write in done:
            base = len(self.log)
            self.log += [(base + i, key, value) for i, (key, value) in enumerate(write.records)]
            self.shard.handle(Written(write.token, base), self.now)
        if done:
            self.settle()

    def fail(self, error: int = ErrorCode.KAFKA_STORAGE_ERROR, count: int = 1_000_000) -> None:
        done, self.under_way = self.under_way[:count], self.under_way[count:]
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
        shard.loaded(self.now)
        return shard

    def move(self) -> None:
        """The partition gets another leader, whose shard replaces this one."""
        self.shard.unload(self.now)
        self.settle()
        self.under_way.clear()
        self.shard = self.reloaded()
        self.settle()

    # Requests ------------------------------------------------------------------------------------

    def _slot(self) -> int:
        self.slots += 1
        return self.slots

    def outcome(self, slot: int) -> Any:
        """The response, which must have been sent."""
        assert slot in self.answers, "not answered"
        return self.answers[slot]

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
        slot = self._slot()
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
            slot, RequestContext(version, client, "/127.0.0.1"), request, self.now
        )
        self.settle()
        return slot

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
        slot = self._slot()
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
        self.shard.sync_group(slot, request, self.now)
        self.settle()
        return slot

    def heartbeat(
        self, member_id: str, generation: int, *, group: str = "g", instance: str | None = None
    ) -> int:
        """Return the error code."""
        slot = self._slot()
        request = HeartbeatRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
        )
        self.shard.heartbeat(slot, request, self.now)
        self.settle()
        code: int = self.outcome(slot).error_code
        return code

    def leave(
        self,
        *members: str | tuple[str, str],
        group: str = "g",
        version: int = LATEST["leave"],
    ) -> Any:
        """Members by their ids, or by (id, instance id); returns the response."""
        slot = self._slot()
        named = [(each, None) if isinstance(each, str) else each for each in members]
        request = LeaveGroupRequest(
            group_id=group,
            member_id=named[0][0] if version < 3 else "",
            members=[
                MemberIdentity(member_id=member_id, group_instance_id=instance)
                for member_id, instance in named
            ],
        )
        self.shard.leave_group(slot, RequestContext(version), request, self.now)
        self.settle()
        return self.outcome(slot)

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
        slot = self._slot()
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
        self.shard.offset_commit(slot, RequestContext(version, "c"), request, self.now)
        self.settle()
        return slot

    def fetch(
        self,
        *partitions: tuple[str, int],
        group: str = "g",
        stable: bool = False,
        topic_id: Uuid = NULL_UUID,
    ) -> int:
        """Fetch the offsets of these partitions, or of all."""
        slot = self._slot()
        topics = [
            OffsetFetchRequestTopics(name=topic, topic_id=topic_id, partition_indexes=(index,))
            for topic, index in partitions
        ]
        request = OffsetFetchRequestGroup(group_id=group, topics=topics or None)
        self.shard.offset_fetch(slot, request, stable)
        self.settle()
        return slot

    def offsets(self, *partitions: tuple[str, int], group: str = "g") -> dict[Any, int]:
        """The fetched offsets: (topic, partition) -> offset."""
        outcome = self.outcome(self.fetch(*partitions, group=group))
        return {
            (topic.name, part.partition_index): part.committed_offset
            for topic in outcome.topics
            for part in topic.partitions
        }

    def delete_offsets(self, *partitions: tuple[str, int], group: str = "g") -> int:
        slot = self._slot()
        request = OffsetDeleteRequest(
            group_id=group,
            topics=[
                OffsetDeleteRequestTopic(
                    name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=index)]
                )
                for topic, index in partitions
            ],
        )
        self.shard.offset_delete(slot, request, self.now)
        self.settle()
        return slot

    def delete_groups(self, *groups: str) -> int:
        slot = self._slot()
        self.shard.delete_groups(slot, groups, self.now)
        self.settle()
        return slot

    def describe(self, group: str = "g", version: int = LATEST["describe"]) -> Any:
        return self.shard.describe_groups(RequestContext(version), [group])[0]

    # Shortcuts -----------------------------------------------------------------------------------

    def enter(self, count: int = 1, *, group: str = "g", **words: Any) -> list[str]:
        """New members request their ids, the first two steps of joining."""
        slots = [self.join(group=group, **words) for _ in range(count)]
        return [str(self.outcome(slot).member_id) for slot in slots]

    def generation(self, ids: Sequence[str], *, group: str = "g", **words: Any) -> Any:
        """All these join and complete the generation; returns the leader's response."""
        slots = [self.join(member_id, group=group, **words) for member_id in ids]
        self.poll()
        outcome = [self.outcome(slot) for slot in slots]
        assert {each.error_code for each in outcome} == {OK}
        assert len({each.generation_id for each in outcome}) == 1
        [leader] = [each for each in outcome if each.members]
        return leader

    def stable(self, count: int = 1, *, group: str = "g", **words: Any) -> list[str]:
        """A group with `count` members, each with its id as assignment; its leader is first."""
        ids = self.enter(count, group=group, **words)
        leader = self.generation(ids, group=group, **words)
        self.assign(leader, group=group)
        return [leader.leader, *[each for each in ids if each != leader.leader]]

    def leader(self) -> Any:
        """The last response to a leader of the group."""
        return next(a for a in reversed(self.answers.values()) if getattr(a, "members", ()))

    def assign(self, leader: Any, *, group: str = "g") -> None:
        """All members sync; the leader sends the assignments."""
        ids = [each.member_id for each in leader.members]
        assignments = {member_id: member_id.encode() for member_id in ids}
        for member_id in sorted(ids, key=lambda each: each == leader.leader):
            given = assignments if member_id == leader.leader else None
            self.sync(member_id, leader.generation_id, given, group=group)

    def state(self, group: str = "g") -> str:
        return str(self.shard.groups[group].state) if group in self.shard.groups else "none"


def codes(response: Any) -> list[int]:
    """The codes of all partitions of a response."""
    return [part.error_code for topic in response.topics for part in topic.partitions]
