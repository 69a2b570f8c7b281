"""Members of the classic protocol that share topics, alone or in a group of both protocols."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kraftlog.errors import ErrorCode
from kraftlog.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)
from kraftlog.wire.messages.heartbeat import HeartbeatRequest
from kraftlog.wire.record_frames import decode_consumer_protocol, encode_versioned

if TYPE_CHECKING:
    from kraftlog.types import Uuid
    from tests.groups.consumer.consumer_harness import ConsumerHarness

#: Errors after which a member joins again: with its id, or as a new member.
REJOIN = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
}
REJOIN_AS_NEW = {ErrorCode.UNKNOWN_MEMBER_ID}


class ClassicMember:
    """An eager member: it gives up all partitions before it joins again."""

    instance = None
    is_fenced = False

    def __init__(self, harness: ConsumerHarness, topics: tuple[str, ...]) -> None:
        self.harness, self.topics = harness, topics
        self.name = ""
        self.generation = -1
        self.has_assignment = False
        self._seen: list[tuple[Uuid, int]] = []
        self.owned: dict[Uuid, set[int]] = {}
        self._pending: int | None = None
        self._request = ""

    @property
    def is_waiting(self) -> bool:
        return self._pending is not None and self._pending not in self.harness.responses

    @property
    def partitions(self) -> list[tuple[Uuid, int]]:
        return [(topic, index) for topic, indexes in self.owned.items() for index in indexes]

    def step(self) -> None:
        if self.is_waiting:
            return
        pending, self._pending = self._pending, None
        if pending is not None:
            self._handle(self.harness.outcome(pending))
        elif self.has_assignment and self._seen == self._topics_now():
            self._send_heartbeat()
        else:
            self._send_join()

    def subscribe(self, topics: tuple[str, ...]) -> None:
        self.topics = topics
        self._give_up()

    def leave(self, _: int = -1) -> None:
        self._give_up()
        if self.name:
            self.harness.leave_without_waiting(self.name)

    def _topics_now(self) -> list[tuple[Uuid, int]]:
        """Its topics as the metadata have them; a consumer joins again when they change."""
        image = self.harness.image
        ids = [image.topic_ids[name] for name in self.topics if name in image.topic_ids]
        return [(each, image.topics[each].partition_count) for each in ids]

    def _send_join(self) -> None:
        self._give_up()
        self._seen = self._topics_now()
        subscription = ConsumerProtocolSubscription(topics=self.topics)
        protocols = (("range", encode_versioned(subscription, 1)),)
        self._request = "join"
        self._pending = self.harness.join(self.name, protocols=protocols)

    def _send_heartbeat(self) -> None:
        request = HeartbeatRequest(group_id="g", generation_id=self.generation, member_id=self.name)
        self._request = "heartbeat"
        self._pending = self.harness.send_heartbeat(request)

    def _handle(self, response: Any) -> None:
        code = response.error_code
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            self.name = response.member_id
        elif code:
            assert code in REJOIN | REJOIN_AS_NEW, f"unexpected error {code}"
            self._give_up()
            if code in REJOIN_AS_NEW:
                self.name = ""
        elif self._request == "join":
            self._sync(response)
        elif self._request == "sync":
            self.has_assignment = True
            self.owned = self._decoded(response.assignment)

    def _give_up(self) -> None:
        self.owned, self.has_assignment = {}, False

    def _sync(self, joined: Any) -> None:
        self.name, self.generation = joined.member_id, joined.generation_id
        assignments = self._assign(joined.members) if joined.members else None
        self._request = "sync"
        self._pending = self.harness.sync(
            self.name,
            self.generation,
            assignments,
            protocol="range",
            protocol_type="consumer",
        )

    def _assign(self, members: Any) -> dict[str, bytes]:
        """As the leader: give each topic's partitions in turn to its subscribers."""
        image = self.harness.image
        parts: dict[str, dict[str, list[int]]] = {each.member_id: {} for each in members}
        wanted = {
            each.member_id: decode_consumer_protocol(ConsumerProtocolSubscription, each.metadata)
            for each in members
        }
        for name, topic_id in image.topic_ids.items():
            subscribers = [each for each in parts if name in wanted[each].topics]
            for index in range(image.topics[topic_id].partition_count if subscribers else 0):
                member_id = subscribers[index % len(subscribers)]
                parts[member_id].setdefault(name, []).append(index)
        return {
            member_id: encode_versioned(
                ConsumerProtocolAssignment(
                    assigned_partitions=[
                        ConsumerProtocolAssignmentTopicPartition(topic=name, partitions=indexes)
                        for name, indexes in part.items()
                    ]
                ),
                1,
            )
            for member_id, part in parts.items()
        }

    def _decoded(self, raw: bytes) -> dict[Uuid, set[int]]:
        if not raw:
            return {}
        assignment = decode_consumer_protocol(ConsumerProtocolAssignment, raw)
        ids = self.harness.image.topic_ids
        return {
            ids[part.topic]: set(part.partitions)
            for part in assignment.assigned_partitions
            if part.topic in ids
        }
