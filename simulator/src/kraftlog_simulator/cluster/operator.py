"""The operator: moves logs between directories, and requests unclean elections.

The latter where no replica may be elected: at the end of a run, or while disks are away.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kraftlog.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kraftlog_simulator.cluster.clients import RETRY_MS, Client

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from kraftlog.metadata.values import PartitionKey
    from kraftlog.types import Now
    from kraftlog_simulator.cluster.clients import ClientWorld

REQUEST_MS = 2000
UNCLEAN = 1


class Operator(Client):
    """Requests each move once, and unclean elections until the partitions have leaders."""

    def __init__(self, world: ClientWorld, number: int) -> None:
        super().__init__(world, number)
        #: The partitions to elect leaders for.
        self._keys: list[PartitionKey] = []
        self._awaits_response = False
        self._retry_at_ms = 0

    def move_log(self, broker: int, path: str, topic: str, index: int) -> None:
        """Request that a broker moves a log to another of its directories."""
        moved = AlterReplicaLogDirTopic(name=topic, partitions=[index])
        request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=[moved])])
        api_key = ApiKey.ALTER_REPLICA_LOG_DIRS
        self.turn(
            "moves a log",
            lambda _: self.send_request(broker, api_key, request, REQUEST_MS, self._on_move),
        )

    def _on_move(self, response: Any, _: Now) -> None:
        if response is not None:
            code = response.results[0].partitions[0].error_code
            self.world.count_response("move between directories", code)

    def elect_leaders(self, keys: Iterable[PartitionKey]) -> None:
        self._keys += keys
        self.take_turn()

    @property
    def _leaderless(self) -> list[PartitionKey]:
        partitions, topics = self.world.image.partitions, self.world.image.topics
        # a topic is removed before its partitions, which may take many turns
        keys = [key for key in self._keys if key in partitions and key[0] in topics]
        return [key for key in keys if partitions[key].leader < 0]

    def deadline(self) -> int | None:
        return self._retry_at_ms if self._leaderless and not self._awaits_response else None

    def work(self, now: Now) -> None:
        keys = self._leaderless
        if not keys or self._awaits_response or self._retry_at_ms > now.monotonic_ms:
            return
        self._awaits_response = True
        topics = self.world.image.topics
        request = ElectLeadersRequest(
            election_type=UNCLEAN,
            topic_partitions=[
                TopicPartitions(topic=topics[topic_id].name, partitions=[index])
                for topic_id, index in keys
            ],
            timeout_ms=REQUEST_MS,
        )
        self.send_request(
            self.some_broker(), ApiKey.ELECT_LEADERS, request, REQUEST_MS, self._on_response
        )

    def _on_response(self, response: Any, now: Now) -> None:
        self._awaits_response = False
        self._retry_at_ms = now.monotonic_ms + RETRY_MS
        if response is not None:
            for topic in response.replica_election_results:
                for partition in topic.partition_result:
                    self.world.count_response("unclean election", partition.error_code)
