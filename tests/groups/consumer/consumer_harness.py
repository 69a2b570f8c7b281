"""One shard with topics, and the requests of members of the consumer protocol."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from kraftlog.groups.consumer.group import ConsumerGroup
from kraftlog.groups.messages import RequestContext
from kraftlog.metadata.values import PartitionImage, TopicImage
from kraftlog.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from kraftlog.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kraftlog.wire.record_frames import OFFSETS_LOG
from tests.groups.shard_harness import ShardHarness

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kraftlog.types import Uuid
    from kraftlog.wire.messages.heartbeat import HeartbeatRequest

SESSION_MS, REVOKE_MS = 45_000, 20_000


def topic_id(number: int) -> Uuid:
    return number.to_bytes(16, "big")


#: The id of the topic `t`, which the harness begins with; it has six partitions.
T = topic_id(1)


class ConsumerHarness(ShardHarness):
    """A shard; by default a group gets a target assignment for each epoch."""

    def __init__(self, **config: Any) -> None:
        super().__init__(**{"consumer_assignment_interval_ms": 0, **config})
        self.topic_numbers = 0
        self.create_topic("t", 6)

    # Topics --------------------------------------------------------------------------------------

    def create_topic(self, name: str, count: int) -> Uuid:
        self.topic_numbers += 1
        created = topic_id(self.topic_numbers)
        self._put_topic(created, name, count, is_new=True)
        return created

    def grow_topic(self, name: str, count: int) -> None:
        self._put_topic(self.image.topic_ids[name], name, count)

    def _put_topic(self, created: Uuid, name: str, count: int, *, is_new: bool = False) -> None:
        image = self.image
        image.topics[created] = TopicImage(created, name, count)
        image.topic_ids[name] = created
        for index in range(count):
            part = PartitionImage(created, index, (1,), (1,), 1, 0, 0)
            image.partitions[part.key] = part
        self.topics.changed(created, is_new=is_new)
        self.metadata_offset += 1

    def delete_topic(self, name: str) -> None:
        deleted = self.image.topic_ids.pop(name)
        del self.image.topics[deleted]
        self.topics.changed(deleted)

    # Requests ------------------------------------------------------------------------------------

    def send(
        self,
        member: str,
        epoch: int,
        *,
        group: str = "g",
        topics: Sequence[str] | None = None,
        regex: str | None = None,
        may_describe: Callable[[str], bool] | None = None,
        owned: Mapping[Uuid, Sequence[int]] | None = None,
        instance: str | None = None,
        assignor: str | None = None,
        revoke_ms: int = -1,
        version: int = 1,
    ) -> int:
        """Send a ConsumerGroupHeartbeat; return its number."""
        pending = self._next_number()
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member,
            member_epoch=epoch,
            instance_id=instance,
            rebalance_timeout_ms=revoke_ms,
            subscribed_topic_names=topics,
            subscribed_topic_regex=regex,
            server_assignor=assignor,
            topic_partitions=None
            if owned is None
            else [
                TopicPartitions(topic_id=each, partitions=indexes)
                for each, indexes in owned.items()
            ],
        )
        context = RequestContext(version, "c", "/127.0.0.1", may_describe)
        self.shard.consumer_group_heartbeat(pending, context, request, self.now)
        self.settle()
        return pending

    def beat(self, member: str, epoch: int, **fields: Any) -> Any:
        """Send a heartbeat and return the response."""
        return self.outcome(self.send(member, epoch, **fields))

    def send_join(self, member: str, *topics: str, **fields: Any) -> int:
        fields = {"topics": topics or ("t",), "owned": {}, "revoke_ms": REVOKE_MS, **fields}
        return self.send(member, 0, **fields)

    def enter(self, member: str, *topics: str, **fields: Any) -> Any:
        """Let a member join; return the response."""
        return self.outcome(self.send_join(member, *topics, **fields))

    def share_topic(self) -> tuple[int, int]:
        """Let `a` and `b` join and settle with half of `t` each; return their epochs."""
        a = self.enter("a").member_epoch
        self.enter("b")
        a = self.beat("a", a, owned={T: range(6)}).member_epoch
        a = self.beat("a", a, owned={T: range(3)}).member_epoch
        b = self.beat("b", self.group.members["b"].epoch).member_epoch
        return a, b

    def send_heartbeat(self, request: HeartbeatRequest) -> int:
        """Send a heartbeat of the classic protocol; return its number."""
        pending = self._next_number()
        self.shard.heartbeat(pending, request, self.now)
        self.settle()
        return pending

    def leave_without_waiting(self, member: str) -> None:
        """Send LeaveGroup for a member."""
        request = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=member)])
        self.shard.leave_group(self._next_number(), RequestContext(5), request, self.now)
        self.settle()

    # State ---------------------------------------------------------------------------------------

    @property
    def group(self) -> ConsumerGroup:
        return self.shard.consumer_groups["g"]

    def group_state(self) -> str:
        found = self.shard.consumer_groups.get("g")
        return "none" if found is None else found.state

    def written(self, first: int = 0) -> list[tuple[Any, Any]]:
        """The records in the log from an offset on, as messages."""
        return [
            (decoded, OFFSETS_LOG.decode_value(number, value))
            for _, key, value in self.log[first:]
            for number, decoded in [OFFSETS_LOG.decode_key(key)]
        ]


def assigned(response: Any) -> dict[Uuid, list[int]] | None:
    """The assignment of a response by topic id."""
    if response.assignment is None:
        return None
    return {each.topic_id: list(each.partitions) for each in response.assignment.topic_partitions}


def described(group: ConsumerGroup) -> dict[str, Any]:
    """Everything of a group that records determine."""
    return {
        name: deepcopy(getattr(group, name))
        for name in ConsumerGroup.__slots__
        if name not in {"timers", "checked_version", "is_resolving"}
    }
