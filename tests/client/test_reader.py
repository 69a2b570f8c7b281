"""The consumer's reader: what brokers have sent is returned, also if other fetches fail."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any, cast

import pytest

from kraftlog.client.deadline import Deadline
from kraftlog.client.reader import Reader
from kraftlog.errors import ErrorCode, RefusedError, UnreachableError
from kraftlog.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from tests.storage.making import batch
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from kraftlog.client.cluster import Cluster
    from kraftlog.wire.messages.fetch import FetchRequest

PARTITIONS = [("demo", 0), ("demo", 1)]


class LeaderConnection:
    """A connection with a response, or with an error, that can be received at once."""

    has_received = False

    @property
    def is_usable(self) -> bool:
        return self.fileno() >= 0

    def __init__(self, outcome: FetchResponse | UnreachableError) -> None:
        self.outcome = outcome
        self.sock, self.peer = socket.socketpair()
        self.peer.send(b"readable")

    def fileno(self) -> int:
        return self.sock.fileno()

    def send(self, _request: FetchRequest, _deadline: Deadline) -> None:
        pass

    def receive(self, _: Deadline) -> FetchResponse:
        if isinstance(self.outcome, FetchResponse):
            return self.outcome
        self.close()
        raise self.outcome

    def close(self) -> None:
        self.sock.close()
        self.peer.close()


class TwoLeaders:
    """A cluster in which broker 1 leads the first partition, and broker 2 the second."""

    def __init__(self, *connections: LeaderConnection) -> None:
        self.connections = dict(enumerate(connections, 1))
        self.dropped_caches = 0

    def deadline(self) -> Deadline:
        return Deadline(LIMIT_S)

    def leader(self, _topic: str, index: int, _deadline: Deadline) -> int:
        return index + 1

    def open_connection(self, leader: int, _deadline: Deadline) -> LeaderConnection:
        return self.connections[leader]

    def error_context(self, _api: str, _broker: int) -> Any:
        return self

    def check(self, code: int) -> None:
        assert code == 0

    def error(self, code: int, _item: str) -> RefusedError:
        return RefusedError(code, api="Fetch", broker="broker 1")

    def drop_cache(self) -> None:
        self.dropped_caches += 1


class OneLeader(TwoLeaders):
    """A cluster in which broker 1 leads both partitions."""

    def leader(self, _topic: str, _index: int, _deadline: Deadline) -> int:
        return 1


def result(index: int, code: int = ErrorCode.NONE) -> PartitionData:
    """Three records, or an error."""
    return PartitionData(
        partition_index=index,
        error_code=code,
        high_watermark=-1 if code else 3,
        aborted_transactions=None,
        records=None if code else batch(0, 3),
    )


def response(*results: PartitionData) -> FetchResponse:
    return FetchResponse(responses=[FetchableTopicResponse(topic="demo", partitions=[*results])])


@pytest.fixture(autouse=True)
def no_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kraftlog.client.reader.BACKOFF_S", 0)


def test_batches_of_a_broker_are_returned_although_another_fails() -> None:
    """The reader's position is after these batches: it would never fetch them again."""
    failure = UnreachableError("broker 2 was killed")
    connections = LeaderConnection(response(result(0))), LeaderConnection(failure)
    reader = Reader(cast("Cluster", TwoLeaders(*connections)))
    reader.assign(dict.fromkeys(PARTITIONS, 0))
    batches = reader.poll(LIMIT_S)
    assert [each.name for each in batches] == [PARTITIONS[0]]
    assert [record.offset for each in batches for record in each.records()] == [0, 1, 2]
    assert reader.positions == {PARTITIONS[0]: 3, PARTITIONS[1]: 0}
    reader.close()


def test_a_moved_partition_is_looked_up_although_others_have_records() -> None:
    """Otherwise a partition that has moved would be fetched from its former leader for ever."""
    moved = result(1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    cluster = OneLeader(LeaderConnection(response(result(0), moved)))
    reader = Reader(cast("Cluster", cluster))
    reader.assign(dict.fromkeys(PARTITIONS, 0))
    assert [each.name for each in reader.poll(LIMIT_S)] == [PARTITIONS[0]]
    assert cluster.dropped_caches == 1
    reader.close()


def test_a_fatal_error_of_a_partition_is_raised_and_loses_no_batches() -> None:
    fatal = result(1, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    reader = Reader(cast("Cluster", OneLeader(LeaderConnection(response(result(0), fatal)))))
    reader.assign(dict.fromkeys(PARTITIONS, 0))
    with pytest.raises(RefusedError, match="TOPIC_AUTHORIZATION_FAILED"):
        reader.poll(LIMIT_S)
    del reader.positions[PARTITIONS[1]]
    assert [each.name for each in reader.poll(LIMIT_S)] == [PARTITIONS[0]]
    reader.close()
