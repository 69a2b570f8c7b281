"""The cost of a partition in requests for 100 of them: the node alone, with files in memory.

Each row is CPU time per partition. The request is measured until its batches are appended or its
response is encoded, and then the rest of the turn of the loop, with the writes.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tests.node.frame_client import FrameClient, make_host
from tests.virtual_host import VirtualHost

from bench.node import batch
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from kraftlog.wire.messages.metadata_records import (
    BrokerEndpoint,
    PartitionChangeRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
)
from kraftlog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Case = tuple[str, float, str]

PARTITIONS, TURNS, ROUNDS = 100, 30, 5
#: Turns before those that are measured.
WARM_UP_TURNS = 3
PRODUCE_VERSION, FETCH_VERSION = 13, 17
FOLLOWER, FOLLOWER_EPOCH = 2, 1_000
UNIT = "µs/partition"


def cases() -> Iterator[Case]:
    for name, make_load in CASES.items():
        rounds = [measure(make_load) for _ in range(ROUNDS)]
        yield f"{name}: request", min([took for took, _ in rounds]), UNIT
        yield f"{name}: its turn", min([took for _, took in rounds]), UNIT


class Load:
    """A node with 100 partitions, a client whose requests are measured, and a producer."""

    def __init__(self) -> None:
        self.host: VirtualHost = make_host(many=PARTITIONS)
        self.topic_id = self.host.node.image.topic_ids["many"]
        self.client = FrameClient(self.host)
        self.producer = FrameClient(self.host)
        self.raw = batch(100)
        self.offset = 0

    def produce_request(self) -> ProduceRequest:
        parts = [PartitionProduceData(index=i, records=self.raw) for i in range(PARTITIONS)]
        topics = [TopicProduceData(topic_id=self.topic_id, partition_data=parts)]
        return ProduceRequest(acks=1, timeout_ms=1000, topic_data=topics)

    def produce(self) -> None:
        self.producer.send(ApiKey.PRODUCE, PRODUCE_VERSION, self.produce_request())
        self.host.turn()
        self.producer.connection.take()
        self.offset += 1

    def fetch(self, offset: int, epoch: int = -1, **extra: Any) -> FetchRequest:
        """`epoch` is the current leader epoch, and the epoch of the last fetched record."""
        parts = [
            FetchPartition(
                partition=i,
                fetch_offset=offset,
                current_leader_epoch=epoch,
                last_fetched_epoch=epoch,
                partition_max_bytes=1 << 20,
            )
            for i in range(PARTITIONS)
        ]
        topics = [FetchTopic(topic_id=self.topic_id, partitions=parts)]
        fields: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1, "session_epoch": -1} | extra
        return FetchRequest(topics=topics, **fields)

    def begin_session(self, **extra: Any) -> int:
        self.client.send(ApiKey.FETCH, FETCH_VERSION, self.fetch(0, session_epoch=0, **extra))
        self.host.settle()
        ((_, response),) = self.client.take()
        return int(response.session_id)


class Produce(Load):
    """A batch for each partition."""

    def next_frame(self) -> bytes:
        return self.client.frame(ApiKey.PRODUCE, PRODUCE_VERSION, self.produce_request())


class FullFetch(Load):
    """A batch from each partition, without a session."""

    def __init__(self) -> None:
        super().__init__()
        self.produce()

    def next_frame(self) -> bytes:
        return self.client.frame(ApiKey.FETCH, FETCH_VERSION, self.fetch(0))


class SessionFetch(Load):
    """A batch from each partition; the request has only the new offsets."""

    def __init__(self) -> None:
        super().__init__()
        self.extra = self.follower_arguments()
        self.session_id = self.begin_session(**self.extra)
        self.epoch = 0

    def follower_arguments(self) -> dict[str, Any]:
        """Arguments of `fetch` that only a follower needs."""
        return {}

    def next_frame(self) -> bytes:
        request = self.fetch(
            self.offset, session_id=self.session_id, session_epoch=self.epoch + 1, **self.extra
        )
        self.epoch += 1
        self.produce()
        return self.client.frame(ApiKey.FETCH, FETCH_VERSION, request)


class FollowerFetch(SessionFetch):
    """A session fetch by a follower: its offsets also acknowledge the earlier batches."""

    def follower_arguments(self) -> dict[str, Any]:
        state = ReplicaState(replica_id=FOLLOWER, replica_epoch=FOLLOWER_EPOCH)
        return {"epoch": 0, "replica_state": state}

    def begin_session(self, **extra: Any) -> int:
        node = self.host.node
        endpoint = BrokerEndpoint(name="PLAINTEXT", host="b", port=9, security_protocol=0)
        changes: list[Any] = [
            RegisterBrokerRecord(
                broker_id=FOLLOWER,
                incarnation_id=b"i" * 16,
                broker_epoch=FOLLOWER_EPOCH,
                end_points=[endpoint],
                features=(),
                fenced=False,
                rack=None,
            ),
            UnfenceBrokerRecord(id=FOLLOWER, epoch=FOLLOWER_EPOCH),
        ]
        changes += [
            PartitionChangeRecord(
                partition_id=i, topic_id=self.topic_id, isr=(1, FOLLOWER), replicas=(1, FOLLOWER)
            )
            for i in range(PARTITIONS)
        ]
        node.replay(changes, node.quorum.applied)
        return super().begin_session(**extra)


CASES: dict[str, Callable[[], Load]] = {
    "Produce of 100 partitions": Produce,
    "Fetch of 100 partitions, no session": FullFetch,
    "Fetch of 100 partitions, session": SessionFetch,
    "Fetch of 100 partitions, follower": FollowerFetch,
}


def measure(make_load: Callable[[], Any]) -> tuple[float, float]:
    """CPU microseconds per partition: of the requests, and of the rest of their turns."""
    load = make_load()
    host, connection = load.host, load.client.connection
    request_s = turn_s = 0.0
    for turn in range(WARM_UP_TURNS + TURNS):
        raw = load.next_frame()
        began = time.process_time()
        host.send(connection, raw)
        middle = time.process_time()
        host.turn()
        ended = time.process_time()
        response = connection.take()
        assert len(response) > PARTITIONS * 30, response
        if turn >= WARM_UP_TURNS:
            request_s += middle - began
            turn_s += ended - middle
    scale = 1e6 / TURNS / PARTITIONS
    return request_s * scale, turn_s * scale
