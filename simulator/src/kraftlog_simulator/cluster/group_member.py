"""A member of a consumer group: it joins, gets partitions, and commits and fetches offsets.

The partitions are those of the offsets topic itself, as no administrator removes them. After a
request without a response, a member finds the coordinator again, at any broker. `GroupHistory`
checks the responses.
"""

from __future__ import annotations

from kraftlog.errors import RETRIABLE, ErrorCode
from kraftlog.groups.shard import partition_of
from kraftlog.node.coordinators.group_coordinators import TOPIC
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages import offset_commit as commits
from kraftlog.wire.messages import offset_fetch as fetches
from kraftlog.wire.messages.find_coordinator import FindCoordinatorRequest
from kraftlog.wire.messages.heartbeat import HeartbeatRequest
from kraftlog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kraftlog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kraftlog_simulator.cluster.clients import RETRY_MS, Client
from kraftlog_simulator.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from kraftlog.types import Now
    from kraftlog.wire.schema import Message
    from kraftlog_simulator.cluster.clients import ClientWorld

    #: Called with a response.
    OnSuccess = Callable[[Any, Now], None]

GROUP = "group"
PROTOCOL_TYPE, PROTOCOL = "consumer", "split"
REQUEST_MS = 1000
SESSION_MS, REBALANCE_MS = 1500, 1500
#: The pause between two requests of a member.
GAP_MS = (20, 150)
#: Errors of a coordinator that has moved or is loading: find the coordinator again.
COORDINATOR_MOVED = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)
#: Errors of a rebalance: join again.
REBALANCING = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION)
#: Errors of a coordinator that no longer knows the member: join again, without a member id.
MEMBER_UNKNOWN = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND)
NO_BROKER = -1
#: A time before all commits: a fetch may return any committed offset.
BEFORE_ALL_COMMITS = 0


