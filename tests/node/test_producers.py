"""Idempotent producers: a repeated batch is written once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.config.keys import BROKER
from kraftlog.errors import ErrorCode
from kraftlog.records.builder import BatchBuilder
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kraftlog_simulator.files import Fault
from tests.node.frame_client import FrameClient, make_host, set_config
from tests.node.test_requests import batch, fetch, produce, produce_result, values_in

if TYPE_CHECKING:
    from tests.virtual_host import VirtualHost

#: The default of producer.id.expiration.check.interval.ms.
EXPIRATION_CHECK_MS = 600_000


def idempotent_batch(
    sequence: int,
    count: int = 1,
    *,
    producer: int = 7,
    epoch: int = 0,
    timestamp: int = 1000,
    **fields: Any,
) -> bytes:
    """A batch of an idempotent producer, whose first record has this sequence number."""
    builder = BatchBuilder(
        producer_id=producer, producer_epoch=epoch, base_sequence=sequence, **fields
    )
    for number in range(count):
        builder.append(timestamp, None, b"%d.%d" % (epoch, sequence + number))
    return builder.build()


class Writer(FrameClient):
    """A client that writes batches; `write` returns error code and base offset."""

    def write(self, raw: bytes, acks: int = -1) -> tuple[int, int]:
        result = produce_result(self.ask(ApiKey.PRODUCE, 9, produce(raw, acks)))
        return result.error_code, result.base_offset

    def values(self) -> list[bytes | None]:
        return values_in(self.ask(ApiKey.FETCH, 12, fetch(0)))


@pytest.mark.parametrize("acks", [-1, 1])
def test_a_repeat_of_one_of_the_last_five_batches_gets_its_offset(acks: int) -> None:
    writer = Writer(make_host())
    for number in range(6):
        assert writer.write(idempotent_batch(2 * number, 2), acks) == (0, 2 * number)
    for number in range(1, 6):
        assert writer.write(idempotent_batch(2 * number, 2), acks) == (0, 2 * number)
    too_old = writer.write(idempotent_batch(0, 2), acks)
    assert too_old == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert len(writer.values()) == 12


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (idempotent_batch(4, epoch=2), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (idempotent_batch(1, 3, epoch=2), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (idempotent_batch(3, epoch=1), ErrorCode.INVALID_PRODUCER_EPOCH),
        (idempotent_batch(3, epoch=3), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (idempotent_batch(3, epoch=2), ErrorCode.NONE),
        (idempotent_batch(0, epoch=3), ErrorCode.NONE),
        (idempotent_batch(0, producer=8), ErrorCode.NONE),
        (idempotent_batch(3, producer=8), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (idempotent_batch(3, epoch=2, is_transactional=True), ErrorCode.INVALID_TXN_STATE),
    ],
    ids=[
        "gap",
        "overlap",
        "old epoch",
        "new epoch at 3",
        "next",
        "new epoch at 0",
        "new producer at 0",
        "new producer at 3",
        "transaction",
    ],
)
def test_only_the_next_sequence_or_a_new_epoch_or_producer_is_accepted(
    raw: bytes, code: int
) -> None:
    """A new epoch begins at 0, and so does a producer that is newer than the log."""
    writer = Writer(make_host())
    assert writer.write(idempotent_batch(0, 3, epoch=2)) == (0, 0)
    assert writer.write(raw) == (code, -1 if code else 3)


def test_a_duplicate_within_a_turn_is_written_once() -> None:
    """All three requests wait for the same write."""
    host = make_host()
    first, second = Writer(host), Writer(host)
    for writer in (first, second, first):
        writer.send(ApiKey.PRODUCE, 9, produce(idempotent_batch(0, 2), -1))
    assert first.take() == []
    host.turn()
    responses = [response for writer in (first, second) for _, response in writer.take()]
    assert [produce_result(response).base_offset for response in responses] == [0, 0, 0]
    assert len(first.values()) == 2


def test_a_failed_write_restores_the_producer_state() -> None:
    """State and offsets are undone, so that the producer's retry of the batch is accepted."""
    host = make_host()
    writer = Writer(host)
    assert writer.write(idempotent_batch(0)) == (0, 0)
    host.files.capacity_bytes = host.files.used_bytes() + 10
    for sequence in (1, 2):
        writer.send(ApiKey.PRODUCE, 9, produce(idempotent_batch(sequence)))
    writer.send(ApiKey.PRODUCE, 9, produce(idempotent_batch(0, producer=8)))
    host.turn()
    codes = [produce_result(response).error_code for _, response in writer.take()]
    assert codes == [ErrorCode.KAFKA_STORAGE_ERROR] * 3
    host.files.capacity_bytes = None
    assert writer.write(idempotent_batch(2)) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert writer.write(idempotent_batch(1)) == (0, 1)
    assert [entry.producer_id for entry in describe_producers(host)] == [7]


