"""The everyday work by kafka-python."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any

import kafka
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.errors import TopicAlreadyExistsError
from kafka.structs import OffsetAndMetadata, TopicPartition

from tests.interop.everyday.work import CODECS, COMPRESSIBLE, COUNT, RETENTION_MS, main, until
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.interop.everyday.work import Facts

VERSION = kafka.__version__
TIME_MS = 1_700_000_000_000


def admin(address: str) -> closing[KafkaAdminClient]:
    return closing(KafkaAdminClient(bootstrap_servers=address))


def create(address: str, topic: str, partitions: int = 1) -> None:
    with admin(address) as client:
        client.create_topics({topic: {"num_partitions": partitions}})


def produce(
    address: str, topic: str, values: Sequence[bytes], times: Sequence[int] = (), **settings: Any
) -> list[int]:
    """Write the values to partition 0; return their offsets once all are acknowledged."""
    settings = {"enable_idempotence": False, "linger_ms": 20, **settings}
    with closing(kafka.KafkaProducer(bootstrap_servers=address, **settings)) as producer:
        sent = [
            producer.send(
                topic,
                value,
                key=b"k%d" % n,
                partition=0,
                headers=[("n", b"%d" % n)],
                timestamp_ms=times[n] if times else TIME_MS + n,
            )
            for n, value in enumerate(values)
        ]
        return [future.get(LIMIT_S).offset for future in sent]


def consumer_of(
    address: str, group: str | None = None, **settings: Any
) -> closing[kafka.KafkaConsumer]:
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=address,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=50,
        **settings,
    )
    return closing(consumer)


def read_records(consumer: kafka.KafkaConsumer, count: int) -> list[Any]:
    found: list[Any] = []
    while len(found) < count:
        polled = consumer.poll(timeout_ms=LIMIT_S * 1000, max_records=count - len(found))
        assert polled, f"only {len(found)} of {count} records were read"
        for records in polled.values():
            found += records
    return found


def cluster(address: str) -> Facts:
    with admin(address) as client:
        described = client.describe_cluster()
    ids = {broker["broker_id"] for broker in described["brokers"]}
    return {"brokers": len(ids), "has_controller": described["controller_id"] in ids}


def topics(address: str) -> Facts:
    again = ""
    with admin(address) as client:

        def partitions() -> int:
            [topic] = client.describe_topics(["made"])
            return len(topic["partitions"])

        client.create_topics({"made": {"num_partitions": 3}})
        created = partitions()
        try:
            client.create_topics({"made": {}})
        except TopicAlreadyExistsError:
            again = "exists"
        client.create_partitions({"made": 5})
        grown = partitions()
        client.delete_topics(["made"])
        removed = "made" not in client.list_topics()
    return {"created": created, "again": again, "grown": grown, "removed": removed}


def configs(address: str) -> Facts:
    create(address, "configured")

    def resource(changes: Any) -> list[ConfigResource]:
        return [ConfigResource(ConfigResourceType.TOPIC, "configured", changes)]

    with admin(address) as client:

        def value() -> str:
            described = client.describe_configs(
                resource({"retention.ms": None}), config_filter="all"
            )
            return str(described["topic"]["configured"]["retention.ms"]["value"])

        before = value()
        client.alter_configs(resource({"retention.ms": RETENTION_MS}))
        middle = value()
        client.reset_configs(resource(["retention.ms"]))
        return {"before": before, "set": middle, "after": value()}


def codecs(address: str) -> Facts:
    found: Facts = {}
    for codec in CODECS:
        topic = f"codec-{codec}"
        create(address, topic)
        produce(address, topic, COMPRESSIBLE, compression_type=None if codec == "none" else codec)
        with consumer_of(address) as consumer:
            partition = TopicPartition(topic, 0)
            consumer.assign([partition])
            consumer.seek_to_beginning(partition)
            found[codec] = sum(
                (r.value, r.key, r.headers, r.timestamp)
                == (COMPRESSIBLE[n], b"k%d" % n, [("n", b"%d" % n)], TIME_MS + n)
                for n, r in enumerate(read_records(consumer, COUNT))
            )
    return found


def idempotent(address: str) -> Facts:
    create(address, "numbered")
    values = [b"%d" % n for n in range(COUNT)]
    offsets = produce(address, "numbered", values, enable_idempotence=True)
    return {"count": len(offsets), "is_in_order": offsets == list(range(COUNT))}


def assignment(address: str) -> Facts:
    create(address, "assigned")
    produce(address, "assigned", [b"%d" % n for n in range(COUNT)])
    with consumer_of(address) as consumer:
        partition = TopicPartition("assigned", 0)
        consumer.assign([partition])
        consumer.seek(partition, 30)
        values = [int(record.value) for record in read_records(consumer, 10)]
    return {"first": values[0], "count": len(values)}


def times(address: str) -> Facts:
    create(address, "timed")
    produce(address, "timed", [b"a", b"b", b"c"], times=(1000, 2000, 3000))
    partition = TopicPartition("timed", 0)
    with consumer_of(address) as consumer:

        def offset_at(time: int) -> int:
            found = consumer.offsets_for_times({partition: time})[partition]
            return -1 if found is None else int(found.offset)

        return {
            "earliest": consumer.beginning_offsets([partition])[partition],
            "latest": consumer.end_offsets([partition])[partition],
            "at_1500": offset_at(1500),
            "at_9000": offset_at(9000),
        }


def deletion(address: str) -> Facts:
    create(address, "deleted")
    produce(address, "deleted", [b"%d" % n for n in range(COUNT)])
    partition = TopicPartition("deleted", 0)
    with admin(address) as client:
        result = client.delete_records({partition: 5})[partition]
    with consumer_of(address) as consumer:
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        [first] = read_records(consumer, 1)
    return {"begins_at": result["low_watermark"], "first": int(first.value)}


class GroupMemberThread:
    """A group member that is polled by a thread of its own; `size` is its number of partitions.

    A member whose poll ends during a rebalance rejoins at the next poll, and makes the others
    rejoin: two members that one thread polls in turn may never become stable.
    """

    def __init__(self, address: str) -> None:
        self.size = 0
        self._address = address
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._poll)

    def __enter__(self) -> GroupMemberThread:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _poll(self) -> None:
        with consumer_of(self._address, "sharers", heartbeat_interval_ms=100) as consumer:
            consumer.subscribe(["shared"])
            while not self._stopping.is_set():
                consumer.poll(timeout_ms=500)
                self.size = len(consumer.assignment())


def rebalance(address: str) -> Facts:
    create(address, "shared", 4)
    with GroupMemberThread(address) as first:
        alone = until(lambda: [first.size], [4])
        with GroupMemberThread(address) as second:
            together = until(lambda: [first.size, second.size], [2, 2])
        again = until(lambda: [first.size], [4])
    return {"alone": alone, "together": together, "alone_again": again}


def read_and_commit(address: str, topic: str, group: str, count: int) -> None:
    create(address, topic)
    produce(address, topic, [b"%d" % n for n in range(COUNT)])
    with consumer_of(address, group) as member:
        member.subscribe([topic])
        last = read_records(member, count)[-1]
        done = OffsetAndMetadata(last.offset + 1, "", -1)
        member.commit({TopicPartition(topic, 0): done})


def resume(address: str) -> Facts:
    read_and_commit(address, "resumed", "resumers", 20)
    with consumer_of(address, "resumers") as second:
        second.subscribe(["resumed"])
        [next_record] = read_records(second, 1)
        committed = second.committed(TopicPartition("resumed", 0))
    return {"committed": committed, "resumed_at": next_record.offset}


def groups(address: str) -> Facts:
    read_and_commit(address, "grouped", "administered", 20)
    partition = TopicPartition("grouped", 0)
    with admin(address) as client:

        def committed() -> int:
            found = client.list_group_offsets({"administered": [partition]})
            return int(found["administered"][partition].offset)

        def names() -> list[str]:
            return [group["group_id"] for group in client.list_groups()]

        listed = "administered" in names()
        state = client.describe_groups(["administered"])["administered"]["group_state"]
        before = committed()
        client.alter_group_offsets("administered", {partition: OffsetAndMetadata(5, "", -1)})
        after = committed()
        client.delete_groups(["administered"])
        return {
            "listed": listed,
            "state": state,
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
