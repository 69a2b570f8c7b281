"""What a `BatchSender` does after each error code, with a scripted broker."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kraftlog.client.batch_sender import BatchSender
from kraftlog.client.cluster import Cluster
from kraftlog.errors import ErrorCode, RefusedError, UnreachableError
from kraftlog.records.encode_columns import EncodedBatch, encode_batches
from kraftlog.records.header import read_header
from kraftlog.wire.messages.init_producer_id import InitProducerIdResponse
from kraftlog.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from kraftlog.wire.schema import Message

OK = ErrorCode.NONE
MOVED = ErrorCode.NOT_LEADER_OR_FOLLOWER
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
DUPLICATE = ErrorCode.DUPLICATE_SEQUENCE_NUMBER
#: In place of an error code: the connection breaks without a response.
LOST = 1000
NAME = ("t", 0)


class ScriptedCluster(Cluster):
    """Responds to batches with the error codes in order, and without an error after the last."""

    def __init__(self, codes: list[int]) -> None:
        super().__init__("localhost:1", client_id="test", timeout_s=60)
        self.was_reached = True
        self.codes = deque(codes)
        #: The base sequence of each batch in the order of sending.
        self.sent_sequences: list[int] = []
        self.max_in_flight = 0

    def leader(self, *_: Any, **__: Any) -> int:
        return 1

    def connection(self, *_: Any, **__: Any) -> Any:
        return ScriptedConnection(self)

    def open_connection(self, *_: Any, **__: Any) -> Any:
        return ScriptedConnection(self)


class ScriptedConnection:
    login_is_ending = False

    def __init__(self, cluster: ScriptedCluster) -> None:
        self._cluster = cluster
        self._requests: deque[Message] = deque()
        self._is_lost = False

    def fileno(self) -> int:
        return 0

    def close(self) -> None:
        self._requests.clear()

    def call(self, request: Message, *_: object) -> Message:
        self.send(request)
        return self.receive()

    def send(self, request: Message, *_: object, **__: object) -> None:
        self._requests.append(request)
        if isinstance(request, ProduceRequest):
            records = request.topic_data[0].partition_data[0].records
            assert records is not None
            self._cluster.sent_sequences.append(read_header(records).base_sequence)
            self._cluster.max_in_flight = max(self._cluster.max_in_flight, len(self._requests))

    def receive(self, *_: object) -> Message:
        request = self._requests.popleft()
        if not isinstance(request, ProduceRequest):
            return InitProducerIdResponse(error_code=OK, producer_id=7, producer_epoch=0)
        code = LOST if self._is_lost else OK
        if self._cluster.codes and not self._is_lost:
            code = self._cluster.codes.popleft()
        if code == LOST:
            self._is_lost = True
            raise UnreachableError("the broker closed the connection")
        result = PartitionProduceResponse(index=0, error_code=code, base_offset=0)
        topic = TopicProduceResponse(name="t", partition_responses=[result])
        return ProduceResponse(responses=[topic])


def batches(count: int) -> list[EncodedBatch]:
    """Batches of one record, so that their sequence numbers are 0, 1, 2 …"""
    values = pa.array([b"v"] * count)
    times = np.zeros(count, dtype=np.int64)
    return encode_batches(times, pa.nulls(count, pa.binary()), values, None, [1] * count)


def send_batches(codes: list[int], count: int = 4) -> tuple[list[int], int]:
    """Send batches; return their sequence numbers as sent, and the most requests in flight."""
    cluster = ScriptedCluster(codes)
    sender = BatchSender(cluster)
    sender.send((NAME, batch) for batch in batches(count))
    sender.flush()
    return cluster.sent_sequences, cluster.max_in_flight


def test_requests_are_in_flight_together_after_the_first() -> None:
    assert send_batches([], count=9) == ([*range(9)], 5)


def test_the_second_batch_waits_for_the_first() -> None:
    """A broker that does not know the producer accepts any sequence number as its first."""
    assert send_batches([MOVED], count=2)[0] == [0, 0, 1]


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        # A batch and all after it are refused: each is sent again, one by one.
        ([OK, MOVED, MOVED, MOVED], [0, 1, 2, 3, 1, 2, 3]),
        # The leader accepts batches again, but the later ones are out of order now.
        ([OK, MOVED, OUT_OF_ORDER, OUT_OF_ORDER], [0, 1, 2, 3, 1, 2, 3]),
        # The second attempt of batch 1 is refused as well.
        ([OK, MOVED, OUT_OF_ORDER, OUT_OF_ORDER, MOVED], [0, 1, 2, 3, 1, 1, 2, 3]),
        # The connection breaks: batch 2 was written, so its repetition is a duplicate.
        ([OK, OK, LOST, DUPLICATE], [0, 1, 2, 3, 2, 3]),
        ([OK, OK, LOST, LOST, DUPLICATE], [0, 1, 2, 3, 2, 2, 3]),
        # The connection breaks while one request is in flight: the first, or the last.
        ([LOST, DUPLICATE], [0, 0, 1, 2, 3]),
        ([OK, OK, OK, LOST, DUPLICATE], [0, 1, 2, 3, 3]),
    ],
)
def test_unacknowledged_batches_are_sent_again_in_order(
    codes: list[int], expected: list[int]
) -> None:
    assert send_batches(codes)[0] == expected


def test_a_gap_in_the_sequence_is_an_error_and_ends_the_producer_id() -> None:
    cluster = ScriptedCluster([OK, OUT_OF_ORDER])
    sender = BatchSender(cluster)
    sender.send([(NAME, batches(1)[0])])
    sender.send([(NAME, batches(1)[0])])

    with pytest.raises(RefusedError, match="OUT_OF_ORDER_SEQUENCE_NUMBER"):
        sender.flush()
    sender.send([(NAME, batches(1)[0])])
    sender.flush()

    assert cluster.sent_sequences == [0, 1, 0]