def test_an_append_that_is_undone_is_not_written() -> None:
    """The next append has its offset."""
    host = make_host()
    writer = Writer(host)
    writer.send(ApiKey.PRODUCE, 9, produce(idempotent_batch(0)))
    host.node.replica_manager.undo(host.node.replica_manager.turn[0])
    [(_, response)] = writer.take()
    assert produce_result(response).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    host.turn()
    assert writer.values() == []
    assert writer.write(idempotent_batch(0)) == (0, 0)


def test_a_duplicate_batch_fails_with_the_first_one() -> None:
    host = make_host()
    writer = Writer(host)
    host.files.faults.append(Fault("pwritev"))
    for _ in range(2):
        writer.send(ApiKey.PRODUCE, 9, produce(idempotent_batch(0)))
    host.turn()
    codes = [produce_result(response).error_code for _, response in writer.take()]
    assert codes == [ErrorCode.KAFKA_STORAGE_ERROR] * 2


@pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
def test_producers_are_known_after_a_restart(clean: bool) -> None:
    first = make_host()
    for sequence in range(7):
        assert Writer(first).write(idempotent_batch(sequence)) == (0, sequence)
    if clean:
        first.runner.close()
    else:
        first.files.kill()
    writer = Writer(make_host(first.files))
    assert writer.write(idempotent_batch(4)) == (0, 4)
    assert writer.write(idempotent_batch(8)) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert writer.write(idempotent_batch(7)) == (0, 7)


def test_an_idle_producer_expires() -> None:
    host = make_host()
    set_config(host, BROKER, "", "producer.id.expiration.ms", 3_000_000)
    writer = Writer(host)
    writer.write(idempotent_batch(0, timestamp=0))
    writer.write(idempotent_batch(0, producer=8, timestamp=2_900_000))
    for _ in range(4):
        host.pass_time(EXPIRATION_CHECK_MS)
    assert [entry.producer_id for entry in describe_producers(host)] == [7, 8]
    host.pass_time(EXPIRATION_CHECK_MS)
    assert [entry.producer_id for entry in describe_producers(host)] == [8]
    assert writer.write(idempotent_batch(9)) == (0, 2)


def describe_producers(host: VirtualHost, topic: str = "demo") -> Any:
    request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[0])])
    response = FrameClient(host).ask(ApiKey.DESCRIBE_PRODUCERS, 0, request)
    [part] = response.topics[0].partitions
    return part.active_producers if not part.error_code else part.error_code


def test_producers_are_described() -> None:
    host = make_host()
    writer = Writer(host)
    assert list(describe_producers(host)) == []
    writer.write(batch(b"of nobody"))
    writer.write(idempotent_batch(0, 3, epoch=2, timestamp=1234))
    [entry] = describe_producers(host)
    assert (entry.producer_id, entry.producer_epoch, entry.last_sequence) == (7, 2, 2)
    assert (entry.last_timestamp, entry.current_txn_start_offset) == (1234, -1)
    assert describe_producers(host, "nobody") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
