"""A fetch from more than a hundred partitions, served in slices.

Files may be replaced or deleted between two slices. So data is read at once, or its file stays
open: no file is opened again by its name. While such a fetch waits, only partitions that change are
checked; all are read again once there is enough data, or if many have changed.
"""

from __future__ import annotations

from kraftlog.errors import StorageError
from kraftlog.node.fetch import follower_news
from kraftlog.node.fetch.delayed import FEW_PARTITIONS, DelayedFetch
from kraftlog.node.fetch.reading import READ_COST, Reading
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


class LargeReading(Reading):
    """Reads in slices: between two of them, data is in memory or its file is open."""

    __slots__ = ("last_reads", "open_slices")

    def __init__(
        self,
        node: ServingNode,
        pending: PendingResponse,
        request: FetchRequest,
        session: FetchSession | None,
    ) -> None:
        super().__init__(node, pending, request, session)
        self.encode_partition = None  # the response is encoded in steps
        #: By partition: its part of the request, and its last read: bytes found and readable end.
        self.last_reads: dict[Partition, tuple[FetchPartition, int, int]] = {}
        #: Slices whose files stay open until the response is encoded.
        self.open_slices: list[Slice] = []

    def run_in_steps(self) -> Iterator[int]:
        self.last_reads.clear()
        yield from super().run_in_steps()

    def _read_partition(
        self,
        topic: FetchTopic | SessionTopic,
        part: FetchPartition,
        session_partition: SessionPartition | None,
    ) -> PartitionData | None:
        data = super()._read_partition(topic, part, session_partition)
        partition = self.partitions[-1] if self.partitions else None
        if partition is not None and partition not in self.last_reads:
            self.last_reads[partition] = part, 0, self.reader.readable_end(partition)
        return data

    def _locate(self, partition: Partition, part: FetchPartition) -> Slice | bytes | None:
        records: Any = super()._locate(partition, part)
        size = 0 if records is None else len(records)
        self.last_reads[partition] = part, size, self.reader.readable_end(partition)
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

    def recheck(self, partition: Partition, part: FetchPartition) -> None:
        """Find out how much a changed partition has now, without reading it."""
        _, old_size, _ = self.last_reads.get(partition, (part, 0, 0))
        try:
            records = super()._locate(partition, part)
        except StorageError:
            records = None
        size = 0 if records is None else len(records)
        self.size += size - old_size
        self.last_reads[partition] = part, size, self.reader.readable_end(partition)

    def release_files(self) -> None:
        for open_slice in self.open_slices:
            open_slice.release()
        self.open_slices.clear()


class LargeFetch(DelayedFetch):
    """A fetch that is read, parked and encoded in slices."""

    __slots__ = ()

    reading: LargeReading

    def _new_reading(self) -> LargeReading:
        return LargeReading(self.node, self.pending, self.request, self.session)

    def serve(self, now: Now) -> Iterator[int]:
        """Serve the request, in steps."""
        return self.serve_until(now.monotonic_ms + self.max_wait_ms())

    def serve_until(self, deadline_ms: int) -> Iterator[int]:
        """Serve the request, in steps; at the deadline, respond with what there is."""
        try:
            yield from self.reading.run_in_steps()
            if self.is_enough or self.node.now.monotonic_ms >= deadline_ms:
                yield from self._respond_in_steps()
                return
        finally:
            self.reading.release_files()
        self.park(deadline_ms)
        try:
            yield from self._recheck()
        except GeneratorExit:
            self.cancel()
            raise
        if not self.done:
            self.pending.waiter = self

    def _recheck(self) -> Iterator[int]:
        """Check the partitions that changed, or the session that ended, between read and `park`."""
        if self.session is not None and self.session.is_closed:
            self._finish()
            return
        last_reads, readable_end = self.reading.last_reads, self.reading.reader.readable_end
        for number, partition in enumerate(self.reading.partitions, 1):
            last_read = last_reads.get(partition)
            if (
                last_read is None
                or last_read[2] < readable_end(partition)
                or self._must_hear_of(partition, last_read[0])
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
            elif changed_partition not in last_reads:
                self.try_complete(changed_partition)
                if not self.done:
                    yield READ_COST
            if self.done:
                return

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
        part = self._request_of(partition)
        if part is not None and not self._must_hear_of(partition, part):
            self.reading.recheck(partition, part)
            if self.reading.size < self.request.min_bytes:
                return
        self._finish()

    def _request_of(self, partition: Partition) -> FetchPartition | None:
        """The partition's part of the request, or of the session."""
        if partition in self.reading.last_reads:
            return self.reading.last_reads[partition][0]
        session_partition = self._session_partition(partition)
        return None if session_partition is None else session_partition.request

    def _session_partition(self, partition: Partition) -> SessionPartition | None:
        if self.session is None:
            return None
        return self.session.find(partition.topic, partition.topic_id, partition.index)

    def _must_hear_of(self, partition: Partition, part: FetchPartition) -> bool:
        """Whether the reader must get a response even without records: an error, or new offsets."""
        manager = self.node.replica_manager
        return bool(self.reading.reader.error_code(partition, part)) or (
            self.is_by_follower
            and (
                follower_news.is_awaited(manager, partition, part)
                or follower_news.is_for_consumers(
                    manager, partition, self._session_partition(partition)
                )
            )
        )

    def expire(self, now: Now) -> None:  # noqa: ARG002 - interface of delayed operations
        if not self.done:
            self._finish()

    def _finish(self) -> None:
        """Stop waiting and respond with what there is."""
        self.done = True
        self._stop_watching()
        self.node.sliced.run(self.pending, self._read_and_respond(), self.request)

    def _read_and_respond(self) -> Iterator[int]:
        try:
            yield from self.reading.run_in_steps()
            yield from self._respond_in_steps()
        finally:
            self.reading.release_files()

    def _respond_in_steps(self) -> Iterator[int]:
        self.done = True
        throttled = self._throttled_response()
        if throttled is not None:
            self.pending.respond(throttled)
            return
        session = self.session
        if session is None and self.request.session_epoch == INITIAL_EPOCH:
            session = yield from self.node.fetch_sessions.open_in_steps(
                self.request, self.pending.version, self.node.now
            )
        response = self._response_in(session)
        if session is not None:
            yield from session.sent_in_steps(response.responses)
        self._count(response)
        yield from self.pending.respond_in_steps(response, len(self.reading.last_reads) + 1)

    def cancel(self) -> None:
        super().cancel()
        self.reading.release_files()


def _log_text(partition: Partition) -> str:
    topic, index = partition.log
    return f"{topic}-{index}"
