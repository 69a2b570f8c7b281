"""A fetch from more than a hundred partitions, served in slices.

Files may be replaced or deleted between two slices. So data is read at once, or its file stays
open: no file is opened again by its name. While such a fetch waits, only partitions that change are
checked; all are read again once there is enough data, or if many have changed.
"""

from __future__ import annotations

from kraftlog.errors import StorageError
from kraftlog.node.fetch import follower_news
from kraftlog.node.fetch.delayed import FEW_PARTITIONS, READ_COST, DelayedFetch
from kraftlog.node.fetch_sessions import INITIAL_EPOCH
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from typing import Any

    from kraftlog.node.fetch_sessions import FetchSession, SessionPartition, SessionTopic
    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.ports.logs import Slice
    from kraftlog.replication.partition import Partition
    from kraftlog.types import Now
    from kraftlog.wire.messages.fetch import (
        FetchPartition,
        FetchRequest,
        FetchTopic,
        PartitionData,
    )

#: A partition's data up to this size is read at once, so that thousands of them keep no files open.
MAX_BYTES_READ_AT_ONCE = 64 << 10


class LargeFetch(DelayedFetch):
    """A fetch that is read, parked and encoded in slices."""

    __slots__ = ("last_reads", "open_slices")

    def __init__(
        self, pending: PendingResponse, request: FetchRequest, session: FetchSession | None
    ) -> None:
        super().__init__(pending, request, session)
        self.encode_partition = None  # the response is encoded in steps
        #: By partition: its part of the request, and its last read: bytes found and readable end.
        self.last_reads: dict[Partition, tuple[FetchPartition, int, int]] = {}
        #: Slices whose files stay open until the response is encoded.
        self.open_slices: list[Slice] = []

    def serve(self, node: ServingNode, now: Now) -> Iterator[int]:
        """Serve the request, in steps."""
        return self.serve_until(node, now.monotonic_ms + self.max_wait_ms(node))

    def serve_until(self, node: ServingNode, deadline_ms: int) -> Iterator[int]:
        """Serve the request, in steps; at the deadline, respond with what there is."""
        try:
            yield from self.read_in_steps(node)
            if self.is_enough or node.now.monotonic_ms >= deadline_ms:
                yield from self._respond_in_steps(node)
                return
        finally:
            self._release_files()
        self.park(node, deadline_ms)
        try:
            yield from self._recheck()
        except GeneratorExit:
            self.cancel()
            raise
        if not self.done:
            self.pending.waiter = self

    def _recheck(self) -> Iterator[int]:
        """Check the partitions that changed between their read and `park`."""
        for number, partition in enumerate(self.partitions, 1):
            last_read = self.last_reads.get(partition)
            if (
                last_read is None
                or last_read[2] < self._limit(partition)
                or self._error_code(partition, last_read[0])
                or self._has_new_offsets(partition, last_read[0])
            ):
                self.try_complete(partition)
                if not self.done:
                    yield READ_COST
            elif not number % FEW_PARTITIONS:
                yield FEW_PARTITIONS
            if self.done:
                return
        # Other partitions of the session, which have changed since all were read.
        for changed in () if self.session is None else list(self.session.changed):
            changed_partition = changed.partition
            if changed_partition is None:
                self._finish()
            elif changed_partition not in self.last_reads:
                self.try_complete(changed_partition)
                if not self.done:
                    yield READ_COST
            if self.done:
                return

    def read_in_steps(self, node: ServingNode) -> Iterator[int]:
        self.last_reads.clear()
        yield from super().read_in_steps(node)

    def _read_partition(
        self,
        node: ServingNode,
        topic: FetchTopic | SessionTopic,
        part: FetchPartition,
        session_partition: SessionPartition | None,
    ) -> PartitionData | None:
        data = super()._read_partition(node, topic, part, session_partition)
        partition = self.partitions[-1] if self.partitions else None
        if partition is not None and partition not in self.last_reads:
            self.last_reads[partition] = part, 0, self._limit(partition)
        return data

    def _locate(
        self, node: ServingNode, partition: Partition, part: FetchPartition
    ) -> Slice | bytes | None:
        records: Any = super()._locate(node, partition, part)
        size = 0 if records is None else len(records)
        self.last_reads[partition] = part, size, self._limit(partition)
        if records is None:
            return None
        try:
            records.pin()
        except OSError as error:
            raise StorageError(f"{_log_text(partition)}: {error}") from error
        if len(records) > MAX_BYTES_READ_AT_ONCE:
            self.open_slices.append(records)
            return records  # type: ignore[no-any-return]  # a slice
        try:
            data: bytes = records.read()
        finally:
            records.release()
        if len(data) < len(records):
            raise StorageError(f"{_log_text(partition)} is shorter than it was")
        return data

    def _release_files(self) -> None:
        for open_slice in self.open_slices:
            open_slice.release()
        self.open_slices.clear()

    # Waiting -------------------------------------------------------------------------------------

    def _note_written(self) -> None:
        """Nothing to note: `last_reads` has the readable end of each partition."""

    def partitions_changed(self, partitions: Collection[Partition]) -> None:
        if len(partitions) > FEW_PARTITIONS:
            self._serve_in_slices(self.deadline_ms)
            return
        for partition in partitions:
            if not self.done:
                self.try_complete(partition)

    def role_changed(self, partition: Partition) -> None:
        self.try_complete(partition)

    def try_complete(self, partition: Partition) -> None:
        part, old_size, _ = self.last_reads.get(partition, (None, 0, 0))
        if part is None and (session_partition := self._session_partition(partition)) is not None:
            part = session_partition.request
        if (
            part is not None
            and not self._error_code(partition, part)
            and not self._has_new_offsets(partition, part)
        ):
            try:
                records = super()._locate(self.node, partition, part)
            except StorageError:
                records = None
            size = 0 if records is None else len(records)
            self.size += size - old_size
            self.last_reads[partition] = part, size, self._limit(partition)
            if self.size < self.request.min_bytes:
                return
        self._finish()

    def _session_partition(self, partition: Partition) -> SessionPartition | None:
        if self.session is None:
            return None
        return self.session.find(partition.topic, partition.topic_id, partition.index)

    def _has_new_offsets(self, partition: Partition, part: FetchPartition) -> bool:
        """Whether a follower must get a new high watermark or log start, even without records."""
        manager = self.node.replica_manager
        return self.is_by_follower and (
            follower_news.is_awaited(manager, partition, part)
            or follower_news.is_for_consumers(
                manager, partition, self._session_partition(partition)
            )
        )

    def expire(self, now: Now) -> None:  # noqa: ARG002 - interface of delayed operations
        if not self.done:
            self._finish()

    def _finish(self) -> None:
        """Stop waiting and respond with what there is."""
        self.done = True
        self._stop_watching(self.partitions)
        node = self.node
        node.sliced.run(self.pending, self._read_and_respond(node), self.request)

    def _read_and_respond(self, node: ServingNode) -> Iterator[int]:
        try:
            yield from self.read_in_steps(node)
            yield from self._respond_in_steps(node)
        finally:
            self._release_files()

    def _respond_in_steps(self, node: ServingNode) -> Iterator[int]:
        self.done = True
        session = self.session
        if session is None and self.request.session_epoch == INITIAL_EPOCH:
            session = yield from node.fetch_sessions.open_in_steps(
                self.request, self.pending.version, node.now
            )
        response = self._response_in(session)
        if session is not None:
            yield from session.sent_in_steps(response.responses)
        self._count(node)
        yield from self.pending.respond_in_steps(response, len(self.last_reads) + 1)

    def cancel(self) -> None:
        super().cancel()
        self._release_files()


def _log_text(partition: Partition) -> str:
    topic, index = partition.log
    return f"{topic}-{index}"
