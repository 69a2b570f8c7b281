"""Clusters with eventful logs: one with all kinds of records, others from random requests."""

from __future__ import annotations

from random import Random

from kraftlog.config.keys import TOPIC
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from kraftlog.wire.messages.delete_topics import DeleteTopicsRequest
from kraftlog.wire.messages.metadata_records import AbortTransactionRecord, BeginTransactionRecord
from kraftlog.wire.messages.unregister_broker import UnregisterBrokerRequest
from tests.controller import test_acls
from tests.controller.cluster import Cluster, creation, new_topic
from tests.controller.test_features import ELR, UNSAFE, UPGRADE, register_controller, update
from tests.controller.test_partitions import shrink
from tests.controller.test_reassignment import reassign


def eventful_cluster() -> Cluster:
    """A cluster whose log holds every kind of record that a controller writes."""
    cluster = Cluster(brokers=3, elr=True, has_authorizer=True)
    register_controller(cluster)
    test_acls.create(cluster, test_acls.creation(), test_acls.creation(resource_name="t"))
    test_acls.delete(cluster, test_acls.deletion(resource_name_filter="t"))
    cluster.create("t", (1, 2, 3), (2, 3, 1), (1, 3, 2))
    cluster.configure(TOPIC, "t", {"min.insync.replicas": "2"})
    epoch = cluster.state.brokers[1].epoch
    request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch)
    cluster.ask(ApiKey.ALLOCATE_PRODUCER_IDS, request)
    for level in (0, 1):
        update(cluster, ELR, level, (UPGRADE, UNSAFE)[level == 0])
    shrink(cluster, 2)
    cluster.heartbeat(2, cordoned_log_dirs=[])
    for broker in (1, 2, 3):
        cluster.controller.note_broker_down(broker)
        cluster.pass_time(0)
    cluster.heartbeat(2)
    reassign(cluster, (2, 1), index=1)
    cluster.heartbeat(2, want_shut_down=True)
    cluster.heartbeat(1)
    cluster.create("short-lived", (1,))
    deletion = DeleteTopicsRequest(topic_names=["short-lived"], timeout_ms=0)
    cluster.ask(ApiKey.DELETE_TOPICS, deletion)
    cluster.ask(ApiKey.UNREGISTER_BROKER, UnregisterBrokerRequest(broker_id=3))
    cluster.controller.resign()
    cluster.log += [BeginTransactionRecord(name="n")]
    cluster.commit()
    cluster.append(cluster.controller.activate(cluster.bootstrap, cluster.now))
    assert isinstance(cluster.log[-1], AbortTransactionRecord)
    return cluster


def random_cluster(seed: int, steps: int = 60) -> Cluster:
    """A cluster after random requests; Kafka knows all records of its log, without our tags."""
    rng = Random(seed)
    cluster = Cluster(brokers=3, elr=rng.random() < 0.5)
    for step in range(steps):
        broker = rng.randint(1, 4)
        match rng.randint(0, 7):
            case 0:
                topic = new_topic(f"t{rng.randint(0, 5)}", partitions=2, factor=2)
                cluster.ask(ApiKey.CREATE_TOPICS, creation(topic))
            case 1:
                cluster.controller.note_broker_down(broker)
                cluster.pass_time(0)
            case 2:
                cluster.register(broker, incarnation=step)
            case 3:
                cluster.heartbeat(broker, want_shut_down=rng.random() < 0.2)
            case 4:
                minimum: str | None = rng.choice(["1", "2", None])
                name = rng.choice(sorted(cluster.state.topic_ids) or ["none"])
                cluster.configure(TOPIC, name, {"min.insync.replicas": minimum})
            case 5:
                name = f"t{rng.randint(0, 5)}"
                target = tuple(rng.sample(range(1, 5), rng.randint(1, 3)))
                reassign(cluster, target, name=name, index=rng.randint(0, 1))
            case 6 if rng.random() < 0.3:
                request = DeleteTopicsRequest(topic_names=[f"t{broker}"], timeout_ms=0)
                cluster.ask(ApiKey.DELETE_TOPICS, request)
            case _:
                cluster.heartbeat(broker)
    return cluster
