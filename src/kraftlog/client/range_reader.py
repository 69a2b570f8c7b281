"""Reads a range of offsets of a partition as fast as its leader sends the records.

The next fetch is sent as soon as the headers of a response are read, so the broker works on it
while the caller decodes the records.
"""

from __future__ import annotations

from kraftlog.client.cluster import BACKOFF_S, FETCH_RETRIED, TOPIC_WAIT_S
from kraftlog.client.fetch_size import FetchSize
from kraftlog.client.fetched_batches import READ_UNCOMMITTED, fetched_batches
from kraftlog.errors import (
    ClientError,
    CorruptBatchError,
    ErrorCode,
    RefusedError,
    UnreachableError,
)
from kraftlog.types import NULL_UUID, uuid_text
from kraftlog.value import TYPE_CHECKING, Value
from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraftlog.client.cluster import Cluster
    from kraftlog.client.connection import Connection
    from kraftlog.client.deadline import Deadline
    from kraftlog.client.model import PartitionName
    from kraftlog.records.header import BatchHeader
    from kraftlog.types import Buffer, Uuid
    from kraftlog.wire.messages.fetch import PartitionData

#: Bytes of one fetch: some ten thousand small records, which are decoded at once.
FETCH_BYTES = 4 << 20
#: How long a broker may delay a fetch without data.
_MAX_WAIT_MS = 500
#: From this version on a fetch names topics by id.
_WITH_TOPIC_IDS = 13


class RecreatedTopicError(ClientError):
    """The topic was deleted, and another topic has its name now."""


class FetchedBatches(Value):
    """Batches of a response that have records: their positions in `data` and their headers."""

    data: Buffer
    batches: list[tuple[int, BatchHeader]]
    #: The fetched offset, and the offset after the last batch.
    start: int
    next_offset: int


class RangeReader:
    """Iterates over the batches of one partition from `start` to before `end`.

    With a topic id, a topic that was created again under the same name is never read.
    The first batch may begin before `start`, the last may end after `end`. If the next batch does
    not arrive within the cluster's timeout, an `UnreachableError` or the last refusal is raised.
    """

    def __init__(
        self,
        cluster: Cluster,
        name: PartitionName,
        start: int,
        end: int,
        *,
        isolation_level: int = READ_UNCOMMITTED,
        fetch_size: FetchSize | None = None,
        topic_id: Uuid = NULL_UUID,
    ) -> None:
        self._cluster = cluster
        self._name = name
        self.position = start
        self._end = end
        self._isolation_level = isolation_level
        self._fetch_size = fetch_size or FetchSize(FETCH_BYTES)
        self._topic_id = topic_id
        #: The leader's connection while a fetch is pending.
        self._connection: Connection | None = None
        self._deadline = cluster.deadline()
        #: Until when the metadata may lack the topic; None while the metadata has it.
        self._missing_deadline: Deadline | None = None

    def __iter__(self) -> Iterator[FetchedBatches]:
        try:
            while self.position < self._end:
                result = self._fetch()
                fetched = self._take_batches(result)
                if fetched.next_offset == fetched.start:
                    self._check_deadline(result)
                    continue
                self._deadline = self._cluster.deadline()
                if self.position < self._end:
                    self._send_early()
                yield fetched
        finally:
            self.close()

    def close(self) -> None:
        """Close the connection if it owes a response, which will not be read."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _fetch(self) -> PartitionData:
        """Fetch from the position; retry while there is no leader or the leader has moved."""
        while True:
            try:
                if self._connection is None:
                    self._send()
                return self._receive()
            except UnreachableError as error:
                self._pause_or_raise(error)
            except RefusedError as error:
                if error.code not in FETCH_RETRIED:
                    raise
                self._pause_or_raise(error)

    def _pause_or_raise(self, error: UnreachableError | RefusedError) -> None:
        self.close()
        if self._deadline.is_over or self._is_missing_too_long(error):
            raise error
        self._cluster.drop_cache()
        self._deadline.pause(BACKOFF_S)

    def _is_missing_too_long(self, error: UnreachableError | RefusedError) -> bool:
        """Whether the metadata has lacked the topic so long that it must have been deleted."""
        if not isinstance(error, RefusedError) or error.api != "Metadata":
            self._missing_deadline = None
        elif error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._missing_deadline = self._missing_deadline or self._cluster.deadline(TOPIC_WAIT_S)
        return self._missing_deadline is not None and self._missing_deadline.is_over

    def _send_early(self) -> None:
        """Send the next fetch; if this fails, the next iteration tries again."""
        try:
            self._send()
        except (UnreachableError, RefusedError):
            self.close()

    def _send(self) -> None:
        topic, index = self._name
        self._check_topic()
        leader = self._cluster.leader(topic, index, self._deadline)
        connection = self._cluster.connection(leader, self._deadline)
        size = self._fetch_size.for_offsets(self._end - self.position)
        part = FetchPartition(partition=index, fetch_offset=self.position, partition_max_bytes=size)
        request = FetchRequest(
            max_wait_ms=_MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=size,
            isolation_level=self._isolation_level,
            topics=[FetchTopic(topic=topic, topic_id=self._topic_id, partitions=[part])],
        )
        connection.send(request, self._deadline, self._version(connection))
        self._connection = connection
        self._leader = leader

    def _version(self, connection: Connection) -> int | None:
        """The newest version if it names the topic by id; else None, for the newest by name."""
        newest = min(APIS[ApiKey.FETCH].last, connection.served[ApiKey.FETCH][1])
        return newest if self._topic_id != NULL_UUID and newest >= _WITH_TOPIC_IDS else None

    def _check_topic(self) -> None:
        name = self._name[0]
        current_id = self._cluster.topic(name, self._deadline).id
        if NULL_UUID not in (current_id, self._topic_id) and current_id != self._topic_id:
            raise RecreatedTopicError(
                f"topic {name} was deleted and created again while it was read: its id was "
                f"{uuid_text(self._topic_id)} and is {uuid_text(current_id)}"
            )

    def _receive(self) -> PartitionData:
        assert self._connection is not None
        response = self._connection.receive(self._deadline)
        self._connection = None
        assert isinstance(response, FetchResponse)
        context = self._cluster.error_context("Fetch", self._leader)
        context.check(response.error_code)
        result = response.responses[0].partitions[0]
        context.check(result.error_code, f"{self._name[0]}-{self._name[1]}")
        return result

    def _take_batches(self, result: PartitionData) -> FetchedBatches:
        """Return the batches with records to read; advance the position past all batches."""
        start = self.position
        readable = []
        headers = []
        try:
            data, batches = fetched_batches(result)
            for data_position, header, has_records in batches:
                if has_records and header.next_offset > start and header.base_offset < self._end:
                    readable.append((data_position, header))
                self.position = max(self.position, header.next_offset)
                headers.append(header)
        except CorruptBatchError as error:
            topic, index = self._name
            raise CorruptBatchError(
                f"{topic}-{index}, the batch at offset {self.position}: {error.what}"
            ) from None
        self._fetch_size.learn(headers)
        return FetchedBatches(data, readable, start, self.position)

    def _check_deadline(self, result: PartitionData) -> None:
        """Raise after the deadline; until then a new leader may not know its high watermark yet."""
        if self._deadline.is_over:
            raise UnreachableError(
                f"{self._name[0]}-{self._name[1]}: no batch at offset {self.position} of "
                f"{self._end}; the leader's high watermark is {result.high_watermark}"
            )
