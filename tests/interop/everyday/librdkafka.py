"""The everyday work by confluent-kafka, which is librdkafka."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import confluent_kafka
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

from tests.interop.everyday.work import CODECS, COMPRESSIBLE, COUNT, RETENTION_MS, main, until
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.interop.everyday.work import Facts

VERSION = confluent_kafka.__version__
TIME_MS = 1_700_000_000_000


def admin(address: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": address})


def create(address: str, topic: str, partitions: int = 1) -> None:
    client = admin(address)  # a client that is garbage-collected drops its requests
    client.create_topics([NewTopic(topic, partitions, 1)])[topic].result(LIMIT_S)


def produce(
    address: str, topic: str, values: Sequence[bytes], times: Sequence[int] = (), **settings: Any
) -> list[int]:
    """Write the values to partition 0; return their offsets in the order of acknowledgement."""
    offsets: list[int] = []

    def on_delivery(error: Any, message: Message) -> None:
        assert error is None, error
        offsets.append(message.offset() or 0)

    producer = Producer({"bootstrap.servers": address, "linger.ms": 20, **settings})
    for n, value in enumerate(values):
        time = times[n] if times else TIME_MS + n
        producer.produce(
            topic, value, b"k%d" % n, 0, on_delivery, timestamp=time, headers=[("n", b"%d" % n)]
        )
    assert producer.flush(LIMIT_S) == 0
    return offsets


def consumer_of(address: str, group: str = "alone", **settings: Any) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 50,
            **settings,
        }
    )


def read_records(consumer: Consumer, count: int) -> list[Message]:
    found: list[Message] = []
    while len(found) < count:
        consumed = consumer.consume(count - len(found), LIMIT_S)
        assert consumed, f"only {len(found)} of {count} records were read"
        for message in consumed:
            assert message.error() is None, message.error()
        found += consumed
    return found


def cluster(address: str) -> Facts:
    client = admin(address)
    described = client.describe_cluster().result(LIMIT_S)
    ids = {node.id for node in described.nodes}
    return {"brokers": len(ids), "has_controller": described.controller.id in ids}


def topics(address: str) -> Facts:
    client = admin(address)

    def partitions(name: str) -> int:
        return len(client.list_topics(name, timeout=LIMIT_S).topics[name].partitions)

    create(address, "made", 3)
    created = partitions("made")
    again = ""
    try:
        create(address, "made")
    except KafkaException as error:
        code = error.args[0].code()
        again = "exists" if code == confluent_kafka.KafkaError.TOPIC_ALREADY_EXISTS else str(code)
    client.create_partitions([NewPartitions("made", 5)])["made"].result(LIMIT_S)
    grown = partitions("made")
    client.delete_topics(["made"])["made"].result(LIMIT_S)
    removed = "made" not in client.list_topics(timeout=LIMIT_S).topics
    return {"created": created, "again": again, "grown": grown, "removed": removed}


def configs(address: str) -> Facts:
    create(address, "configured")
    client = admin(address)

    def resource(*changes: ConfigEntry) -> ConfigResource:
        kind = ConfigResource.Type.TOPIC
        return ConfigResource(kind, "configured", incremental_configs=list(changes))

    def value() -> Any:
        topic = resource()
        return client.describe_configs([topic])[topic].result(LIMIT_S)["retention.ms"].value

    def change(operation: AlterConfigOpType, new_value: str) -> None:
        entry = ConfigEntry("retention.ms", new_value, incremental_operation=operation)
        topic = resource(entry)
        client.incremental_alter_configs([topic])[topic].result(LIMIT_S)

    before = value()
    change(AlterConfigOpType.SET, RETENTION_MS)
    middle = value()
    change(AlterConfigOpType.DELETE, "")
    return {"before": before, "set": middle, "after": value()}


def codecs(address: str) -> Facts:
    found: Facts = {}
    for codec in CODECS:
        topic = f"codec-{codec}"
        create(address, topic)
        produce(address, topic, COMPRESSIBLE, (), **{"compression.type": codec})
        consumer = consumer_of(address)
        consumer.assign([TopicPartition(topic, 0, 0)])
        messages = read_records(consumer, COUNT)
        consumer.close()
        found[codec] = sum(
            (m.value(), m.key(), m.headers(), m.timestamp()[1])
            == (COMPRESSIBLE[n], b"k%d" % n, [("n", b"%d" % n)], TIME_MS + n)
            for n, m in enumerate(messages)
        )
    return found


def idempotent(address: str) -> Facts:
    create(address, "numbered")
    values = [b"%d" % n for n in range(COUNT)]
    offsets = produce(address, "numbered", values, (), **{"enable.idempotence": True})
    return {"count": len(offsets), "is_in_order": offsets == list(range(COUNT))}


def assignment(address: str) -> Facts:
    create(address, "assigned")
    produce(address, "assigned", [b"%d" % n for n in range(COUNT)])
    consumer = consumer_of(address)
    consumer.assign([TopicPartition("assigned", 0, 30)])
    values = [int(m.value() or b"") for m in read_records(consumer, 10)]
    consumer.close()
    return {"first": values[0], "count": len(values)}


def times(address: str) -> Facts:
    create(address, "timed")
    produce(address, "timed", [b"a", b"b", b"c"], times=(1000, 2000, 3000))
    consumer = consumer_of(address)

    def offset_at(time: int) -> int:
        [found] = consumer.offsets_for_times([TopicPartition("timed", 0, time)], LIMIT_S)
        # This client returns OFFSET_END if no record is that late.
        return -1 if found.offset == confluent_kafka.OFFSET_END else found.offset

    earliest, latest = consumer.get_watermark_offsets(TopicPartition("timed", 0), LIMIT_S)
    facts = {
        "earliest": earliest,
        "latest": latest,
        "at_1500": offset_at(1500),
        "at_9000": offset_at(9000),
    }
    consumer.close()
    return facts


def deletion(address: str) -> Facts:
    create(address, "deleted")
    produce(address, "deleted", [b"%d" % n for n in range(COUNT)])
    client = admin(address)
    end = TopicPartition("deleted", 0, 5)
    deleted = client.delete_records([end])[end].result(LIMIT_S)
    consumer = consumer_of(address)
    consumer.assign([TopicPartition("deleted", 0, confluent_kafka.OFFSET_BEGINNING)])
    [first] = read_records(consumer, 1)
    consumer.close()
    return {"begins_at": deleted.low_watermark, "first": int(first.value() or b"")}


def assignment_sizes(*consumers: Consumer) -> list[int]:
    """Poll each consumer; return how many partitions each has."""
    for consumer in consumers:
        consumer.poll(0.1)
    return [len(consumer.assignment()) for consumer in consumers]


def rebalance(address: str) -> Facts:
    create(address, "shared", 4)
    first, second = (
        consumer_of(address, "sharers", **{"heartbeat.interval.ms": 100}) for _ in range(2)
    )
    first.subscribe(["shared"])
    alone = until(lambda: assignment_sizes(first), [4])
    second.subscribe(["shared"])
    together = until(lambda: assignment_sizes(first, second), [2, 2])
    second.close()
    again = until(lambda: assignment_sizes(first), [4])
    first.close()
    return {"alone": alone, "together": together, "alone_again": again}


def resume(address: str) -> Facts:
    create(address, "resumed")
    produce(address, "resumed", [b"%d" % n for n in range(COUNT)])
    first = consumer_of(address, "resumers")
    first.subscribe(["resumed"])
    last = read_records(first, 20)[-1]
    [committed] = first.commit(message=last, asynchronous=False)
    first.close()
    second = consumer_of(address, "resumers")
    second.subscribe(["resumed"])
    [next_record] = read_records(second, 1)
    second.close()
    return {"committed": committed.offset, "resumed_at": next_record.offset()}


def groups(address: str) -> Facts:
    create(address, "grouped")
    produce(address, "grouped", [b"%d" % n for n in range(COUNT)])
    member = consumer_of(address, "administered")
    member.subscribe(["grouped"])
    member.commit(message=read_records(member, 20)[-1], asynchronous=False)
    member.close()
    client = admin(address)
    partition = [TopicPartition("grouped", 0)]

    def committed() -> Any:
        group = [ConsumerGroupTopicPartitions("administered", partition)]
        response = client.list_consumer_group_offsets(group)["administered"].result(LIMIT_S)
        return response.topic_partitions[0].offset

    def names() -> list[str]:
        return [g.group_id for g in client.list_consumer_groups().result(LIMIT_S).valid]

    listed = "administered" in names()
    described = client.describe_consumer_groups(["administered"])["administered"].result(LIMIT_S)
    before = committed()
    wanted = ConsumerGroupTopicPartitions("administered", [TopicPartition("grouped", 0, 5)])
    client.alter_consumer_group_offsets([wanted])["administered"].result(LIMIT_S)
    after = committed()
    client.delete_consumer_groups(["administered"])["administered"].result(LIMIT_S)
    return {
        "listed": listed,
        "state": described.state.name.title(),
        "committed": before,
        "reset_to": after,
        "removed": "administered" not in names(),
    }


PIECES = {
    do.__name__: do
    for do in (
        *(cluster, topics, configs, codecs, idempotent),
        *(assignment, times, deletion, rebalance, resume, groups),
    )
}

if __name__ == "__main__":
    main(PIECES)
