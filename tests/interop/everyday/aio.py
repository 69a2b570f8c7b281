"""The everyday work by aiokafka. Its admin client deletes no groups and resets no offsets."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiokafka
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.structs import OffsetAndMetadata, TopicPartition

from tests.interop.everyday.work import CODECS, COMPRESSIBLE, COUNT, RETENTION_MS, main
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Sequence

    from tests.interop.everyday.work import Facts

VERSION = aiokafka.__version__
TIME_MS = 1_700_000_000_000
TOPIC_ALREADY_EXISTS = 36


@asynccontextmanager
async def admin(address: str) -> AsyncIterator[AIOKafkaAdminClient]:
    client = AIOKafkaAdminClient(bootstrap_servers=address)
    await client.start()
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def consumer_of(
    address: str, *subscribed: str, group: str | None = None, **settings: Any
) -> AsyncIterator[aiokafka.AIOKafkaConsumer]:
    consumer = aiokafka.AIOKafkaConsumer(
        *subscribed,
        bootstrap_servers=address,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=50,
        session_timeout_ms=45_000,  # the default of other clients; aiokafka's is ten seconds
        **settings,
    )
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop()


async def create(address: str, topic: str, partitions: int = 1) -> int:
    """Create a topic; return the error code."""
    async with admin(address) as client:
        response = await client.create_topics([NewTopic(topic, partitions, 1)])
    return int(response.topic_errors[0][1])


async def produce(
    address: str, topic: str, values: Sequence[bytes], times: Sequence[int] = (), **settings: Any
) -> list[int]:
    """Write the values to partition 0; return their offsets once all are acknowledged."""
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=address, linger_ms=20, **settings)
    await producer.start()
    try:
        sent = [
            await producer.send(
                topic,
                value,
                key=b"k%d" % n,
                partition=0,
                headers=[("n", b"%d" % n)],
                timestamp_ms=times[n] if times else TIME_MS + n,
            )
            for n, value in enumerate(values)
        ]
        return [(await future).offset for future in sent]
    finally:
        await producer.stop()


async def read_records(consumer: aiokafka.AIOKafkaConsumer, count: int) -> list[Any]:
    return [await consumer.getone() for _ in range(count)]


async def cluster(address: str) -> Facts:
    async with admin(address) as client:
        described = await client.describe_cluster()
    ids = {broker["node_id"] for broker in described["brokers"]}
    return {"brokers": len(ids), "has_controller": described["controller_id"] in ids}


async def topics(address: str) -> Facts:
    async with admin(address) as client:

        async def partitions() -> int:
            [topic] = await client.describe_topics(["made"])
            return len(topic["partitions"])

        await create(address, "made", 3)
        created = await partitions()
        error_code = await create(address, "made")
        await client.create_partitions({"made": NewPartitions(5)})
        grown = await partitions()
        await client.delete_topics(["made"])
        removed = "made" not in await client.list_topics()
    return {
        "created": created,
        "again": "exists" if error_code == TOPIC_ALREADY_EXISTS else error_code,
        "grown": grown,
        "removed": removed,
    }


async def configs(address: str) -> Facts:
    await create(address, "configured")

    async with admin(address) as client:

        async def value() -> str:
            resource = ConfigResource(
                ConfigResourceType.TOPIC, "configured", {"retention.ms": None}
            )
            [response] = await client.describe_configs([resource])
            entries = response.resources[0][4]
            return str(next(entry[1] for entry in entries if entry[0] == "retention.ms"))

        async def change(values: dict[str, str]) -> None:
            """Replace all configs of the topic: this client has no incremental changes."""
            resource = ConfigResource(ConfigResourceType.TOPIC, "configured", values)
            [response] = await client.alter_configs([resource])
            assert response.resources[0][0] == 0, response

        before = await value()
        await change({"retention.ms": RETENTION_MS})
        middle = await value()
        await change({})
        return {"before": before, "set": middle, "after": await value()}


async def codecs(address: str) -> Facts:
    found: Facts = {}
    for codec in CODECS:
        topic = f"codec-{codec}"
        await create(address, topic)
        await produce(
            address, topic, COMPRESSIBLE, compression_type=None if codec == "none" else codec
        )
        async with consumer_of(address) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            await consumer.seek_to_beginning()
            found[codec] = sum(
                (r.value, r.key, list(r.headers), r.timestamp)
                == (COMPRESSIBLE[n], b"k%d" % n, [("n", b"%d" % n)], TIME_MS + n)
                for n, r in enumerate(await read_records(consumer, COUNT))
            )
    return found


async def idempotent(address: str) -> Facts:
    await create(address, "numbered")
    values = [b"%d" % n for n in range(COUNT)]
    offsets = await produce(address, "numbered", values, enable_idempotence=True)
    return {"count": len(offsets), "is_in_order": offsets == list(range(COUNT))}


async def assignment(address: str) -> Facts:
    await create(address, "assigned")
    await produce(address, "assigned", [b"%d" % n for n in range(COUNT)])
    async with consumer_of(address) as consumer:
        partition = TopicPartition("assigned", 0)
        consumer.assign([partition])
        consumer.seek(partition, 30)
        values = [int(record.value) for record in await read_records(consumer, 10)]
    return {"first": values[0], "count": len(values)}


async def times(address: str) -> Facts:
    await create(address, "timed")
    await produce(address, "timed", [b"a", b"b", b"c"], times=(1000, 2000, 3000))
    partition = TopicPartition("timed", 0)
    async with consumer_of(address) as consumer:

        async def offset_at(time: int) -> int:
            found = (await consumer.offsets_for_times({partition: time}))[partition]
            return -1 if found is None else int(found.offset)

        return {
            "earliest": (await consumer.beginning_offsets([partition]))[partition],
            "latest": (await consumer.end_offsets([partition]))[partition],
            "at_1500": await offset_at(1500),
            "at_9000": await offset_at(9000),
        }


async def deletion(address: str) -> Facts:
    await create(address, "deleted")
    await produce(address, "deleted", [b"%d" % n for n in range(COUNT)])
    partition = TopicPartition("deleted", 0)
    async with admin(address) as client:
        low_watermarks = await client.delete_records({partition: RecordsToDelete(before_offset=5)})
    async with consumer_of(address) as consumer:
        consumer.assign([partition])
        await consumer.seek_to_beginning()
        [first] = await read_records(consumer, 1)
    return {"begins_at": low_watermarks[partition], "first": int(first.value)}


async def until(wanted: list[int], *consumers: Any) -> list[int]:
    """Poll the consumers until they have `wanted` partitions; `with_time_limit` ends the wait."""
    while True:
        for consumer in consumers:
            await consumer.getmany(timeout_ms=50)
        sizes = [len(consumer.assignment()) for consumer in consumers]
        if sizes == wanted:
            return sizes


async def rebalance(address: str) -> Facts:
    await create(address, "shared", 4)
    settings: dict[str, Any] = {"group": "sharers", "heartbeat_interval_ms": 100}
    async with consumer_of(address, "shared", **settings) as first:
        alone = await until([4], first)
        async with consumer_of(address, "shared", **settings) as second:
            together = await until([2, 2], first, second)
        again = await until([4], first)
    return {"alone": alone, "together": together, "alone_again": again}


async def read_and_commit(address: str, topic: str, group: str, count: int) -> None:
    await create(address, topic)
    await produce(address, topic, [b"%d" % n for n in range(COUNT)])
    async with consumer_of(address, topic, group=group) as member:
        last = (await read_records(member, count))[-1]
        await member.commit({TopicPartition(topic, 0): last.offset + 1})


async def resume(address: str) -> Facts:
    await read_and_commit(address, "resumed", "resumers", 20)
    async with consumer_of(address, "resumed", group="resumers") as second:
        [next_record] = await read_records(second, 1)
        committed = await second.committed(TopicPartition("resumed", 0))
    return {"committed": committed, "resumed_at": next_record.offset}


async def groups(address: str) -> Facts:
    await read_and_commit(address, "grouped", "administered", 20)
    partition = TopicPartition("grouped", 0)
    async with admin(address) as client:

        async def committed() -> int:
            found = await client.list_consumer_group_offsets("administered")
            return int(found[partition].offset)

        listed = "administered" in {name for name, _ in await client.list_consumer_groups()}
        [response] = await client.describe_consumer_groups(["administered"])
        before = await committed()
        async with consumer_of(address, group="administered") as outsider:
            outsider.assign([partition])
            await outsider.commit({partition: OffsetAndMetadata(5, "")})
        return {
            "listed": listed,
            "state": response.groups[0][2],
            "committed": before,
            "reset_to": await committed(),
        }


def with_time_limit(
    do: Callable[[str], Coroutine[Any, Any, Facts]],
) -> Callable[[str], Facts]:
    return lambda address: asyncio.run(asyncio.wait_for(do(address), LIMIT_S))


PIECES = {
    do.__name__: with_time_limit(do)
    for do in (
        *(cluster, topics, configs, codecs, idempotent),
        *(assignment, times, deletion, rebalance, resume, groups),
    )
}

if __name__ == "__main__":
    main(PIECES)
