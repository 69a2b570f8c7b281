"""`Groups`: the shards that a broker has, and the requests that concern them.

A handler of a group API is one call: `node.groups.join_group(slot, request, now)`. Requests find
their shard by the name of their group; where that is not here the client is told to look for the
coordinator, where it is being loaded to wait. Answers go to `slot.answer`.

What shards write lies in `batches` until the node takes it: each is appended to its partition of
`__consumer_offsets` by the node itself, with acks of all in-sync replicas, and what came of it is
told by `written` or `failed`, for each partition in the order of its batches.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.groups.messages import Answer, Asker, WriteFailed, Written
from kraftlog.groups.offsets import commit_response, fetch_refused
from kraftlog.groups.shard import GroupShard, partition_of
from kraftlog.node.groups import log, positions
from kraftlog.node.groups.gather import Changed, Gather
from kraftlog.value import TYPE_CHECKING, Value
from kraftlog.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from kraftlog.wire.messages.describe_groups import DescribedGroup, DescribeGroupsResponse
from kraftlog.wire.messages.heartbeat import HeartbeatResponse
from kraftlog.wire.messages.join_group import JoinGroupResponse
from kraftlog.wire.messages.leave_group import LeaveGroupResponse
from kraftlog.wire.messages.list_groups import ListGroupsResponse
from kraftlog.wire.messages.offset_delete import OffsetDeleteResponse
from kraftlog.wire.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.groups.config import GroupConfig
    from kraftlog.metadata.image import Image
    from kraftlog.node.slots import Slot
    from kraftlog.types import Buffer, Now
    from kraftlog.wire.messages.delete_groups import DeleteGroupsRequest
    from kraftlog.wire.messages.describe_groups import DescribeGroupsRequest
    from kraftlog.wire.messages.heartbeat import HeartbeatRequest
    from kraftlog.wire.messages.join_group import JoinGroupRequest
    from kraftlog.wire.messages.leave_group import LeaveGroupRequest
    from kraftlog.wire.messages.list_groups import ListGroupsRequest
    from kraftlog.wire.messages.offset_commit import OffsetCommitRequest
    from kraftlog.wire.messages.offset_delete import OffsetDeleteRequest
    from kraftlog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
    from kraftlog.wire.messages.sync_group import SyncGroupRequest

#: The topic in which coordinators keep what they know.
GROUPS_TOPIC = "__consumer_offsets"


class GroupBatch(Value):
    """Append this to a partition of `__consumer_offsets`."""

    partition: int
    token: int
    batch: bytes


class Groups:
    """One shard for each partition of `__consumer_offsets` that this broker leads."""

    def __init__(
        self,
        config: GroupConfig,
        image: Image,
        new_member_id: Callable[[str], str],
        host_of: Callable[[Slot], str],
    ) -> None:
        self.config = config
        self.image = image
        self.new_member_id = new_member_id
        #: Where a client is, as Kafka writes it: "/127.0.0.1".
        self.host_of = host_of
        self.shards: dict[int, GroupShard] = {}
        self.batches: list[GroupBatch] = []

    # Partitions ----------------------------------------------------------------------------------

    def lead(self, partition: int) -> None:
        """This broker leads a partition from here on; its records are to be replayed first."""
        assert partition not in self.shards
        self.shards[partition] = GroupShard(self.config, self.new_member_id)

    def replay(self, partition: int, batches: Buffer, now: Now) -> int:
        """Some of its log, in order, below the high watermark; gives where to go on."""
        return log.replay(self.shards[partition], batches, now)

    def loaded(self, partition: int, now: Now) -> None:
        self.shards[partition].loaded(now)
        self._carry_out(partition, now)

    def resign(self, partition: int, now: Now) -> None:
        """Another broker leads it."""
        self.shards[partition].unload(now)
        self._carry_out(partition, now)
        del self.shards[partition]

    def take_batches(self) -> list[GroupBatch]:
        taken, self.batches = self.batches, []
        return taken

    def written(self, partition: int, token: int, offset: int, now: Now) -> None:
        """The batch lies at this offset, and the high watermark has passed it."""
        self._came_of_it(partition, Written(token, offset), now)

    def failed(self, partition: int, token: int, error: int, now: Now) -> None:
        self._came_of_it(partition, WriteFailed(token, error), now)

    def _came_of_it(self, partition: int, message: Written | WriteFailed, now: Now) -> None:
        self.shards[partition].handle(message, now)
        self._carry_out(partition, now)

    def topic_deleted(self, topic: str, topic_id: bytes, now: Now) -> None:
        for partition, shard in self.shards.items():
            if shard.is_loaded:
                shard.topic_deleted(topic, topic_id, now)
                self._carry_out(partition, now)

    def poll(self, now: Now) -> None:
        for partition, shard in self.shards.items():
            shard.poll(now)
            self._carry_out(partition, now)

    def deadline(self) -> int | None:
        due = [at for shard in self.shards.values() if (at := shard.deadline()) is not None]
        return min(due, default=None)

    def _carry_out(self, partition: int, now: Now) -> None:
        for effect in self.shards[partition].take_effects():
            if isinstance(effect, Answer):
                effect.slot.answer(effect.response)
            else:
                batch = log.batch_of(effect.records, now)
                self.batches.append(GroupBatch(partition, effect.token, batch))

    # Requests of one group -----------------------------------------------------------------------

    def join_group(self, slot: Slot, request: JoinGroupRequest, now: Now) -> None:
        def refused(code: int) -> JoinGroupResponse:
            return JoinGroupResponse(
                error_code=code,
                protocol_name="",
                leader="",
                member_id=request.member_id,
                members=(),
            )

        self._ask(
            slot,
            request.group_id,
            refused,
            lambda shard: shard.join_group(slot, self._asker(slot), request, now),
            now,
        )

    def sync_group(self, slot: Slot, request: SyncGroupRequest, now: Now) -> None:
        self._ask(
            slot,
            request.group_id,
            lambda code: SyncGroupResponse(error_code=code, assignment=b""),
            lambda shard: shard.sync_group(slot, request, now),
            now,
        )

    def heartbeat(self, slot: Slot, request: HeartbeatRequest, now: Now) -> None:
        def refused(code: int) -> HeartbeatResponse:
            # While members are being read they are believed: they can not have missed anything.
            is_loading = code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return HeartbeatResponse(error_code=ErrorCode.NONE if is_loading else code)

        self._ask(
            slot,
            request.group_id,
            refused,
            lambda shard: shard.heartbeat(slot, request, now),
            now,
        )

    def leave_group(self, slot: Slot, request: LeaveGroupRequest, now: Now) -> None:
        self._ask(
            slot,
            request.group_id,
            lambda code: LeaveGroupResponse(error_code=code),
            lambda shard: shard.leave_group(slot, self._asker(slot), request, now),
            now,
        )

    def offset_commit(self, slot: Slot, request: OffsetCommitRequest, now: Now) -> None:
        known, unknown = positions.known_of_commit(self.image, slot.version, request)
        whole = Changed(slot, lambda told: told.replace(topics=[*told.topics, *unknown]))
        if not known.topics and unknown:
            whole.answer(commit_response(known, lambda _: ErrorCode.NONE))
            return
        self._ask(
            whole,
            request.group_id,
            lambda code: commit_response(known, lambda _: code),
            lambda shard: shard.offset_commit(whole, self._asker(slot), known, now),
            now,
            may_be_nameless=True,
        )

    def offset_delete(self, slot: Slot, request: OffsetDeleteRequest, now: Now) -> None:
        known, unknown = positions.known_of_delete(self.image, request)

        def with_unknown(told: OffsetDeleteResponse) -> OffsetDeleteResponse:
            return told if told.error_code else told.replace(topics=[*told.topics, *unknown])

        whole = Changed(slot, with_unknown)
        self._ask(
            whole,
            request.group_id,
            lambda code: OffsetDeleteResponse(error_code=code, topics=()),
            lambda shard: shard.offset_delete(whole, known, now),
            now,
        )

    def _asker(self, slot: Slot) -> Asker:
        return Asker(slot.version, slot.client_id or "", self.host_of(slot))

    def _ask(
        self,
        slot: Any,
        group_id: str,
        refused: Callable[[int], Any],
        ask: Callable[[GroupShard], None],
        now: Now,
        *,
        may_be_nameless: bool = False,
    ) -> None:
        """Ask the shard of a group, if it is here and ready."""
        if not group_id and not may_be_nameless:
            slot.answer(refused(ErrorCode.INVALID_GROUP_ID))
            return
        partition, code = self._where(group_id)
        if code:
            slot.answer(refused(code))
            return
        ask(self.shards[partition])
        self._carry_out(partition, now)

    def _where(self, group_id: str) -> tuple[int, int]:
        """The partition of a group, and why it can't be asked, or NONE."""
        topic = self.image.topic_named(GROUPS_TOPIC)
        if topic is None:
            return -1, ErrorCode.NOT_COORDINATOR
        partition = partition_of(group_id, topic.partition_count)
        shard = self.shards.get(partition)
        if shard is None:
            return partition, ErrorCode.NOT_COORDINATOR
        if not shard.is_loaded:
            return partition, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return partition, ErrorCode.NONE

    # Requests of several groups ------------------------------------------------------------------

    def offset_fetch(self, slot: Slot, request: OffsetFetchRequest, now: Now) -> None:
        version = slot.version
        asked = positions.asked_groups(version, request)
        gather = Gather(slot, lambda told: positions.fetched(version, asked, told))
        for group in asked:
            self._fetch(gather, version, group, request.require_stable, now)
        gather.done()

    def _fetch(
        self,
        gather: Gather,
        version: int,
        asked: OffsetFetchRequestGroup,
        require_stable: bool,
        now: Now,
    ) -> None:
        known, unknown = positions.known_of_fetch(self.image, version, asked)
        wants_all_by_id = asked.topics is None and version >= positions.BY_ID_SINCE

        def whole(told: Any) -> Any:
            if told.error_code:
                return told
            if wants_all_by_id:
                return positions.with_ids(self.image, told)
            return told.replace(topics=[*told.topics, *unknown])

        part = Changed(gather.part(), whole)
        self._ask(
            part,
            asked.group_id,
            lambda code: fetch_refused(asked.group_id, code),
            lambda shard: shard.offset_fetch(part, known, require_stable),
            now,
            may_be_nameless=True,
        )

    def delete_groups(self, slot: Slot, request: DeleteGroupsRequest, now: Now) -> None:
        """Each shard deletes its own; what is not here is refused one by one."""
        by_partition: dict[int, list[str]] = {}
        refused = []
        for group_id in dict.fromkeys(request.groups_names):
            partition, code = self._where(group_id)
            if code:
                refused.append(DeletableGroupResult(group_id=group_id, error_code=code))
            else:
                by_partition.setdefault(partition, []).append(group_id)

        def finish(told: list[DeleteGroupsResponse]) -> DeleteGroupsResponse:
            results = [result for each in told for result in each.results]
            return DeleteGroupsResponse(results=[*results, *refused])

        gather = Gather(slot, finish)
        for partition, group_ids in by_partition.items():
            self.shards[partition].delete_groups(gather.part(), group_ids, now)
            self._carry_out(partition, now)
        gather.done()

    def describe_groups(self, slot: Slot, request: DescribeGroupsRequest) -> None:
        asker = self._asker(slot)
        groups = []
        for group_id in request.groups:
            partition, code = self._where(group_id)
            if code:
                groups.append(
                    DescribedGroup(
                        error_code=code,
                        group_id=group_id,
                        group_state="",
                        protocol_type="",
                        protocol_data="",
                        members=(),
                    )
                )
            else:
                groups += self.shards[partition].describe_groups(asker, [group_id])
        slot.answer(DescribeGroupsResponse(groups=groups))

    def list_groups(self, slot: Slot, request: ListGroupsRequest) -> None:
        """All groups of all shards, or none as long as one of them is being loaded."""
        if not all(shard.is_loaded for shard in self.shards.values()):
            code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            slot.answer(ListGroupsResponse(error_code=code, groups=()))
            return
        groups = [
            group
            for shard in self.shards.values()
            for group in shard.list_groups(request.states_filter, request.types_filter)
        ]
        slot.answer(ListGroupsResponse(error_code=ErrorCode.NONE, groups=groups))
