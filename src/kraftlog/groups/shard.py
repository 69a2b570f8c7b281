"""`GroupShard`: the groups whose records are in one partition of `__consumer_offsets`.

Usage: a broker that becomes the leader of a partition creates a shard, feeds it the partition's
records with `replay_batch` up to the high watermark, slice by slice, and calls `finish_loading`.
When it loses leadership it calls `unload`, carries out the last effects and drops the shard. In
between, a handler finds the shard by `partition_of(group_id, count)` and calls its method for the
API with the decoded request, an opaque pending response and the time. The response comes as a
`GroupResponse`, at once or later. Without a shard the host responds NOT_COORDINATOR, and during
loading COORDINATOR_LOAD_IN_PROGRESS.

After each call the host takes the effects. `WriteRecords` is one batch for the partition, with
acks=all. Its outcome is `handle(Written(token, offset))` when the high watermark has passed it,
or `handle(WriteFailed(token, code))`, in the order of the tokens. Several batches may be pending.
`poll` is due at `deadline()`.

The host combines the responses of requests about several groups: methods that take a part of a
request return a part of the response.

What only groups of the consumer protocol need is imported with the first of them: a node starts
without it.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.groups import admin, join, members, offset_expiration, offsets, rebalance
from kraftlog.groups.consumer.group import ConsumerGroup
from kraftlog.groups.consumer.settings import ConsumerGroupSettings, settings_of
from kraftlog.groups.consumer.stored import KEYS
from kraftlog.groups.group import Group, group_from_record
from kraftlog.groups.java_hash import string_hash
from kraftlog.groups.messages import GroupResponse, WriteFailed, Written
from kraftlog.groups.pending_writes import PendingWrites
from kraftlog.groups.states import GroupState
from kraftlog.groups.stored_state import NO_PRODUCER, StoredGroups
from kraftlog.groups.timers import Timer, Timers
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.consumer_group_records import ConsumerGroupMetadataKey
from kraftlog.wire.messages.group_records import GroupMetadataKey, OffsetCommitKey
from kraftlog.wire.record_frames import OFFSETS_LOG, UnknownRecordError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from kraftlog.groups.config import GroupConfig
    from kraftlog.groups.consumer.cluster_metadata import ClusterMetadata
    from kraftlog.groups.member import Member
    from kraftlog.groups.messages import RequestContext
    from kraftlog.groups.records import GroupRecord
    from kraftlog.types import Now, Uuid
    from kraftlog.wire.messages import consumer_group_describe
    from kraftlog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
    from kraftlog.wire.messages.describe_groups import DescribedGroup
    from kraftlog.wire.messages.heartbeat import HeartbeatRequest
    from kraftlog.wire.messages.join_group import JoinGroupRequest
    from kraftlog.wire.messages.leave_group import LeaveGroupRequest
    from kraftlog.wire.messages.list_groups import ListedGroup
    from kraftlog.wire.messages.offset_commit import OffsetCommitRequest
    from kraftlog.wire.messages.offset_delete import OffsetDeleteRequest
    from kraftlog.wire.messages.offset_fetch import OffsetFetchRequestGroup
    from kraftlog.wire.messages.sync_group import SyncGroupRequest


def partition_of(group_id: str, count: int) -> int:
    """The partition of a group, by Java's string hash, as in Kafka."""
    code = string_hash(group_id)
    signed = code - (1 << 32) if code >> 31 else code
    # The smallest 32-bit number has no positive counterpart; Kafka takes 0 for it.
    return (0 if signed == -(1 << 31) else abs(signed)) % count


