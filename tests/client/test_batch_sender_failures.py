"""What a `BatchSender` does after each answer of a broker; the brokers here are scripted."""

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
#: The connection breaks instead of a response.
LOST = 1000
NAME = ("t", 0)


class ScriptedCluster(Cluster):
    """Answers the batches that reach it with error codes, in order; then with none."""

    def __init__(self, codes: list[int]) -> None:
        super().__init__("localhost:1", client_id="test", timeout_s=60)
        self.was_reached = True
        self.codes = deque(codes)
        #: Base sequence of each batch that was sent, and after it the most that were unanswered.
        self.sent: list[int] = []
        self.most_unanswered = 0

    def leader(self, *_: Any, **__: Any) -> int:
        return 1

    def connection(self, *_: Any, **__: Any) -> Any:
        return ScriptedConnection(self)

    def open_connection(self, *_: Any, **__: Any) -> Any:
        return ScriptedConnection(self)


class ScriptedConnection:
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
            self._cluster.sent.append(read_header(records).base_sequence)
            most = max(self._cluster.most_unanswered, len(self._requests))
            self._cluster.most_unanswered = most

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


def sent(codes: list[int], count: int = 4) -> tuple[list[int], int]:
    """The sequence numbers in the order of sending, and the most requests in flight."""
    cluster = ScriptedCluster(codes)
    sender = BatchSender(cluster)
    sender.send((NAME, batch) for batch in batches(count))
    sender.flush()
    return cluster.sent, cluster.most_unanswered


def test_requests_are_in_flight_together_after_the_first() -> None:
    assert sent([], count=9) == ([*range(9)], 5)


def test_the_second_batch_waits_for_the_first() -> None:
    """A broker that does not know the producer takes any sequence number as its first."""
    assert sent([MOVED], count=2)[0] == [0, 0, 1]


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        # A batch is refused, those after it too: all of them again, one by one.
        ([OK, MOVED, MOVED, MOVED], [0, 1, 2, 3, 1, 2, 3]),
        # The leader is back before the batches after it arrive.
        ([OK, MOVED, OUT_OF_ORDER, OUT_OF_ORDER], [0, 1, 2, 3, 1, 2, 3]),
        # Its second attempt is refused as well.
        ([OK, MOVED, OUT_OF_ORDER, OUT_OF_ORDER, MOVED], [0, 1, 2, 3, 1, 1, 2, 3]),
        # The connection breaks: what was written already is answered as a duplicate.
        ([OK, OK, LOST, DUPLICATE], [0, 1, 2, 3, 2, 3]),
        ([OK, OK, LOST, LOST, DUPLICATE], [0, 1, 2, 3, 2, 2, 3]),
        # It breaks when one request is in flight: the first, or the last.
        ([LOST, DUPLICATE], [0, 0, 1, 2, 3]),
        ([OK, OK, OK, LOST, DUPLICATE], [0, 1, 2, 3, 3]),
    ],
)
def test_what_is_not_acknowledged_is_sent_again_in_order(
    codes: list[int], expected: list[int]
) -> None:
    assert sent(codes)[0] == expected


def test_a_gap_in_the_sequence_is_an_error_and_ends_the_identity() -> None:
    cluster = ScriptedCluster([OK, OUT_OF_ORDER])
    sender = BatchSender(cluster)
    sender.send([(NAME, batches(1)[0])])
    sender.send([(NAME, batches(1)[0])])

    with pytest.raises(RefusedError, match="OUT_OF_ORDER_SEQUENCE_NUMBER"):
        sender.flush()
    sender.send([(NAME, batches(1)[0])])
    sender.flush()

    assert cluster.sent == [0, 1, 0]
