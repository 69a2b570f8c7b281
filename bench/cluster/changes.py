"""The cost of one metadata change while the cluster has few or very many partitions."""

from __future__ import annotations

import os
import time
from contextlib import closing
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

from bench.beside import frame_client
from bench.cluster.latency import creation_times_ms
from bench.cluster.nodes import has_full_isr, metadata, wait_until_each
from bench.cluster.wide import create_partitions, wait_until_idle
from kraftlog.client.deadline import Deadline
from kraftlog.errors import ErrorCode
from kraftlog.records.reader import read_records
from kraftlog.records.walk import walk
from kraftlog.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    TopicData,
)
from kraftlog.wire.messages.metadata_records import RegisterBrokerRecord
from kraftlog.wire.record_frames import decode_metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench.beside.figures import Result
    from bench.beside.plan import Plan
    from bench.cluster.nodes import Cluster
    from kraftlog.client.connection import Connection

#: Partitions in the cluster, which have one replica each.
SIZES = (1_000, 10_000, 100_000)
TOPIC = "changed"
#: A long interval, as requests add to the CPU time of the nodes.
RETRY_INTERVAL_S = 0.05
CHANGES = 50


def changes(cluster: Cluster, plan: Plan, result: Result) -> None:
    """Measure topic creations and changes of an ISR while the cluster grows."""
    cluster.create_topic(TOPIC)
    isr = IsrChanges(cluster, TOPIC)
    count = plan.count(CHANGES, minimum=5)
    previous_size = 0
    creation_times_ms(cluster, "first", 5)
    isr.shrink()
    for size in SIZES:
        create_partitions(cluster, plan.count(size - previous_size), prefix=f"with-{size}")
        previous_size = size
        key = f"cluster.changes.{size}"

        def measure(
            what: str, times_ms: Callable[[], Sequence[float]], count: int, key: str = key
        ) -> None:
            wait_until_idle(cluster)
            used = cluster.cpu_seconds()
            result.add(f"{key}.{what}.p50", cluster.name, median(times_ms()))
            used_ms = (cluster.cpu_seconds() - used) * 1000
            result.add(f"{key}.{what}.cpu", cluster.name, used_ms / count)

        measure("create", partial(creation_times_ms, cluster, f"one-{size}", count), count)
        # Two changes each time, as the leader itself makes the ISR complete again.
        measure("isr", lambda: [isr.shrink() for _ in range(count)], 2 * count)


class IsrChanges:
    """Asks the controller to remove a follower from an ISR, as the partition's leader would.

    The follower is in sync, so the leader itself adds it again.
    """

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self.cluster = cluster
        self.topic = topic
        self.broker_epochs = broker_epochs(cluster)
        #: A guess at the partition's epoch, which each change of the partition increases by one. It
        #: is too low at first, and too high while the leader's own change is not committed yet.
        self.partition_epoch = 0

    def shrink(self) -> float:
        """Milliseconds until the smaller ISR is committed; then waits until it is full again."""
        with closing(frame_client.connect(self.cluster.first.port)) as connection:
            [topic] = metadata(connection, self.topic).topics
        [partition] = topic.partitions
        leader = partition.leader_id
        smaller_isr = [leader, *[each for each in partition.isr_nodes if each != leader][:1]]
        changed = PartitionData(
            partition_index=0,
            leader_epoch=partition.leader_epoch,
            new_isr_with_epochs=[
                BrokerState(broker_id=each, broker_epoch=self.broker_epochs[each])
                for each in smaller_isr
            ],
            partition_epoch=0,
        )
        controller = self.cluster.controller_ports[self.cluster.controller()]
        with closing(frame_client.connect(controller)) as connection:
            took_ms = self._commit(connection, leader, topic.topic_id, changed)
        wait_until_each(self.cluster.nodes[leader].port, [self.topic], has_full_isr)
        return took_ms

    def _commit(
        self, connection: Connection, leader: int, topic_id: bytes, changed: PartitionData
    ) -> float:
        """Try partition epochs until one is current; return the milliseconds of that request."""
        end = Deadline(frame_client.RESPONSE_TIMEOUT_S)
        while not end.is_over:
            partition = changed.replace(partition_epoch=self.partition_epoch)
            request = AlterPartitionRequest(
                broker_id=leader,
                broker_epoch=self.broker_epochs[leader],
                topics=[TopicData(topic_id=topic_id, partitions=[partition])],
            )
            start = time.perf_counter()
            response = connection.call(request, frame_client.deadline())
            took_ms = (time.perf_counter() - start) * 1000
            assert isinstance(response, AlterPartitionResponse)
            assert response.error_code == 0, response
            code = response.topics[0].partitions[0].error_code
            # Our epoch is ahead: the leader's own change is not committed yet.
            if code == ErrorCode.NOT_CONTROLLER:
                time.sleep(RETRY_INTERVAL_S)
                continue
            self.partition_epoch += 1
            if code == 0:
                self.partition_epoch += 1  # the leader's change follows
                return took_ms
            assert code == ErrorCode.INVALID_UPDATE_VERSION, response
        raise TimeoutError(f"the ISR of {self.topic} can't be changed")


def broker_epochs(cluster: Cluster) -> Mapping[int, int]:
    """The epoch of each broker's registration, from the first segment of the metadata log."""
    first = next(iter(cluster.nodes))
    path = os.path.join(cluster.data_of(first), "__cluster_metadata-0", f"{0:020}.log")
    with open(path, "rb") as file:
        log = file.read()
    epochs = {}
    for position, _ in walk(log, may_end_in_batch=True):
        for record in read_records(log, position):
            if record.key is None:
                message, _ = decode_metadata(record.value or b"")
                if isinstance(message, RegisterBrokerRecord):
                    epochs[message.broker_id] = message.broker_epoch
    return epochs
