"""Reads partitions from given offsets, with at most one pending fetch per leader."""

from __future__ import annotations

import select

from kraftlog.client import offsets
from kraftlog.client.cluster import BACKOFF_S, FETCH_RETRIED
from kraftlog.client.connection import usable
from kraftlog.client.deadline import Deadline
from kraftlog.client.fetched_batches import READ_UNCOMMITTED, fetched_batches
from kraftlog.client.model import ConsumedRecord
from kraftlog.errors import ErrorCode, RefusedError, UnreachableError
from kraftlog.records.reader import read_records
from kraftlog.value import TYPE_CHECKING, Value
from kraftlog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kraftlog.client.cluster import Cluster
    from kraftlog.client.connection import Connection
    from kraftlog.client.model import PartitionName
    from kraftlog.records.header import BatchHeader
    from kraftlog.types import Buffer

    #: Called with a partition, its offset that is out of range, and the offset to continue at.
    OnReset = Callable[[PartitionName, int, int], None]
    from kraftlog.wire.messages.fetch import PartitionData

#: How long a broker may delay a fetch without data.
MAX_WAIT_MS = 500
#: The most bytes of a fetch, and of each partition in it.
MAX_BYTES = 50 << 20
PARTITION_BYTES = 1 << 20


class Reader:
    """Fetches from the position of each assigned partition, and advances the positions."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        isolation_level: int = READ_UNCOMMITTED,
        reset: int = offsets.LATEST,
        on_reset: OnReset | None = None,
    ) -> None:
        self._cluster = cluster
        self._isolation_level = isolation_level
        #: Where to continue if an offset is out of range: at the earliest or the latest.
        self._reset = reset
        self._on_reset = on_reset
        self.positions: dict[PartitionName, int] = {}
        self._connections: dict[int, Connection] = {}
        #: Fetched batches that `poll` has not returned yet; the positions are after them.
        self._taken: list[FetchedBatch] = []
        #: Of each leader with a pending fetch: the fetched offsets.
        self._in_flight: dict[int, dict[PartitionName, int]] = {}
        #: Until when errors are retried; None while fetches succeed.
        self._give_up_at: Deadline | None = None

    def assign(self, positions: Mapping[PartitionName, int]) -> None:
        """Replace the assignment; results of pending fetches from other positions are dropped."""
        self.positions = dict(positions)
        self._taken = []

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        self._in_flight.clear()

    def poll(self, wait_s: float) -> list[FetchedBatch]:
        """Fetched batches, not decoded yet; waits at most `wait_s` for them."""
        try:
            self._send_fetches()
            self._take_responses(wait_s)
        except (UnreachableError, RefusedError) as error:
            self._pause_or_raise(error)
        else:
            if self._taken:
                self._give_up_at = None
        batches, self._taken = self._taken, []
        return batches

    def _pause_or_raise(self, error: UnreachableError | RefusedError) -> None:
        """Raise an error that is not retriable or lasts too long; else pause before a retry."""
        if isinstance(error, RefusedError) and error.code not in FETCH_RETRIED:
            raise error
        if self._give_up_at is None:
            self._give_up_at = self._cluster.deadline()
        if self._give_up_at.is_over:
            raise error
        for broker, connection in list(self._connections.items()):
            if connection.fileno() < 0:
                del self._connections[broker]
                self._in_flight.pop(broker, None)
        self._cluster.drop_cache()
        self._give_up_at.pause(BACKOFF_S)

    def _send_fetches(self) -> None:
        deadline = self._cluster.deadline()
        by_leader: dict[int, dict[PartitionName, int]] = {}
        for name, offset in self.positions.items():
            leader = self._cluster.leader(*name, deadline)
            if leader not in self._in_flight:
                by_leader.setdefault(leader, {})[name] = offset
        for leader, offsets_of_leader in by_leader.items():
            connection = usable(self._connections.get(leader))
            if connection is None:
                connection = self._cluster.open_connection(leader, deadline)
                self._connections[leader] = connection
            connection.send(self._request(offsets_of_leader), deadline)
            self._in_flight[leader] = offsets_of_leader

    def _request(self, offsets_by_partition: Mapping[PartitionName, int]) -> FetchRequest:
        topics: dict[str, list[FetchPartition]] = {}
        for (topic, index), offset in offsets_by_partition.items():
            part = FetchPartition(
                partition=index, fetch_offset=offset, partition_max_bytes=PARTITION_BYTES
            )
            topics.setdefault(topic, []).append(part)
        return FetchRequest(
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=MAX_BYTES,
            isolation_level=self._isolation_level,
            topics=[FetchTopic(topic=name, partitions=parts) for name, parts in topics.items()],
        )

    def _take_responses(self, wait_s: float) -> None:
        """Take the responses that arrive in time.

        If a broker fails or refuses a partition, all other batches are kept, as the positions are
        after them.
        """
        broker_by_fd = {self._connections[broker].fileno(): broker for broker in self._in_flight}
        if not broker_by_fd:
            Deadline(wait_s).pause(wait_s)
            return
        received = [broker for broker in self._in_flight if self._connections[broker].has_received]
        if received:
            for broker in received:
                self._take_response(broker)
            return
        poll = select.poll()
        for fd in broker_by_fd:
            poll.register(fd, select.POLLIN)
        for fd, _ in poll.poll(wait_s * 1000):
            self._take_response(broker_by_fd[fd])

    def _take_response(self, broker: int) -> None:
        response = self._connections[broker].receive(self._cluster.deadline())
        fetched = self._in_flight.pop(broker)
        assert isinstance(response, FetchResponse)
        context = self._cluster.error_context("Fetch", broker)
        context.check(response.error_code)
        refused: list[RefusedError] = []
        for topic in response.responses:
            for result in topic.partitions:
                name = (topic.topic, result.partition_index)
                if name not in fetched or self.positions.get(name) != fetched[name]:
                    continue  # the assignment has changed since the fetch
                if result.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    self._reset_position(name)
                elif result.error_code:
                    refused.append(context.error(result.error_code, f"{name[0]}-{name[1]}"))
                else:
                    self._taken += self._batches(name, result)
        if refused:
            raise refused[0]

    def _reset_position(self, name: PartitionName) -> None:
        offsets_found = offsets.find(self._cluster, {name: self._reset})
        old = self.positions[name]
        self.positions[name] = offsets_found[name].offset
        if self._on_reset is not None:
            self._on_reset(name, old, self.positions[name])

    def _batches(self, name: PartitionName, result: PartitionData) -> Iterator[FetchedBatch]:
        """Yield the batches with records to return; advance the position past all batches."""
        data, batches = fetched_batches(result)
        for data_position, header, has_records in batches:
            position = self.positions[name]
            if has_records and header.next_offset > position:
                yield FetchedBatch(name, header, data, data_position, position)
            self.positions[name] = max(position, header.next_offset)


class FetchedBatch(Value):
    """A fetched batch; records before `first_offset` have been returned already."""

    name: PartitionName
    header: BatchHeader
    data: Buffer
    data_position: int
    first_offset: int

    def records(self) -> list[ConsumedRecord]:
        header = self.header
        return [
            ConsumedRecord(
                record.offset,
                record.timestamp_ms,
                record.key,
                record.value,
                record.headers,
                *self.name,
                header.leader_epoch,
                header.has_log_append_time,
            )
            for record in read_records(self.data, self.data_position)
            if record.offset >= self.first_offset
        ]
