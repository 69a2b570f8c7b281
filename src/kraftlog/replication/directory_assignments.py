"""`DirectoryAssignments`: reports the log directory of each replica to the controller (KIP-858).

The controller must know it before it can take the replicas of a failed directory out of the ISR
(V18). A broker with a single directory need not report it.

A request without an outcome may still be decided, after later ones: if the metadata then names a
directory other than the last one reported, that one is reported again. That holds beyond the
removal of a replica, as its partition may be added again under the same id.
"""

from __future__ import annotations

from kraftlog.backoff import Backoff
from kraftlog.errors import ErrorCode
from kraftlog.metadata.values import DirectoryId, is_reserved
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    DirectoryData,
    PartitionData,
    TopicData,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from kraftlog.ports.logs import LogReader
    from kraftlog.replication.partition import Partition
    from kraftlog.replication.replicating_node import ReplicatingNode
    from kraftlog.types import Now, Uuid

    Key = tuple[Uuid, int]

#: The most partitions in one request; Kafka's limit is 2,250.
MAX_PARTITIONS = 2000
#: First and longest backoff after a request that failed.
RETRY_MS, LONGEST_RETRY_MS = 50, 5_000
#: The most removed replicas that are remembered; the oldest are forgotten first.
MAX_REMOVED = 10_000
#: The broker epoch before the registration.
UNREGISTERED = -1


class DirectoryAssignments:
    """Sends AssignReplicasToDirs to the controller, and sends it again until it has succeeded."""

    def __init__(self, broker_id: int, node: ReplicatingNode) -> None:
        self._broker_id = broker_id
        self._node = node
        #: The directories that are still to be reported.
        self._waiting: dict[Key, Uuid] = {}
        #: The last directory reported for each replica.
        self._reported: dict[Key, Uuid] = {}
        #: The removed replicas about which a report may still be decided, of topics that exist.
        self._removed: dict[Key, None] = {}
        self._is_in_flight = False
        self._due_ms = 0
        self._backoff = Backoff(RETRY_MS, LONGEST_RETRY_MS)

    def assign(self, key: Key, directory: Uuid) -> None:
        """Report a replica's directory, because the metadata has another one, or none."""
        self._waiting[key] = self._reported[key] = directory

    def opened(self, key: Key, directory: Uuid) -> None:
        """The log of a replica is in this directory; the metadata need not have it.

        If the replica had been removed, what was reported of the earlier one may still be decided.
        """
        if key in self._removed:
            del self._removed[key]
            self._reported.setdefault(key, directory)

    def replayed(self, key: Key, recorded: Uuid) -> None:
        """The metadata names this directory: report the right one again if it is another.

        Not that a replica is lost or has failed: an unclean election may have chosen it.
        """
        reported = self._reported.get(key, recorded)
        if reported != recorded and not is_reserved(reported):
            self._waiting[key] = reported

    def reported(self, key: Key, directory: Uuid) -> Uuid:
        """The last directory reported for a replica, or this one: a log in it may be moving."""
        return self._reported.get(key, directory)

    def is_settled(self, key: Key) -> bool:
        """Whether the controller has decided about all that was reported for a replica."""
        return key not in self._waiting

    @property
    def reports_lost(self) -> bool:
        """Whether the controller has yet to learn that a replica has lost its log."""
        return DirectoryId.LOST in self._waiting.values()

    def forget(self, key: Key, *, may_return: bool) -> None:
        """Do not report the directory of a removed replica; it may return if its topic exists."""
        self._waiting.pop(key, None)
        if self._reported.pop(key, None) is None or not may_return:
            return
        self._removed[key] = None
        if len(self._removed) > MAX_REMOVED:
            del self._removed[next(iter(self._removed))]

    def deadline(self) -> int | None:
        return self._due_ms if self._waiting and not self._is_in_flight else None

    def poll(self, now: Now) -> None:
        due_ms = self.deadline()
        if due_ms is None or due_ms > now.monotonic_ms:
            return
        if self._node.broker_epoch() == UNREGISTERED:
            self._back_off(now)
            return
        sent = dict(list(self._waiting.items())[:MAX_PARTITIONS])
        self._is_in_flight = True
        api_key = ApiKey.ASSIGN_REPLICAS_TO_DIRS
        self._node.send_to_controller(
            api_key,
            APIS[api_key].last,
            self._request(sent),
            lambda response, now: self._on_response(sent, response, now),
            now,
        )

    def postpone(self, now: Now) -> None:
        """`poll` has raised: try again later."""
        self._is_in_flight = False
        self._back_off(now)

    def _back_off(self, now: Now) -> None:
        self._due_ms = now.monotonic_ms + self._backoff.next_ms()

    def _request(self, sent: dict[Key, Uuid]) -> AssignReplicasToDirsRequest:
        directories: dict[Uuid, dict[Uuid, list[PartitionData]]] = {}
        for (topic_id, index), directory in sent.items():
            topics = directories.setdefault(directory, {})
            topics.setdefault(topic_id, []).append(PartitionData(partition_index=index))
        return AssignReplicasToDirsRequest(
            broker_id=self._broker_id,
            broker_epoch=self._node.broker_epoch(),
            directories=[
                DirectoryData(
                    id=directory,
                    topics=[
                        TopicData(topic_id=topic_id, partitions=partitions)
                        for topic_id, partitions in topics.items()
                    ],
                )
                for directory, topics in directories.items()
            ],
        )

    def _on_response(self, sent: dict[Key, Uuid], response: Any, now: Now) -> None:
        """Forget reports with an outcome; a partition's error means that its replica is gone."""
        self._is_in_flight = False
        if response is None or response.error_code != ErrorCode.NONE:
            self._back_off(now)
            return
        self._backoff.reset()
        self._due_ms = now.monotonic_ms
        for directory in response.directories:
            for topic in directory.topics:
                for partition in topic.partitions:
                    key = topic.topic_id, partition.partition_index
                    if self._waiting.get(key) == directory.id == sent.get(key):
                        del self._waiting[key]


def open_directories(
    partitions: Mapping[Key, Partition], logs: LogReader
) -> Iterator[tuple[Key, Uuid]]:
    """The directory of each open log.

    They are checked again after each registration: another process with the broker's id may have
    been registered meanwhile, and have reported its own directories (V18).
    """
    for key, partition in partitions.items():
        directory = logs.directory_of(partition.log) if partition.is_open else None
        if directory is not None:
            yield key, directory.id
