"""Three nodes that replicate partitions, under random requests in the name of their followers.

As in `three_nodes`, but every partition has three replicas, and requests between brokers and to
the controller name existing epochs, or extreme ones. A Fetch may be sent in the name of a follower,
so the leader may count records as replicated that are not. No node fails, no response has
UNKNOWN_SERVER_ERROR, and in the end all nodes have the same image, and the logs of a partition's
in-sync replicas have the same end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kraftlog.node.api_table import SERVED
from kraftlog.types import LogName
from kraftlog.wire.apis import BROKER, ApiKey
from tests.node.fuzzed_node import InformedSampler
from tests.node.three_nodes import NODES, ThreeNodes
from tests.wire.samples import RANGES

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The probability that a request is one of `BETWEEN_NODES`.
BETWEEN_NODES_RATE = 0.5
BETWEEN_NODES = (
    ApiKey.FETCH,
    ApiKey.FETCH,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.ALTER_PARTITION,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS,
    ApiKey.ALTER_REPLICA_LOG_DIRS,
    ApiKey.ALLOCATE_PRODUCER_IDS,
    ApiKey.BROKER_REGISTRATION,
    ApiKey.BROKER_HEARTBEAT,
    ApiKey.CONTROLLER_REGISTRATION,
    ApiKey.UNREGISTER_CONTROLLER,
    ApiKey.ENVELOPE,
    ApiKey.ELECT_LEADERS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.REMOVE_PARTITIONS,
    ApiKey.DELETE_RECORDS,
    ApiKey.UNREGISTER_BROKER,
)
#: The first version of Fetch in which a follower is named by its id and its broker epoch.
FIRST_WITH_REPLICA_STATE = 15


class ClusterSampler(InformedSampler):
    """Requests with the epochs of partitions and brokers, and now and then an extreme one."""

    def primitive(self, kind: str, name: str = "") -> object:
        random = self.random
        if kind in RANGES and name.endswith("epoch") and random.random() < 1 - self.existing_rate:
            low, high = RANGES[kind]
            return random.choice((low, high, high - 1, -1, -2, 0, 1, 2, 100))
        return super().primitive(kind, name)

    def existing(self, kind: str, name: str) -> Sequence[Any]:
        image = self.target.host.node.image
        partitions = image.partitions.values()
        if name == "partition_epoch":
            return [each.partition_epoch for each in partitions]
        if name in {"leader_epoch", "current_leader_epoch", "last_fetched_epoch"}:
            return [each.leader_epoch for each in partitions]
        if kind == "uuid" and name in {"id", "directory"}:
            return [it for broker in image.brokers.values() for it in broker.directories]
        if kind == "int32" and (
            name.endswith("_id") or name in {"broker_ids", "replicas", "new_isr"}
        ):
            return super().existing(kind, name) if name == "session_id" else [*NODES, *NODES, 4, -1]
        if name in {"fetch_offset", "offset", "log_start_offset"}:
            return [0, 1, 2, 5, 20]
        return super().existing(kind, name)


class ReplicatingNodes(ThreeNodes):
    """Every topic has three replicas; followers fetch from the listeners of brokers."""

    more_settings = (
        "default.replication.factor=3\nmin.insync.replicas=2\nreplica.fetch.wait.max.ms=100\n"
    )
    replication_factor = 3
    sampler_type = ClusterSampler

    def next_case(self) -> tuple[int, int]:
        if self.random.random() < BETWEEN_NODES_RATE:
            key = self.random.choice(BETWEEN_NODES)
            return key, self.random.choice(SERVED[key].versions)
        return super().next_case()

    def alter_request(self, key: int, request: Any) -> Any:
        """Change most fetches to those of a follower; send no request that changes the voters."""
        if key in {ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER, ApiKey.UPDATE_RAFT_VOTER}:
            return None
        if key != ApiKey.FETCH or self.listener != BROKER:
            return super().alter_request(key, request)
        brokers = [*self.host.node.image.brokers.values()]
        if not brokers or self.random.random() < 0.2:
            return request
        broker = self.random.choice(brokers)
        epoch = self.random.choice((broker.epoch, broker.epoch, broker.epoch - 1, -1, 2**63 - 1))
        if self.version < FIRST_WITH_REPLICA_STATE:
            return request.replace(replica_id=broker.id)
        state = request.replica_state.replace(replica_id=broker.id, replica_epoch=epoch)
        return request.replace(replica_state=state)

    def deliver_reports(self) -> None:
        super().deliver_reports()
        for _, response in self.client.take() if self.client is not None else ():
            self.check_response(response)

    def check(self) -> None:
        super().check()
        self._check_replicas()

    def _check_replicas(self) -> None:
        """Check that the logs of a partition's in-sync replicas have the same end."""
        compared = 0
        for partition in self._leader().node.image.partitions.values():
            if partition.leader < 0:
                continue
            topic = self._leader().node.image.topics[partition.topic_id].name
            name: LogName = (topic, partition.index)
            ends = {
                node_id: self.hosts[node_id].runner.directory.logs[name].end_offset
                for node_id in partition.isr
                if node_id in self.hosts
            }
            assert len({*ends.values()}) <= 1, f"{name}: {ends}"
            compared += len(ends)
        self.done.append(f"{compared} replicas compared")