class GroupShard:
    """A shard; replay alone changes its durable state, members and timers are in memory."""

    def __init__(
        self, config: GroupConfig, new_member_id: Callable[[str], str], topics: ClusterMetadata
    ) -> None:
        self.config = config
        self.topics = topics
        self._default_settings = settings_of(config, {})
        #: Generates a unique member id with a prefix.
        self.new_member_id = new_member_id
        self.is_loaded = False
        self.durable = StoredGroups()
        #: Groups with a record, an offset or a member, once loaded. While a group changes from one
        #: kind to the other, the consumer group is in force, and the classic one is Dead.
        self.groups: dict[str, Group] = {}
        self.consumer_groups: dict[str, ConsumerGroup] = {}
        self.timers = Timers()
        self._effects: list[Any] = []
        self.writes = PendingWrites(
            self._effects, self.timers, config.offsets_commit_timeout_ms, self._replay_committed
        )
        self.expiry = offset_expiration.OffsetExpiration(self)

    # Loading -------------------------------------------------------------------------------------

    def replay_batch(
        self,
        records: Iterable[tuple[int, bytes, bytes | None]],
        producer_id: int = NO_PRODUCER,
    ) -> None:
        """Load the committed records of one batch as (offset, key, value).

        `producer_id` is given for a transactional batch. Unknown record types, which a newer
        coordinator may have written, are skipped.
        """
        assert not self.is_loaded
        for offset, raw_key, raw_value in records:
            try:
                number, key = OFFSETS_LOG.decode_key(raw_key)
                value = OFFSETS_LOG.decode_value(number, raw_value)
            except UnknownRecordError:
                continue
            self.durable.replay(offset, key, value, producer_id)

    def end_transaction(self, producer_id: int, committed: bool, now: Now) -> None:
        """Apply a transaction marker, during loading and afterwards."""
        touched = self.durable.end_transaction(producer_id, committed)
        if self.is_loaded:
            for group_id in touched:
                self._rebuild(group_id, now)

    def finish_loading(self, now: Now) -> None:
        """Start coordinating after the replay; session timeouts of all members start again."""
        self.is_loaded = True
        for group_id in list(self.durable.consumer_groups):
            self.rebuild_consumer_group(group_id, now)
        for group_id in [*self.durable.groups, *self.durable.offsets.by_group]:
            self._rebuild(group_id, now)
        self.expiry.start(now)

    def unload(self, now: Now) -> None:
        """Stop coordinating; pending requests get NOT_COORDINATOR."""
        for group in self.groups.values():
            group.state = GroupState.DEAD
            self.fail_pending_requests(group, ErrorCode.NOT_COORDINATOR)
        self.writes.abandon(now)
        self.groups.clear()
        self.consumer_groups.clear()
        self.durable = StoredGroups()
        self.timers.clear()
        self.is_loaded = False

    # Requests ------------------------------------------------------------------------------------

    def join_group(
        self, pending: object, context: RequestContext, request: JoinGroupRequest, now: Now
    ) -> None:
        join.join(self, pending, context, request, now)

    def sync_group(self, pending: object, request: SyncGroupRequest, now: Now) -> None:
        members.sync(self, pending, request, now)

    def heartbeat(self, pending: object, request: HeartbeatRequest, now: Now) -> None:
        members.heartbeat(self, pending, request, now)

    def leave_group(
        self, pending: object, context: RequestContext, request: LeaveGroupRequest, now: Now
    ) -> None:
        members.leave(self, pending, context, request, now)

    def consumer_group_heartbeat(
        self,
        pending: object,
        context: RequestContext,
        request: ConsumerGroupHeartbeatRequest,
        now: Now,
    ) -> None:
        from kraftlog.groups.consumer import heartbeat

        heartbeat.heartbeat(self, pending, context, request, now)

    def describe_consumer_group(self, group_id: str) -> consumer_group_describe.DescribedGroup:
        from kraftlog.groups.consumer.describe import describe_consumer_group

        return describe_consumer_group(self, group_id)

    def offset_commit(
        self, pending: object, context: RequestContext, request: OffsetCommitRequest, now: Now
    ) -> None:
        """Commit offsets; topics have names, and ids if the request has them."""
        offsets.commit(self, pending, context, request, now)

    def offset_fetch(
        self, pending: object, group_request: OffsetFetchRequestGroup, require_stable: bool
    ) -> None:
        """Fetch the offsets of one group; the response is an OffsetFetchResponseGroup.

        Topics have names, and ids if the request has them.
        """
        offsets.fetch(self, pending, group_request, require_stable)

    def offset_delete(self, pending: object, request: OffsetDeleteRequest, now: Now) -> None:
        offsets.delete(self, pending, request, now)

    def has_offsets_of(self, topic: str) -> bool:
        """Whether a group has a committed offset of the topic."""
        return self.is_loaded and self.durable.offsets.has_topic(topic)

    def delete_offsets_of_partitions(
        self, topic: str, topic_id: Uuid, first: int, now: Now
    ) -> None:
        """Delete the offsets of a topic's deleted partitions, which are those from `first` on."""
        offsets.delete_offsets_of_partitions(self, topic, topic_id, first, now)

    def delete_groups(self, pending: object, group_ids: Sequence[str], now: Now) -> None:
        """Delete the groups of a request that belong to this shard."""
        admin.delete(self, pending, group_ids, now)

    def describe_groups(
        self, context: RequestContext, group_ids: Sequence[str]
    ) -> list[DescribedGroup]:
        return [admin.describe(self, context, group_id) for group_id in group_ids]

    def list_groups(self, states: Sequence[str], types: Sequence[str]) -> list[ListedGroup]:
        return admin.list_groups(self, states, types)

    # Outcomes and timers -------------------------------------------------------------------------

    def handle(self, message: Written | WriteFailed, now: Now) -> None:
        if not self.is_loaded:
            return  # the batch is from before `unload`, which has responded to its request
        if isinstance(message, Written):
            self.writes.on_written(message.token, message.offset, now)
        else:
            self.writes.on_failed(message.token, message.error, now)

    def poll(self, now: Now) -> None:
        self.timers.poll(now)

    def deadline(self) -> int | None:
        """The next deadline for `poll`, in monotonic milliseconds."""
        return self.timers.deadline()

    def take_effects(self) -> list[Any]:
        taken = self._effects[:]
        self._effects.clear()
        return taken

    # For the other modules -----------------------------------------------------------------------

    def respond(self, pending: object, response: Any) -> None:
        """Respond to a request; nothing happens without a pending response."""
        if pending is not None:
            self._effects.append(GroupResponse(pending, response))

    def new_group(self, group_id: str, now: Now) -> Group:
        return self._add_group(Group(group_id, now))

    def consumer_settings(self, group_id: str) -> ConsumerGroupSettings:
        own = self.topics.group_configs(group_id)
        return settings_of(self.config, own) if own else self._default_settings

    def apply_to_consumer_group(self, group_id: str, record: GroupRecord) -> None:
        """Apply a record of a decision, before its batch is committed."""
        group = self.consumer_groups.get(group_id)
        if group is None or not isinstance(record.key, KEYS):
            return
        group.apply(record.key, record.value)
        if isinstance(record.key, ConsumerGroupMetadataKey) and record.value is None:
            from kraftlog.groups.consumer import sessions

            del self.consumer_groups[group_id]
            sessions.cancel_all(self, group)

    def retire_classic_group(self, group_id: str, now: Now) -> None:
        """Make a classic group Dead, as a consumer group is in its place; its members stay there.

        They learn with their pending requests that they have to join again.
        """
        from kraftlog.groups.consumer import sessions

        classic = self.groups.get(group_id)
        if classic is None or classic.state == GroupState.DEAD:
            return
        self.fail_pending_requests(classic, ErrorCode.REBALANCE_IN_PROGRESS)
        for member_id in [*classic.members, *classic.pending_joins]:
            self.remove_member(classic, member_id)
        self.timers.cancel(classic.join_timer)
        self.timers.cancel(classic.sync_timer)
        classic.enter(GroupState.DEAD, now)
        sessions.restart_all(self, self.consumer_groups[group_id], now)

    def become_classic_group(self, *arguments: Any) -> None:
        """Replace a consumer group whose members all speak the classic protocol."""
        from kraftlog.groups.downgrade import become_classic_group

        become_classic_group(self, *arguments)

    def rebuild_consumer_group(self, group_id: str, now: Now) -> None:
        """Build a group from its committed records and its pending batches; see ConsumerGroup."""
        from kraftlog.groups.consumer import sessions

        group = self.consumer_groups.setdefault(group_id, ConsumerGroup(group_id))
        group.clear()
        stored = self.durable.consumer_groups.get(group_id)
        if stored is not None:
            group.load(stored)
        pending = self.writes.records_of_group(group_id)
        for record in pending:
            self.consumer_groups.setdefault(group_id, group)
            self.apply_to_consumer_group(group_id, record)
        classic = self.groups.get(group_id)
        if stored is None and not pending:
            del self.consumer_groups[group_id]
            sessions.cancel_all(self, group)
            if classic is not None and classic.state == GroupState.DEAD:
                # It was retired for a consumer group that is lost.
                self.drop(classic)
            self._rebuild(group_id, now)
        elif self.consumer_groups.get(group_id) is group:
            sessions.cancel_removed(self, group)
            sessions.restart_all(self, group, now)

    def restart_session(self, group: Group, member: Member, within_ms: int, now: Now) -> None:
        """Restart the session timeout of a member."""
        if member.session is None:
            member.session = Timer(
                lambda later: rebalance.session_timed_out(self, group, member, later)
            )
        self.timers.set(member.session, now.monotonic_ms + within_ms)

    def remove_member(self, group: Group, member_id: str) -> Member | None:
        """Remove a member and its timer; its pending requests get an error."""
        timer = group.pending_joins.get(member_id)
        if timer is not None:
            self.timers.cancel(timer)
        member = group.members.get(member_id)
        if member is not None:
            self._fail_pending_requests_of(group, member, ErrorCode.UNKNOWN_MEMBER_ID)
            if member.session is not None:
                self.timers.cancel(member.session)
        return group.remove(member_id)

    def fail_pending_requests(self, group: Group, code: int) -> None:
        """Respond to all pending requests of a group with an error code."""
        for member in group.members.values():
            self._fail_pending_requests_of(group, member, code)

    def _fail_pending_requests_of(self, group: Group, member: Member, code: int) -> None:
        member_id = "" if code == ErrorCode.UNKNOWN_MEMBER_ID else member.member_id
        self.respond(group.take_joining(member), join.error_response(member_id, code))
        self.respond(members.take_syncing(member), members.no_assignment(code))

    def drop_if_unused(self, group: Group) -> None:
        """Drop a group without a record, offsets or members."""
        group_id = group.group_id
        durable = self.durable
        if (
            not group.members
            and not group.pending_joins
            and group_id not in durable.groups
            and group_id not in durable.offsets.by_group
            and group_id not in self.writes.offsets
            and self.groups.get(group_id) is group
        ):
            self.drop(group)

    def drop(self, group: Group) -> None:
        """Drop a group with its members."""
        for member_id in [*group.members, *group.pending_joins]:
            self.remove_member(group, member_id)
        self.timers.cancel(group.join_timer)
        self.timers.cancel(group.sync_timer)
        group.state = GroupState.DEAD
        if self.groups.get(group.group_id) is group:
            del self.groups[group.group_id]

    def _replay_committed(self, offset: int, record: GroupRecord, now: Now) -> None:
        """Apply a committed record of this shard."""
        self.durable.replay(offset, record.key, record.value)
        key = record.key
        if isinstance(key, GroupMetadataKey) and record.value is None:
            group = self.groups.get(key.group)
            if group is not None and group.state == GroupState.DEAD:
                self.drop(group)
        elif isinstance(key, (GroupMetadataKey, OffsetCommitKey)):
            self._rebuild(key.group, now)

    def _rebuild(self, group_id: str, now: Now) -> None:
        """Rebuild a group that is not in memory, and start the session timeouts of its members."""
        durable = self.durable
        if group_id in self.groups or group_id in self.consumer_groups:
            return
        value = durable.groups.get(group_id)
        if value is None and group_id not in durable.offsets.by_group:
            return
        group = self._add_group(
            Group(group_id, now) if value is None else group_from_record(group_id, value)
        )
        for member in group.members.values():
            self.restart_session(group, member, member.session_timeout_ms, now)
        if len(group.members) > self.config.max_size:
            # The limit was lowered: a rebalance removes members after their last commits.
            rebalance.prepare(self, group, now)

    def adopt(self, group: Group) -> None:
        """Coordinate a group that was made from another one."""
        self._add_group(group)

    def _add_group(self, group: Group) -> Group:
        group.join_timer = Timer(lambda now: rebalance.join_phase_timed_out(self, group, now))
        group.sync_timer = Timer(lambda now: rebalance.sync_timed_out(self, group, now))
        self.groups[group.group_id] = group
        return group
