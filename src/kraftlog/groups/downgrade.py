"""A consumer group whose members all speak the classic protocol goes on as a classic group."""

from __future__ import annotations

from kraftlog.groups import rebalance
from kraftlog.groups.consumer.embedded_protocol import encoded_assignment
from kraftlog.groups.consumer.records import removed_group
from kraftlog.groups.consumer.writes import when_committed
from kraftlog.groups.group import CONSUMER, Group
from kraftlog.groups.member import Member
from kraftlog.groups.pending_writes import coordinator_error
from kraftlog.groups.records import group_record
from kraftlog.groups.states import GroupState
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from kraftlog.groups.consumer.group import ConsumerGroup
    from kraftlog.groups.consumer.member import ConsumerMember
    from kraftlog.groups.interfaces import Shard
    from kraftlog.groups.records import GroupRecord
    from kraftlog.types import Now


def become_classic_group(
    shard: Shard,
    group: ConsumerGroup,
    leaving: Sequence[ConsumerMember],
    joining: ConsumerMember | None,
    first_records: list[GroupRecord],
    rebalances: bool,
    now: Now,
    pending: object,
    response: Any,
    error_response: Callable[[int], Any] | None,
) -> None:
    """Replace a consumer group; `joining` takes the place of a static member in `leaving`.

    Members keep their target assignments; `rebalances`: they join at once for another one.
    """
    group_id = group.group_id
    classic, assignments = _classic_group(shard, group, leaving, joining, now)
    for record in first_records:
        shard.apply_to_consumer_group(group_id, record)
    tombstones = removed_group(group)
    for record in tombstones:
        shard.apply_to_consumer_group(group_id, record)
    shard.adopt(classic)

    def undo(code: int, later: Now) -> None:
        shard.fail_pending_requests(classic, coordinator_error(code))
        shard.drop(classic)
        shard.rebuild_consumer_group(group_id, later)

    records = [*first_records, *tombstones, group_record(classic, assignments)]
    on_done = when_committed(shard, pending, response, error_response)
    shard.writes.submit(records, now, on_done, undo, group_ids=(group_id,))
    for member in classic.members.values():
        shard.restart_session(classic, member, member.session_timeout_ms, now)
    if rebalances:
        rebalance.prepare(shard, classic, now)


def _classic_group(
    shard: Shard,
    group: ConsumerGroup,
    leaving: Sequence[ConsumerMember],
    joining: ConsumerMember | None,
    now: Now,
) -> tuple[Group, dict[str, bytes]]:
    """The classic group, and the assignments of its members."""
    leaving_ids = {member.member_id for member in leaving}
    staying = [each for each in group.members.values() if each.member_id not in leaving_ids]
    targets = dict(group.targets)
    if joining is not None:
        staying.append(joining)
        targets[joining.member_id] = targets.get(leaving[0].member_id, {})
    classic = Group(group.group_id, now)
    classic.state = GroupState.STABLE
    classic.generation = group.epoch
    for each in staying:
        assert each.classic is not None
        protocols = [(it.name, it.metadata) for it in each.classic.supported_protocols]
        member = Member(
            each.member_id,
            each.instance_id,
            each.client_id,
            each.client_host,
            each.rebalance_timeout_ms,
            each.classic.session_timeout_ms,
            tuple(protocols),
        )
        classic.add(member, CONSUMER)
    classic.protocol = classic.select_protocol()
    classic.subscribed_topics = classic.subscriptions()
    for member in classic.members.values():
        metadata = member.metadata(classic.protocol)
        part = targets.get(member.member_id, {})
        member.assignment = encoded_assignment(shard.topics, part, metadata)
    return classic, {each.member_id: each.assignment for each in classic.members.values()}
