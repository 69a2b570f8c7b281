"""Membership in a consumer group: the classic protocol with the range assignor.

There is no background thread: polling sends heartbeats, so a member that processes records for
longer than the session timeout is removed from the group.
"""

from __future__ import annotations

from kraftlog.client.deadline import Deadline
from kraftlog.errors import ErrorCode, RefusedError
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)
from kraftlog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kraftlog.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from kraftlog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kraftlog.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from kraftlog.wire.record_frames import decode_consumer_protocol, encode_versioned

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kraftlog.client.cluster import Cluster, ErrorContext
    from kraftlog.client.model import PartitionName

PROTOCOL_TYPE = "consumer"
ASSIGNOR = "range"
SESSION_TIMEOUT_S = 45.0
REBALANCE_TIMEOUT_S = 60.0
HEARTBEAT_S = 3.0
#: Interval at which the group leader checks for new partitions.
PARTITION_CHECK_S = 30.0

#: Errors after which a member rejoins, with its id or with a new one.
_REJOIN = {ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION}
_REJOIN_WITH_NEW_ID = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID}


class GroupMembership:
    """A member of a group: joins it, sends heartbeats and leaves it."""

    def __init__(self, cluster: Cluster, group: str, topics: Sequence[str]) -> None:
        self._cluster = cluster
        self._group = group
        self._topics = tuple(sorted(topics))
        self.member_id = ""
        self.generation = -1
        self._is_joined = False
        self._next_heartbeat = Deadline(0)
        self._next_partition_check = Deadline(0)
        #: As group leader: the partition count of each subscribed topic that exists.
        self._partition_counts: dict[str, int] = {}

    def join(self) -> list[PartitionName]:
        """Join the group, again if it rebalances meanwhile; return the assigned partitions."""
        while True:
            try:
                return self._sync(self._join())
            except RefusedError as error:
                if not self._must_rejoin(error):
                    raise

    def heartbeat(self) -> bool:
        """Send a heartbeat if due; False if the member must rejoin."""
        if not self._is_joined:
            return False
        if self._partition_counts and self._next_partition_check.is_over:
            self._next_partition_check = Deadline(PARTITION_CHECK_S)
            if self._count_partitions(self._partition_counts) != self._partition_counts:
                self._is_joined = False
                return False
        if not self._next_heartbeat.is_over:
            return True
        request = HeartbeatRequest(
            group_id=self._group, generation_id=self.generation, member_id=self.member_id
        )
        try:
            self._cluster.call_coordinator(
                self._group,
                request,
                HeartbeatResponse,
                check=lambda response, context: context.check(
                    response.error_code, f"group {self._group}"
                ),
            )
        except RefusedError as error:
            if not self._must_rejoin(error):
                raise
            return False
        self._next_heartbeat = Deadline(HEARTBEAT_S)
        return True

    def leave(self) -> None:
        """Leave the group, so that it need not wait for the session timeout."""
        if not self.member_id:
            return
        request = LeaveGroupRequest(group_id=self._group, member_id=self.member_id)
        self._is_joined = False
        self._cluster.call_coordinator(self._group, request, LeaveGroupResponse)

    def _must_rejoin(self, error: RefusedError) -> bool:
        """Record that the member has not joined; return whether rejoining handles this error."""
        self._is_joined = False
        if error.code in _REJOIN_WITH_NEW_ID:
            self.member_id, self.generation = "", -1
        return error.code in _REJOIN or error.code in _REJOIN_WITH_NEW_ID

    def _join(self) -> JoinGroupResponse:
        subscription = encode_versioned(ConsumerProtocolSubscription(topics=self._topics), 0)
        request = JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=int(SESSION_TIMEOUT_S * 1000),
            rebalance_timeout_ms=int(REBALANCE_TIMEOUT_S * 1000),
            member_id=self.member_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=ASSIGNOR, metadata=subscription)],
        )

        def check(response: JoinGroupResponse, context: ErrorContext) -> None:
            if response.error_code != ErrorCode.MEMBER_ID_REQUIRED:
                context.check(response.error_code, f"group {self._group}")

        deadline = Deadline(REBALANCE_TIMEOUT_S + self._cluster.timeout_s)
        joined = self._cluster.call_coordinator(
            self._group, request, JoinGroupResponse, deadline=deadline, check=check
        )
        self.member_id = joined.member_id
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            return self._join()
        self.generation = joined.generation_id
        return joined

    def _sync(self, joined: JoinGroupResponse) -> list[PartitionName]:
        self._partition_counts = {}
        assignments: dict[str, list[PartitionName]] = {}
        if joined.leader == self.member_id:
            subscriptions = {
                each.member_id: read_subscription(each.metadata) for each in joined.members
            }
            self._partition_counts = self._count_partitions(
                {topic for topics in subscriptions.values() for topic in topics}
            )
            self._next_partition_check = Deadline(PARTITION_CHECK_S)
            assignments = range_assignment(subscriptions, self._partition_counts)
        request = SyncGroupRequest(
            group_id=self._group,
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=joined.protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=member, assignment=_assignment(partitions))
                for member, partitions in assignments.items()
            ],
        )
        synced = self._cluster.call_coordinator(
            self._group,
            request,
            SyncGroupResponse,
            deadline=Deadline(REBALANCE_TIMEOUT_S + self._cluster.timeout_s),
            check=lambda response, context: context.check(
                response.error_code, f"group {self._group}"
            ),
        )
        self._is_joined = True
        self._next_heartbeat = Deadline(HEARTBEAT_S)
        return read_assignment(synced.assignment)

    def _count_partitions(self, topics: Mapping[str, int] | set[str]) -> dict[str, int]:
        """The current partition count of each topic that exists."""
        deadline = self._cluster.deadline()
        result = self._cluster.retry(
            lambda: self._cluster.refresh(sorted(topics), deadline), deadline
        )
        return {each.name or "": len(each.partitions) for each in result if not each.error_code}


def range_assignment(
    subscriptions: Mapping[str, Sequence[str]], counts: Mapping[str, int]
) -> dict[str, list[PartitionName]]:
    """Kafka's RangeAssignor without racks: each subscribed member gets a range of each topic.

    Members are in the order of their ids. If there is a remainder, the first ones get one partition
    more.
    """
    assignments: dict[str, list[PartitionName]] = {member: [] for member in subscriptions}
    for topic, count in sorted(counts.items()):
        members = sorted(member for member, topics in subscriptions.items() if topic in topics)
        start = 0
        for rank, member in enumerate(members):
            size = count // len(members) + (rank < count % len(members))
            assignments[member] += [(topic, index) for index in range(start, start + size)]
            start += size
    return assignments


def read_subscription(data: bytes) -> tuple[str, ...]:
    """The topics of a member's subscription."""
    return tuple(decode_consumer_protocol(ConsumerProtocolSubscription, data).topics)


def read_assignment(data: bytes) -> list[PartitionName]:
    """The partitions of a member's assignment; none if it is empty."""
    if not data:
        return []
    result = decode_consumer_protocol(ConsumerProtocolAssignment, data)
    return [(each.topic, index) for each in result.assigned_partitions for index in each.partitions]


def _assignment(partitions: Sequence[PartitionName]) -> bytes:
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignmentTopicPartition(topic=topic, partitions=tuple(indexes))
            for topic, indexes in topics.items()
        ]
    )
    return encode_versioned(assignment, 0)
