"""The administrator of partitions: removes the last ones of topics, and adds them again (V11).

It does so in half of the runs, while clients use the partitions.
"""

from __future__ import annotations

from collections import Counter

from kraftlog.errors import RETRIABLE, ErrorCode
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages import create_partitions as additions
from kraftlog.wire.messages import remove_partitions as removals
from kraftlog_simulator.cluster.clients import RETRY_MS, Client
from kraftlog_simulator.violation import Violation

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.metadata.values import TopicImage
    from kraftlog.types import Now
    from kraftlog_simulator.cluster.clients import ClientWorld

REQUEST_MS = 2000
#: The pause before each change, and the shorter one after a removal, so that a broker may be down
#: during both the removal and the next addition.
BEFORE_CHANGE_MS, AFTER_REMOVAL_MS = (300, 2000), (10, 400)
MAX_PARTITIONS = 4
#: Errors of a request that was sent twice, or that too few live brokers can satisfy.
EXPECTED = (ErrorCode.INVALID_PARTITIONS, ErrorCode.INVALID_REPLICATION_FACTOR)


class PartitionAdministrator(Client):
    """`counts` has the intended number of partitions of topics, by topic id."""

    def __init__(self, world: ClientWorld, number: int) -> None:
        super().__init__(world, number)
        self.counts: dict[bytes, int] = {}
        self._awaits_response = False
        self._retry_at_ms = 0

    def begin(self) -> None:
        if self.rng.below(2):
            self._schedule_change(BEFORE_CHANGE_MS)

    def _schedule_change(self, pause_ms: tuple[int, int]) -> None:
        world = self.world
        world.schedule(world.time + self.rng.between(*pause_ms), self._change)

    def _change(self) -> None:
        world = self.world
        if world.healed:
            return
        topics = world.image.topics
        used = [
            topic_id
            for topic_id in dict.fromkeys([topic_id for topic_id, _ in world.keys])
            if topic_id in topics
        ]
        removes = False
        if used and self.is_idle:
            topic_id = self.rng.pick(used)
            count = topics[topic_id].partition_count
            removes = count > 1 and (count >= MAX_PARTITIONS or self.rng.below(2) == 1)
            self.counts[topic_id] = count - 1 - self.rng.below(count - 1) if removes else count + 1
            world.saw("partitions removed" if removes else "partition added")
            self.take_turn()
        self._schedule_change(AFTER_REMOVAL_MS if removes else BEFORE_CHANGE_MS)

    def set_count(self, topic_id: bytes, count: int) -> None:
        """Remove or add partitions of a topic, until it has this number."""
        self.counts[topic_id] = count
        self.take_turn()

    @property
    def is_idle(self) -> bool:
        return self._next_topic is None

    @property
    def _next_topic(self) -> TopicImage | None:
        """A topic in use that does not have its intended number of partitions.

        A topic that already had it may differ again: a request without a response may still take
        effect later, and undo a later request, or change a topic that was created again with the
        same name. On the way, clients are given the partitions of each topic that has its intended
        number.
        """
        world = self.world
        for topic_id, used in Counter([topic_id for topic_id, _ in world.keys]).items():
            topic, count = world.image.topics.get(topic_id), self.counts.get(topic_id, used)
            if topic is None:
                continue  # no node has applied its creation yet
            if topic.partition_count != count:
                return topic
            if used != count:
                self._use(topic_id, used, count)
        return None

    def _use(self, topic_id: bytes, used: int, count: int) -> None:
        """Let clients use the partitions that the topic has now."""
        keys = self.world.keys
        keys[:] = [key for key in keys if key[0] != topic_id or key[1] < count]
        keys += [(topic_id, index) for index in range(used, count)]
        self.world.progress += 1

    def deadline(self) -> int | None:
        return None if self._awaits_response or self.is_idle else self._retry_at_ms

    def work(self, now: Now) -> None:
        topic = self._next_topic
        if self._awaits_response or topic is None or self._retry_at_ms > now.monotonic_ms:
            return
        self._awaits_response = True
        current = topic.partition_count
        used = len([topic_id for topic_id, _ in self.world.keys if topic_id == topic.id])
        intended = self.counts.get(topic.id, used)
        request: Any
        if intended > current:
            added = additions.CreatePartitionsTopic(
                name=topic.name, count=intended, assignments=None
            )
            request = additions.CreatePartitionsRequest(
                topics=[added], timeout_ms=REQUEST_MS, validate_only=False
            )
            api_key = ApiKey.CREATE_PARTITIONS
        else:
            removed = removals.RemovePartitionsTopic(
                name=topic.name, partitions=range(intended, current)
            )
            request = removals.RemovePartitionsRequest(topics=[removed], timeout_ms=REQUEST_MS)
            api_key = ApiKey.REMOVE_PARTITIONS
        self.send_request(self.some_broker(), api_key, request, REQUEST_MS, self._on_response)

    def _on_response(self, response: Any, now: Now) -> None:
        self._awaits_response = False
        self._retry_at_ms = now.monotonic_ms + RETRY_MS
        if response is None:
            return
        [result] = response.results
        self.world.count_response("partitions", result.error_code)
        code = result.error_code
        if code and code not in RETRIABLE and code not in EXPECTED:
            raise Violation("administrator", f"{result.name}: {code} {result.error_message}")
