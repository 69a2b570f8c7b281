"""The consumer's reader: what one broker has sent is returned, also if another one fails."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any, cast

from kraftlog.client.deadline import Deadline
from kraftlog.client.reader import Reader
from kraftlog.errors import UnreachableError
from kraftlog.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from tests.storage.making import batch
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    import pytest

    from kraftlog.client.cluster import Cluster
    from kraftlog.wire.messages.fetch import FetchRequest

PARTITIONS = [("demo", 0), ("demo", 1)]


class LeaderConnection:
    """A connection with a response, or with an error, that can be received at once."""

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

    def drop_cache(self) -> None:
        pass


def response_of_first_leader() -> FetchResponse:
    result = PartitionData(
        partition_index=0,
        error_code=0,
        high_watermark=3,
        aborted_transactions=None,
        records=batch(0, 3),
    )
    topic = FetchableTopicResponse(topic="demo", partitions=[result])
    return FetchResponse(responses=[topic])


def test_batches_of_a_broker_are_returned_although_another_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The reader's position is after these batches: it would never fetch them again."""
    monkeypatch.setattr("kraftlog.client.reader.BACKOFF_S", 0)
    failure = UnreachableError("broker 2 was killed")
    connections = LeaderConnection(response_of_first_leader()), LeaderConnection(failure)
    reader = Reader(cast("Cluster", TwoLeaders(*connections)))
    reader.assign(dict.fromkeys(PARTITIONS, 0))
    batches = reader.poll(LIMIT_S)
    assert [each.name for each in batches] == [PARTITIONS[0]]
    assert [record.offset for each in batches for record in each.records()] == [0, 1, 2]
    assert reader.positions == {PARTITIONS[0]: 3, PARTITIONS[1]: 0}
    reader.close()
