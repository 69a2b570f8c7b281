"""The administrator of topics: creates them at any broker, and retries until they exist.

In half of the runs it deletes a topic and creates it again. Independently, if there are more
brokers than replicas, it reassigns partitions in half of the runs.
"""

from __future__ import annotations

from kraftlog.errors import RETRIABLE, ErrorCode
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages import alter_partition_reassignments as reassignments
from kraftlog.wire.messages import create_topics as creates
from kraftlog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kraftlog_simulator.cluster.clients import RETRY_MS, Client
from kraftlog_simulator.violation import Violation

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.types import Now

REQUEST_MS = 2000
#: The names of the topics that it creates begin so.
PREFIX = "topic-"
#: When, after the beginning, a topic is recreated, and when a partition is reassigned.
CHANGE_MS = (500, 6000)


class TopicAdministrator(Client):
    """Creates and deletes topics, and reassigns partitions."""

    #: The partition count of each topic that is to be created, by its name.
    missing_topics: dict[str, int]
    #: The topic that is to be deleted: name, id, and number of partitions.
    topic_to_delete: tuple[str, bytes, int] | None = None
    _awaits_response = False
    _retry_at_ms = 0

    #: Reassignments to be requested: topic name, partition index, and the new replicas.
    moves: list[tuple[str, int, list[int]]]

    def begin(self) -> None:
        partitions = self.world.setting.partitions
        names = [f"{PREFIX}{number}" for number in range(len(partitions))]
        self.missing_topics = dict(zip(names, partitions, strict=True))
        self.moves = []
        setting = self.world.setting
        if len(setting.brokers) > setting.replication and self.rng.below(2):
            for _ in range(1 + self.rng.below(3)):
                self.world.schedule(self.world.time + self.rng.between(*CHANGE_MS), self._move)
        if self.rng.below(2):
            self.world.schedule(self.world.time + self.rng.between(*CHANGE_MS), self._recreate)
        self.take_turn()

    @property
    def is_idle(self) -> bool:
        return self.topic_to_delete is None and not self.missing_topics and not self.moves

    def _move(self) -> None:
        world = self.world
        if world.healed or not world.keys:
            return
        topic_id, index = self.rng.pick(world.keys)
        replicas = self.rng.some(world.setting.brokers, world.setting.replication)
        if topic_id in world.image.topics:
            self.moves.append((world.image.topics[topic_id].name, index, replicas))
            world.saw("partition moved")
            self.take_turn()

    def _recreate(self) -> None:
        world = self.world
        if world.healed or not self.is_idle:
            return
        topic = self.rng.pick(
            [topic for topic in world.image.topics.values() if topic.name.startswith(PREFIX)]
        )
        self.topic_to_delete = topic.name, topic.id, topic.partition_count
        world.keys = [key for key in world.keys if key[0] != topic.id]
        world.saw("topic recreated")
        self.take_turn()

    def deadline(self) -> int | None:
        return None if self.is_idle or self._awaits_response else self._retry_at_ms

    def work(self, now: Now) -> None:
        if self._awaits_response or self.is_idle or self._retry_at_ms > now.monotonic_ms:
            return
        self._awaits_response = True
        if self.topic_to_delete is not None:
            request = DeleteTopicsRequest(
                topics=[DeleteTopicState(topic_id=self.topic_to_delete[1])], timeout_ms=REQUEST_MS
            )
            self.send_request(
                self.some_broker(), ApiKey.DELETE_TOPICS, request, REQUEST_MS, self._deleted
            )
        elif self.missing_topics:
            self._create()
        else:
            name, index, replicas = self.moves[0]
            moved = reassignments.ReassignablePartition(partition_index=index, replicas=replicas)
            alter = reassignments.AlterPartitionReassignmentsRequest(
                timeout_ms=REQUEST_MS,
                topics=[reassignments.ReassignableTopic(name=name, partitions=[moved])],
            )
            broker = self.some_broker()
            api_key = ApiKey.ALTER_PARTITION_REASSIGNMENTS
            self.send_request(broker, api_key, alter, REQUEST_MS, self._moved)

    def _moved(self, response: Any, now: Now) -> None:
        self._awaits_response = False
        self._retry_at_ms = now.monotonic_ms + RETRY_MS
        if response is None or response.error_code:
            return
        code = response.responses[0].partitions[0].error_code
        self.world.count_response("reassignment", code)
        self.moves.pop(0)  # also if it was refused because the topic was deleted
        self.world.progress += 1

    def _deleted(self, response: Any, now: Now) -> None:
        self._awaits_response = False
        self._retry_at_ms = now.monotonic_ms + RETRY_MS
        if response is None or self.topic_to_delete is None:
            return
        code = response.responses[0].error_code
        if code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID):  # an earlier attempt succeeded
            name, _, count = self.topic_to_delete
            self.missing_topics[name], self.topic_to_delete = count, None
        elif code not in RETRIABLE:
            raise Violation("administrator", f"deleting {self.topic_to_delete[0]}: error {code}")

    def _create(self) -> None:
        setting = self.world.setting
        configs = {"min.insync.replicas": setting.min_insync}
        if setting.flushes:
            configs["flush.messages"] = 1
        request = creates.CreateTopicsRequest(
            topics=[
                creates.CreatableTopic(
                    name=name,
                    num_partitions=count,
                    replication_factor=setting.replication,
                    assignments=[],
                    configs=[
                        creates.CreatableTopicConfig(name=key, value=str(value))
                        for key, value in configs.items()
                    ],
                )
                for name, count in self.missing_topics.items()
            ],
            timeout_ms=REQUEST_MS,
        )
        self.send_request(
            self.some_broker(), ApiKey.CREATE_TOPICS, request, REQUEST_MS, self._on_response
        )

    def _on_response(self, response: Any, now: Now) -> None:
        self._awaits_response = False
        self._retry_at_ms = now.monotonic_ms + RETRY_MS
        for topic in response.topics if response is not None else ():
            code = topic.error_code
            if not code:
                self._created(topic.name, topic.topic_id)
            elif code == ErrorCode.TOPIC_ALREADY_EXISTS:
                existing = self.world.image.topic_named(topic.name)
                if existing is not None:
                    self._created(topic.name, existing.id)
            elif code not in RETRIABLE and code != ErrorCode.INVALID_REPLICATION_FACTOR:
                raise Violation("administrator", f"{topic.name}: {code} {topic.error_message}")

    def _created(self, name: str, topic_id: bytes) -> None:
        count = self.missing_topics.pop(name, 0)
        self.world.keys += [(topic_id, index) for index in range(count)]
        self.world.progress += 1
