"""The metadata log of a running cluster, fetched from the quorum's leader, as observers do."""

from __future__ import annotations

from kraftlog.client import nodes
from kraftlog.client.cluster import BACKOFF_S, RETRIED, ErrorContext
from kraftlog.client.connection import Connection
from kraftlog.errors import ClientError, ErrorCode, RefusedError, UnreachableError
from kraftlog.metadata.history import state_at
from kraftlog.records.header import BatchHeader
from kraftlog.records.walk import walk
from kraftlog.types import METADATA_TOPIC, METADATA_TOPIC_ID, OffsetAndEpoch
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.messages import fetch_snapshot
from kraftlog.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeVar

    from kraftlog.client.cluster import Cluster
    from kraftlog.metadata.history import MetadataState, Moment
    from kraftlog.types import Buffer

    T = TypeVar("T")

_FETCH_BYTES = 8 << 20
#: How many epochs to try, from that of the first record down, to find the oldest snapshot.
_MAX_TRIED_EPOCHS = 20


class _DeletedError(ClientError):
    """The leader has deleted the records that were to be read, as a newer snapshot has them."""


class MetadataQuorum:
    """Reads committed batches and snapshots; the leader may delete old ones meanwhile."""

    #: As of a `MetadataFolder`: brokers serve only what is valid.
    damage = ""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._deadline = cluster.deadline()
        self._connection: Connection | None = None
        self._epoch = -1
        self._begin()

    def _begin(self) -> None:
        first = self._fetch(0)
        #: The high watermark when the reading began.
        self.end = first.high_watermark
        newest = first.snapshot_id
        self._newest = OffsetAndEpoch(newest.end_offset, newest.epoch)
        #: The log start offset. Leaders of Kafka report it; a log of kraftlog starts at its only
        #: snapshot.
        self.start = 0
        if newest.end_offset >= 0:
            has_log_start = first.log_start_offset > 0
            self.start = first.log_start_offset if has_log_start else newest.end_offset

    def state_at(self, until: Moment) -> MetadataState:
        """The metadata as of a moment; begins again if the leader deletes what is being read."""
        deadline = self._cluster.deadline()
        while True:
            try:
                return state_at(self, until)
            except (RefusedError, _DeletedError) as error:
                if isinstance(error, RefusedError) and error.code != ErrorCode.SNAPSHOT_NOT_FOUND:
                    raise
                if deadline.is_over:
                    raise
            self._deadline = deadline
            self._begin()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @property
    def cluster_id(self) -> str:
        """Empty if the nodes do not report it."""
        return self._cluster.cluster_id or ""

    # Snapshots -----------------------------------------------------------------------------------

    def snapshots(self) -> list[OffsetAndEpoch]:
        """The newest snapshot, and the one from which the log begins."""
        if self._newest.offset < 0:
            return []
        oldest = self._oldest_snapshot() if 0 < self.start < self._newest.offset else None
        return [self._newest] if oldest is None else [self._newest, oldest]

    def _oldest_snapshot(self) -> OffsetAndEpoch | None:
        """The snapshot at the log start; leaders do not report its epoch, so several are tried."""
        data = self._fetch(self.start + 1).records or b""
        headers = (BatchHeader(*fields) for _, fields in walk(data, may_end_in_batch=True))
        first_epoch = next((header.leader_epoch for header in headers), -1)
        for epoch in range(first_epoch, max(first_epoch - _MAX_TRIED_EPOCHS, -1), -1):
            candidate = OffsetAndEpoch(self.start, epoch)
            try:
                self._snapshot_part(candidate, 0, 1)
            except RefusedError as error:
                if error.code != ErrorCode.SNAPSHOT_NOT_FOUND:
                    raise
            else:
                return candidate
        return None

    def read_snapshot(self, snapshot: OffsetAndEpoch) -> bytes:
        data = b""
        while True:
            part = self._snapshot_part(snapshot, len(data), _FETCH_BYTES)
            data += bytes(part.unaligned_records)
            if len(data) >= part.size:
                return data

    def _snapshot_part(
        self, snapshot: OffsetAndEpoch, position: int, size: int
    ) -> fetch_snapshot.PartitionSnapshotResult:
        def attempt(connection: Connection) -> fetch_snapshot.PartitionSnapshotResult:
            part = fetch_snapshot.PartitionSnapshot(
                partition=0,
                current_leader_epoch=self._epoch,
                snapshot_id=fetch_snapshot.SnapshotId(
                    end_offset=snapshot.offset, epoch=snapshot.epoch
                ),
                position=position,
            )
            topic = fetch_snapshot.TopicSnapshot(name=METADATA_TOPIC, partitions=[part])
            request = fetch_snapshot.FetchSnapshotRequest(max_bytes=size, topics=[topic])
            response = connection.call(request, self._deadline)
            assert isinstance(response, fetch_snapshot.FetchSnapshotResponse)
            context = ErrorContext("FetchSnapshot", connection.address)
            context.check(response.error_code)
            result = response.topics[0].partitions[0]
            context.check(result.error_code, METADATA_TOPIC)
            return result

        return self._call_leader(attempt)

    # Records -------------------------------------------------------------------------------------

    def read(self, offset: int) -> Iterator[Buffer]:
        """Yield batches up to the high watermark, which never lies within a batch."""
        while offset < self.end:
            self._deadline = self._cluster.deadline()
            data = self._fetch(offset).records or b""
            size = 0
            for position, fields in walk(data, may_end_in_batch=True):
                header = BatchHeader(*fields)
                if header.base_offset >= self.end:
                    break
                offset = header.next_offset
                size = position + header.size
            if not size:
                raise _DeletedError(f"the metadata log has no batch at offset {offset}")
            yield memoryview(data)[:size]

    def _fetch(self, offset: int) -> PartitionData:
        """Fetch from an offset.

        The request has the leader's epoch as last fetched epoch, so that the leader sees no
        diverging log.
        """

        def attempt(connection: Connection) -> PartitionData:
            part = FetchPartition(
                partition=0,
                current_leader_epoch=self._epoch,
                fetch_offset=offset,
                last_fetched_epoch=self._epoch if offset else 0,
                partition_max_bytes=_FETCH_BYTES,
            )
            request = FetchRequest(
                max_wait_ms=0,
                min_bytes=0,
                max_bytes=_FETCH_BYTES,
                topics=[FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[part])],
            )
            newest = connection.served.get(ApiKey.FETCH, (0, 0))[1]
            version = min(newest, APIS[ApiKey.FETCH].last)
            response = connection.call(request, self._deadline, version)
            assert isinstance(response, FetchResponse)
            context = ErrorContext("Fetch", connection.address)
            context.check(response.error_code)
            result = response.responses[0].partitions[0]
            context.check(result.error_code, METADATA_TOPIC)
            return result

        return self._call_leader(attempt)

    # The leader ----------------------------------------------------------------------------------

    def _call_leader(self, attempt: Callable[[Connection], T]) -> T:
        """Call the leader; if that fails, connect to the current leader and retry."""
        while True:
            try:
                if self._connection is None:
                    self._connection = self._connect()
                return attempt(self._connection)
            except (UnreachableError, RefusedError) as error:
                if isinstance(error, RefusedError) and error.code not in RETRIED:
                    raise
                self.close()
                if self._deadline.is_over or not self._cluster.was_reached:
                    raise
                self._deadline.pause(BACKOFF_S)

    def _connect(self) -> Connection:
        """A connection to a controller listener of the leader."""
        quorum = nodes.quorum(self._cluster)
        self._epoch = quorum.leader_epoch
        listeners = dict(quorum.listeners).get(quorum.leader_id, ())
        if not listeners:
            leader = self._cluster.brokers.get(quorum.leader_id)
            if not self._cluster.is_controllers or leader is None:
                raise UnreachableError(
                    f"the brokers do not say where controller {quorum.leader_id} is; connect to "
                    "the controllers instead"
                )
            listeners = (("", leader.host, leader.port),)
        _, host, port = listeners[0]
        cluster = self._cluster
        return Connection(host, port, cluster.client_id, self._deadline, security=cluster.security)
