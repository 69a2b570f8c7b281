"""`ConsumerMember`: one member of a consumer group, as its three records describe it."""

from __future__ import annotations

from kraftlog.groups.consumer.states import MemberState
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kraftlog.types import Uuid
    from kraftlog.wire.messages import consumer_group_records as records

    #: Partitions by topic id, each with the epoch in which the member got it.
    EpochsOfPartitions = Mapping[Uuid, Mapping[int, int]]

_STATES = frozenset(
    (MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS, MemberState.UNRELEASED_PARTITIONS)
)


class ConsumerMember(Value):
    """A member; a change makes a new one."""

    member_id: str
    #: Its partitions, and those that it has been told to revoke.
    assigned: EpochsOfPartitions
    revoking: EpochsOfPartitions
    epoch: int = 0
    #: The epoch before, which the member sends if it missed the response with its new one.
    previous_epoch: int = -1
    state: int = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topic_names: frozenset[str] = frozenset()
    topic_regex: str | None = ""
    server_assignor: str | None = None
    #: What it joined with if it speaks the classic protocol.
    classic: records.ClassicMemberMetadata | None = None

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state == MemberState.STABLE and self.epoch == epoch

    def with_metadata(self, value: records.ConsumerGroupMemberMetadataValue) -> ConsumerMember:
        """The member after a replay of its metadata."""
        return self.replace(
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            topic_names=frozenset(value.subscribed_topic_names),
            topic_regex=value.subscribed_topic_regex,
            server_assignor=value.server_assignor,
            classic=value.classic_member_metadata,
        )

    def with_assignment(
        self, value: records.ConsumerGroupCurrentMemberAssignmentValue
    ) -> ConsumerMember:
        """The member after a replay of its current assignment."""
        return self.replace(
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=value.state if value.state in _STATES else MemberState.UNKNOWN,
            assigned=_with_epochs(value.assigned_partitions, value.member_epoch),
            revoking=_with_epochs(value.partitions_pending_revocation, value.member_epoch),
        )

    def owned_since(self, topic_id: Uuid, index: int) -> int | None:
        """The epoch in which it got a partition that it has or revokes; None for others."""
        since = self.assigned.get(topic_id, {}).get(index)
        return self.revoking.get(topic_id, {}).get(index) if since is None else since


def new_member(member_id: str) -> ConsumerMember:
    return ConsumerMember(member_id, {}, {})


def _with_epochs(
    topics: Iterable[records.TopicPartitions], member_epoch: int
) -> dict[Uuid, dict[int, int]]:
    """Partitions with their epochs; records before Kafka 4.4 have none: the member's counts."""
    by_topic: dict[Uuid, dict[int, int]] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if not epochs or len(epochs) != len(topic.partitions):
            epochs = [max(member_epoch, 0)] * len(topic.partitions)
        by_topic[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return by_topic
