"""Batches that are sent with several requests in flight, and what happens after failures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from kraftlog.client.batch_sender import BatchSender
from kraftlog.errors import ErrorCode, RefusedError
from kraftlog.records.encode_columns import EncodedBatch, encode_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kraftlog import Client

_NOW = 1_790_000_000_000


def _batches(values: Iterable[str], records_per_batch: int = 3) -> list[EncodedBatch]:
    column = pa.array([value.encode() for value in values])
    count = len(column)
    starts = range(0, count, records_per_batch)
    counts = [min(records_per_batch, count - start) for start in starts]
    keys = pa.nulls(count, pa.binary())
    return encode_batches(np.full(count, _NOW, dtype=np.int64), keys, column, None, counts)


def _send(sender: BatchSender, topic: str, value: str) -> None:
    sender.send([((topic, 0), _batches([value])[0])])
    sender.flush()


def _values(client: Client, topic: str) -> dict[int, list[str]]:
    values: dict[int, list[str]] = {}
    with client.consume(topic, start="beginning", until_end=True) as records:
        for record in records:
            values.setdefault(record.partition, []).append((record.value or b"").decode())
    return values


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_batches_arrive_in_order_in_each_partition(
    client: Client, named: Callable[[str], str], compression: str
) -> None:
    topic = named("t")
    client.create_topic(topic, partitions=2)
    sender = BatchSender(client.cluster, compression=compression, request_bytes=300)

    for start in (0, 60):
        numbers = [str(number) for number in range(start, start + 60)]
        sender.send(((topic, index), batch) for index in (0, 1) for batch in _batches(numbers))
    sender.flush()
    sender.close()

    expected = [str(number) for number in range(120)]
    assert _values(client, topic) == {0: expected, 1: expected}


@pytest.mark.parametrize("lost_after", [1, 4, 12])
def test_a_lost_connection_loses_and_repeats_nothing(
    client: Client, named: Callable[[str], str], lost_after: int
) -> None:
    topic = named("t")
    client.create_topic(topic, partitions=1)
    sender = BatchSender(client.cluster)
    batches = _batches([str(number) for number in range(60)])

    sender.send(((topic, 0), batch) for batch in batches[:lost_after])
    for connection in sender._connections.values():
        connection.close()
    sender.send(((topic, 0), batch) for batch in batches[lost_after:])
    sender.flush()
    sender.close()

    assert _values(client, topic) == {0: [str(number) for number in range(60)]}


def test_a_refused_batch_raises_and_the_sender_stays_usable(
    client: Client, named: Callable[[str], str]
) -> None:
    topic = named("t")
    client.create_topic(topic, partitions=1, configs={"max.message.bytes": "1000"})
    sender = BatchSender(client.cluster)

    sender.send([((topic, 0), _batches(["first"])[0])])
    with pytest.raises(RefusedError) as refused:
        _send(sender, topic, "x" * 2000)
    _send(sender, topic, "small")
    sender.close()

    assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE
    assert _values(client, topic) == {0: ["first", "small"]}


@pytest.mark.parametrize("acks", ["0", "1"])
def test_batches_with_acks_0_and_1_arrive_in_order(
    client: Client, named: Callable[[str], str], acks: str
) -> None:
    topic = named("t")
    client.create_topic(topic, partitions=1)
    sender = BatchSender(client.cluster, acks=acks)

    sender.send(((topic, 0), batch) for batch in _batches([str(n) for n in range(30)]))
    sender.flush()

    # With acks=0 flush does not wait, so the reader waits for the records.
    with client.consume(topic, start="beginning") as records:
        assert [(next(records).value or b"").decode() for _ in range(30)] == [
            str(number) for number in range(30)
        ]
    sender.close()