class GroupMember(Client):
    """Has one request in flight at a time; `generation` is -1 without an assignment."""

    def __init__(self, world: ClientWorld, number: int) -> None:
        super().__init__(world, number)
        self.member_id = ""
        self.generation = -1
        self.partitions: tuple[int, ...] = ()
        #: How many requests in a row have succeeded.
        self.served = 0
        self._coordinator = self._last_coordinator = NO_BROKER
        self.awaits_response = False
        self.is_running = True
        self._due_ms = 0
        #: The assignments of all members, if it is the group's leader.
        self._assignments: Sequence[SyncGroupRequestAssignment] = ()
        #: The generation that it has joined, perhaps without an assignment yet; -1: none.
        self._joined_generation = -1

    def deadline(self) -> int | None:
        return self._due_ms if self.is_running and not self.awaits_response else None

    def work(self, now: Now) -> None:
        if self.awaits_response or not self.is_running or self._due_ms > now.monotonic_ms:
            return
        if self._coordinator == NO_BROKER or not self._topic_id:
            self._find_coordinator()
        elif self._joined_generation < 0:
            self._join()
        elif self.generation < 0:
            self._sync()
        else:
            act = self.rng.pick([self._heartbeat, self._commit, self._commit, self._fetch])
            act(now)

    @property
    def _topic_id(self) -> bytes:
        """The id of the offsets topic; empty until it is known."""
        return next((topic_id for topic_id, name in self.topic_names.items() if name == TOPIC), b"")

    @property
    def _coordinator_is_current(self) -> bool:
        """Whether the coordinator still leads the partition of the group.

        A former leader that has not noticed the change may return older offsets and generations, as
        in Kafka.
        """
        image = self.world.image
        topic = image.topic_named(TOPIC)
        if topic is None:
            return False
        key = topic.id, partition_of(GROUP, topic.partition_count)
        return image.partitions[key].leader == self._coordinator

    # Requests and errors -------------------------------------------------------------------------

    def _request(
        self, api_key: int, request: Message, on_success: OnSuccess, wait_ms: int = REQUEST_MS
    ) -> None:
        """Send a request to the coordinator."""
        self._send(self._coordinator, api_key, request, on_success, wait_ms)

    def _send(
        self, broker: int, api_key: int, request: Message, on_success: OnSuccess, wait_ms: int
    ) -> None:
        def on_response(response: Any, now: Now) -> None:
            self.awaits_response = False
            self._due_ms = now.monotonic_ms + self.rng.between(*GAP_MS)
            if response is None:
                self._coordinator, self.served = NO_BROKER, 0
            else:
                on_success(response, now)

        self.awaits_response = True
        self.send_request(broker, api_key, request, wait_ms, on_response)

    def _is_served(self, what: str, code: int, now: Now) -> bool:
        """Whether a request was served; if not, prepare the next one by the error."""
        self.world.count_response(what, code)
        if not code:
            self.served += 1
            self.world.progress += 1
            return True
        self.served = 0
        self._due_ms = now.monotonic_ms + RETRY_MS
        if code in COORDINATOR_MOVED:
            self._coordinator = NO_BROKER
        elif code in REBALANCING:
            self._joined_generation = self.generation = -1
        elif code in MEMBER_UNKNOWN:
            self._joined_generation = self.generation = -1
            self.member_id = ""
        elif code not in RETRIABLE:
            self._check(f"{what} got error {code}")
        return False

    def _check(self, violation: str) -> None:
        """Fail unless the text of a violation is empty, or committed offsets were lost."""
        if violation and not self.world.has_lost_offsets:
            raise Violation("group", f"{self}: {violation}")

    # Finding, joining ----------------------------------------------------------------------------

    def _find_coordinator(self) -> None:
        request = FindCoordinatorRequest(coordinator_keys=[GROUP])
        self._send(
            self.some_broker(), ApiKey.FIND_COORDINATOR, request, self._on_coordinator, REQUEST_MS
        )

    def _on_coordinator(self, response: Any, now: Now) -> None:
        [coordinator] = response.coordinators
        if self._is_served("coordinator", coordinator.error_code, now):
            if coordinator.node_id != self._last_coordinator >= 0:
                self.world.saw("coordinator moved")
            self._coordinator = self._last_coordinator = coordinator.node_id
            if not self._topic_id:
                self.refresh_soon(now)

    def _join(self) -> None:
        lowest = self.world.groups.generation if self._coordinator_is_current else 0
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=PROTOCOL, metadata=b"")],
        )

        def joined(response: Any, now: Now) -> None:
            if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = response.member_id
            elif self._is_served("join", response.error_code, now):
                self._check(self.world.groups.joined(response.generation_id, lowest))
                self._joined_generation = response.generation_id
                self.member_id = response.member_id
                self._assignments = _split(
                    [member.member_id for member in response.members], self.world
                )
                self._due_ms = now.monotonic_ms

        self._request(ApiKey.JOIN_GROUP, request, joined, REQUEST_MS + REBALANCE_MS)

    def _sync(self) -> None:
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self._joined_generation,
            member_id=self.member_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=PROTOCOL,
            assignments=self._assignments,
        )
        self._request(ApiKey.SYNC_GROUP, request, self._synced, REQUEST_MS + REBALANCE_MS)

    def _synced(self, response: Any, now: Now) -> None:
        if self._is_served("sync", response.error_code, now):
            self.generation, self.partitions = self._joined_generation, tuple(response.assignment)
            groups = self.world.groups
            self._check(groups.assigned(self.member_id, self.generation, self.partitions))

    # Requests of a member with an assignment -----------------------------------------------------

    def _heartbeat(self, _: Now) -> None:
        request = HeartbeatRequest(
            group_id=GROUP, generation_id=self.generation, member_id=self.member_id
        )

        def on_success(response: Any, now: Now) -> None:
            self._is_served("heartbeat", response.error_code, now)

        self._request(ApiKey.HEARTBEAT, request, on_success)

    def _commit(self, now: Now) -> None:
        offsets = {index: self.world.next_value() for index in self.partitions}
        for index, offset in offsets.items():
            self.world.groups.committing(index, offset, now.monotonic_ms)
        request = commits.OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            topics=[
                commits.OffsetCommitRequestTopic(
                    topic_id=self._topic_id,
                    partitions=[
                        commits.OffsetCommitRequestPartition(
                            partition_index=index, committed_offset=offset, committed_metadata=None
                        )
                        for index, offset in offsets.items()
                    ],
                )
            ],
        )

        def committed(response: Any, now: Now) -> None:
            for topic in response.topics:
                for partition in topic.partitions:
                    if not self._is_served("OffsetCommit", partition.error_code, now):
                        return
                    index = partition.partition_index
                    self.world.groups.committed(index, offsets[index], now.monotonic_ms)

        self._request(ApiKey.OFFSET_COMMIT, request, committed)

    def _fetch(self, now: Now) -> None:
        sent_ms = now.monotonic_ms if self._coordinator_is_current else BEFORE_ALL_COMMITS
        indexes = range(self.world.setting.offsets_partitions)
        topic = fetches.OffsetFetchRequestTopics(topic_id=self._topic_id, partition_indexes=indexes)
        group = fetches.OffsetFetchRequestGroup(group_id=GROUP, topics=[topic])
        request = fetches.OffsetFetchRequest(groups=[group], require_stable=self.rng.below(2) == 1)

        def fetched(response: Any, now: Now) -> None:
            [group] = response.groups
            if not self._is_served("OffsetFetch", group.error_code, now):
                return
            for topic in group.topics:
                for partition in topic.partitions:
                    if self._is_served("OffsetFetch", partition.error_code, now):
                        self._check(
                            self.world.groups.fetched(
                                partition.partition_index,
                                partition.committed_offset,
                                sent_ms,
                                now.monotonic_ms,
                            )
                        )

        self._request(ApiKey.OFFSET_FETCH, request, fetched)


def _split(members: Sequence[str], world: ClientWorld) -> list[SyncGroupRequestAssignment]:
    """The partitions, each assigned to one of the members."""
    indexes = range(world.setting.offsets_partitions)
    return [
        SyncGroupRequestAssignment(
            member_id=member,
            assignment=bytes([index for index in indexes if index % len(members) == number]),
        )
        for number, member in enumerate(members)
    ]
