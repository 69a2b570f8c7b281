"""Record batches are exchanged with Kafka's own builder and reader in both directions."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from kraftlog.records.builder import BatchBuilder
from kraftlog.records.reader import read_records
from tests.interop import driver

if TYPE_CHECKING:
    from kraftlog.records.record import Header

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
BATCHES = 60


def random_bytes(random: Random) -> bytes | None:
    size = random.choice((None, 0, 1, 63, 64, 200, 9000))
    return None if size is None else random.randbytes(size // 2) + bytes(size - size // 2)


def random_record(random: Random, offset: int) -> driver.Record:
    names = ("", "h", "trace", "ä€😀")
    headers: list[Header] = [
        (random.choice(names), random_bytes(random)) for _ in range(random.choice((0, 0, 1, 3)))
    ]
    timestamp = random.choice((0, 1, 1_700_000_000_000 + random.randint(-(10**6), 10**6)))
    return driver.Record(random_bytes(random), random_bytes(random), timestamp, headers, offset)


def random_batch(random: Random, codec: str) -> driver.Batch:
    base = offset = random.choice((0, 1, 2**31, 2**62))
    records = []
    for _ in range(random.choice((1, 2, 20))):
        records.append(random_record(random, offset))
        offset += random.choice((1, 1, 1, 7))
    has_producer = random.random() < 0.5
    return driver.Batch(
        records,
        codec,
        base_offset=base,
        leader_epoch=random.choice((0, 7, 2**31 - 1)),
        producer_id=random.randint(0, 2**63 - 1) if has_producer else -1,
        producer_epoch=random.randint(0, 2**15 - 1) if has_producer else -1,
        base_sequence=random.choice((0, 5, 2**31 - 1)) if has_producer else -1,
        transactional=has_producer and random.random() < 0.5,
    )


def build_ours(batch: driver.Batch) -> bytes:
    builder = BatchBuilder(
        base_offset=batch.base_offset,
        leader_epoch=batch.leader_epoch,
        codec=CODECS[batch.codec],
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        is_transactional=batch.transactional,
    )
    for r in batch.records:
        builder.append(r.timestamp, r.key, r.value, r.headers, offset=r.offset)
    return builder.build()


@pytest.fixture(params=CODECS)
def batches(request: pytest.FixtureRequest) -> list[driver.Batch]:
    random = Random(request.param)
    return [random_batch(random, request.param) for _ in range(BATCHES)]


def test_kafka_reads_our_batches(jvm: driver.Driver, batches: list[driver.Batch]) -> None:
    for batch, parsed in zip(batches, jvm.parse(map(build_ours, batches)), strict=True):
        assert parsed.get("left") == 0, parsed
        [read] = parsed["batches"]
        names = ("codec", "base_offset", "leader_epoch", "producer_id", "producer_epoch")
        for name in (*names, "base_sequence", "transactional", "control"):
            assert read[name] == getattr(batch, name), name
        assert read["count"] == len(batch.records)
        assert read["max_timestamp"] == max(r.timestamp for r in batch.records)
        for record, java in zip(batch.records, read["records"], strict=True):
            for name in ("offset", "timestamp", "key", "value", "headers"):
                assert java[name] == getattr(record, name), name


def test_kafkas_batches_are_read(jvm: driver.Driver, batches: list[driver.Batch]) -> None:
    for batch, data in zip(batches, jvm.build(batches), strict=True):
        read = [
            driver.Record(r.value, r.key, r.timestamp_ms, list(r.headers), r.offset)
            for r in read_records(data)
        ]
        assert read == batch.records


def test_uncompressed_batches_have_kafkas_bytes(jvm: driver.Driver) -> None:
    batches = [random_batch(Random(n), "none") for n in range(BATCHES)]
    assert list(map(build_ours, batches)) == jvm.build(batches)
