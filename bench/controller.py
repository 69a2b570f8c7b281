"""The cost of the controller's decisions on one core: `python -m bench controller`."""

from __future__ import annotations

import tracemalloc
from random import Random
from time import perf_counter

from kraftlog.controller.activation import bootstrap_records
from kraftlog.controller.context import ControllerConfig
from kraftlog.controller.controller import Controller
from kraftlog.controller.placement import place_in_steps
from kraftlog.metadata.image import Image
from kraftlog.metadata.values import PartitionImage
from kraftlog.metadata.versions import record_version
from kraftlog.steps import result_of
from kraftlog.types import Now
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from kraftlog.wire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from kraftlog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kraftlog.wire.record_frames import decode_metadata, encode_metadata

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from kraftlog.wire.schema import Message

BROKERS = 30
PARTITIONS = 100_000
PARTITIONS_PER_TOPIC = 5_000
REPLICATION_FACTOR = 3
RUNS = 5


class Cluster:
    """A controller and a broker's image; records are committed immediately."""

    def __init__(self) -> None:
        self.committed = Image()
        self.offset = 0
        self.ids = iter(range(1, 1 << 30))
        self.controller = Controller(
            ControllerConfig(node_id=1, cluster_id="c"),
            rng=Random(0),
            new_id=lambda: (1 << 120 | next(self.ids)).to_bytes(16, "big"),
            static_config={},
        )
        decision = self.controller.activate(bootstrap_records({"metadata.version": 30}), NOW)
        self.append(decision.records)

    def decide_and_append(self, api: int, request: Message) -> Any:
        decision = self.decide(api, request)
        self.append(decision.records)
        return decision

    def decide(self, api: int, request: Message) -> Any:
        return result_of(self.controller.decide_in_steps(api, request, NOW, self.offset))

    def propose(self, records: Any) -> None:
        result_of(self.controller.state.propose_in_steps([records], lambda: self.offset))

    def append(self, records: Any) -> None:
        self.propose(records)
        self.offset += len(records)
        result_of(self.controller.replay_in_steps(records, self.offset - 1))
        for record in records:
            self.committed.replay(record)

    def heartbeat(self, broker: int, *, fence: bool = False) -> BrokerHeartbeatRequest:
        return BrokerHeartbeatRequest(
            broker_id=broker,
            broker_epoch=self.controller.state.brokers[broker].epoch,
            current_metadata_offset=self.offset,
            want_fence=fence,
            want_shut_down=False,
        )


NOW = Now(0, 0)


def registration(broker: int) -> BrokerRegistrationRequest:
    uuid = broker.to_bytes(2, "big") * 8
    return BrokerRegistrationRequest(
        broker_id=broker,
        cluster_id="c",
        incarnation_id=uuid,
        listeners=[Listener(name="P", host="h", port=1, security_protocol=0)],
        features=[
            Feature(name="metadata.version", min_supported_version=30, max_supported_version=30)
        ],
        rack=f"rack {broker % 3}",
        log_dirs=[uuid],
    )


def best_seconds(run: Callable[[], object]) -> float:
    """The duration of the fastest of several runs, which is the least disturbed one."""
    best = float("inf")
    for _ in range(RUNS):
        start = perf_counter()
        run()
        best = min(best, perf_counter() - start)
    return best


def create_request(name: str, partitions: int) -> CreateTopicsRequest:
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=REPLICATION_FACTOR,
        assignments=(),
        configs=(),
    )
    return CreateTopicsRequest(topics=[topic])


def cases() -> Iterator[tuple[str, float, str]]:
    """(what, figure, unit) of each measurement."""
    cluster = Cluster()
    for broker in range(1, BROKERS + 1):
        cluster.decide_and_append(ApiKey.BROKER_REGISTRATION, registration(broker))
        cluster.decide_and_append(ApiKey.BROKER_HEARTBEAT, cluster.heartbeat(broker))
    for number in range(PARTITIONS // PARTITIONS_PER_TOPIC):
        cluster.decide_and_append(
            ApiKey.CREATE_TOPICS, create_request(f"t{number}", PARTITIONS_PER_TOPIC)
        )
    state = cluster.controller.state
    what = f"with {PARTITIONS:,} partitions of {REPLICATION_FACTOR} replicas on {BROKERS} brokers"
    one_partition = create_request("one", 1)
    took = best_seconds(lambda: cluster.decide(ApiKey.CREATE_TOPICS, one_partition))
    yield f"CreateTopics of one partition, {what}: the decision", 1e6 * took, "µs"
    heartbeat = cluster.heartbeat(1)
    took = best_seconds(lambda: cluster.decide(ApiKey.BROKER_HEARTBEAT, heartbeat))
    yield f"BrokerHeartbeat that changes nothing, {what}: the decision", 1e6 * took, "µs"
    brokers = list(state.brokers.values())
    took = best_seconds(
        lambda: result_of(
            place_in_steps(brokers, PARTITIONS_PER_TOPIC, REPLICATION_FACTOR, Random(0))
        )
    )
    yield f"place the replicas of {PARTITIONS_PER_TOPIC:,} partitions", 1e3 * took, "ms"
    yield from _fencing(cluster)
    yield from _snapshots(cluster)


def _fencing(cluster: Cluster) -> Iterator[tuple[str, float, str]]:
    """Fence a broker with 10,000 replicas, a third of them leaders."""
    state = cluster.controller.state
    request = cluster.heartbeat(1, fence=True)
    took = best_seconds(lambda: cluster.decide(ApiKey.BROKER_HEARTBEAT, request))
    decision = cluster.decide(ApiKey.BROKER_HEARTBEAT, request)
    led = len(state.index.led_by[1])
    held = len(decision.records) - 1
    what = f"fence a broker with {held:,} replicas, leader of {led:,}"
    yield f"{what}: the decision", 1e3 * took, "ms"
    start = perf_counter()
    cluster.propose(decision.records)
    yield f"{what}: apply it to the controller's uncommitted state", _ms(start), "ms"
    start = perf_counter()
    cluster.controller.resign()
    yield f"{what}: undo it, as after the loss of the quorum's leadership", _ms(start), "ms"
    cluster.controller.activate((), NOW)
    start = perf_counter()
    for record in decision.records:
        cluster.committed.replay(record)
    yield f"{what}: replay its records on a broker", _ms(start), "ms"


def _snapshots(cluster: Cluster) -> Iterator[tuple[str, float, str]]:
    start = perf_counter()
    records = cluster.committed.records()
    next(records)
    yield f"begin a metadata snapshot of {PARTITIONS:,} partitions", _ms(start), "ms"
    start = perf_counter()
    encoded = [encode_metadata(record, record_version(record)) for record in records]
    yield "metadata snapshot: encode a record", 1e6 * (perf_counter() - start) / len(encoded), "µs"
    start = perf_counter()
    decoded = [decode_metadata(raw)[0] for raw in encoded]
    yield "metadata snapshot: decode a record", 1e6 * (perf_counter() - start) / len(encoded), "µs"
    tracemalloc.start()
    image = Image()
    start = perf_counter()
    for record in decoded:
        image.replay(record)
    took = perf_counter() - start
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    yield (
        "metadata snapshot: replay a record (while memory is traced)",
        1e6 * took / len(encoded),
        "µs",
    )
    yield "memory of the metadata image, per partition", kept / PARTITIONS, "bytes"
    assert sum(isinstance(p, PartitionImage) for p in image.partitions.values()) == PARTITIONS


def _ms(start: float) -> float:
    return 1e3 * (perf_counter() - start)
