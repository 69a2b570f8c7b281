"""When a consumer group becomes a classic one: its last member of the consumer protocol goes."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.groups.consumer.group import ConsumerGroup
    from kraftlog.groups.consumer.interfaces import Shard
    from kraftlog.groups.consumer.member import ConsumerMember

DOWNGRADING = ("downgrade", "bidirectional")


def is_possible(
    shard: Shard, group: ConsumerGroup, leaving: Sequence[ConsumerMember], joining: int = 0
) -> bool:
    """Whether classic members alone are left without `leaving`, and may go on as a classic group.

    `joining`: the number of classic members that take the place of leaving ones.
    """
    leaving_ids = {member.member_id for member in leaving}
    left = [member for member in group.members.values() if member.member_id not in leaving_ids]
    count = len(left) + joining
    if joining and any(member.classic is not None for member in leaving):
        return False  # a classic member that returns changes nothing
    return (
        count > 0
        and all(member.classic is not None for member in left)
        and shard.config.consumer_migration_policy in DOWNGRADING
        and count <= shard.config.max_size
    )
