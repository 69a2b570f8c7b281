"""A fetch from more than a hundred partitions: the same as any other, a slice of it per turn.

Between two slices files may be replaced or deleted. So what is found is read at once, or its file
is held open: it is never looked up again by its name. And while such a fetch waits, a partition
that gets records is looked at by itself; all are looked at again once there is enough.
"""

from __future__ import annotations

from kraftlog.errors import StorageError
from kraftlog.node.fetch_sessions import FIRST
from kraftlog.node.handlers.fetch import A_FIND_COSTS, DelayedFetch
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from kraftlog.node.fetch_sessions import FetchSession, SessionTopic
    from kraftlog.node.node import Node
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

#: What is no larger is read at once, so that thousands of small finds hold no files open.
READ_AT_ONCE = 64 << 10


class LargeFetch(DelayedFetch):
    """`sizes`: what was asked of each partition, how much there was, and up to which offset."""

    __slots__ = ("held", "sizes")

    def __init__(
        self, slot: PendingResponse, request: FetchRequest, session: FetchSession | None
    ) -> None:
        super().__init__(slot, request, session)
        self.sizes: dict[Partition, tuple[FetchPartition, int, int]] = {}
        #: Slices whose files are held open until the answer is on its way.
        self.held: list[Slice] = []

    def serving(self, node: Node, now: Now) -> Iterator[int]:
        """All of it, from its arrival on."""
        deadline_ms = now.monotonic_ms + self.request.max_wait_ms
        try:
            yield from self.looking(node)
            if self.is_enough or node.now.monotonic_ms >= deadline_ms:
                yield from self._answering(node)
                return
        finally:
            self._let_go()
        self.park(node, deadline_ms)
        try:
            yield from self._catching_up()
        except GeneratorExit:
            self.cancel()
            raise
        if not self.done:
            self.slot.waiter = self

    def _catching_up(self) -> Iterator[int]:
        """Partitions may have changed after they were looked at, when nothing told it yet."""
        for partition in self.partitions:
            known = self.sizes.get(partition)
            if known is None or known[2] < partition.high_watermark or not partition.online:
                self.try_again(partition)
                if not self.done:
                    yield A_FIND_COSTS
            if self.done:
                return

    def looking(self, node: Node) -> Iterator[int]:
        self.sizes.clear()
        yield from super().looking(node)

    def _look_at(
        self, node: Node, topic: FetchTopic | SessionTopic, part: FetchPartition
    ) -> PartitionData | None:
        data = super()._look_at(node, topic, part)
        partition = self.partitions[-1] if self.partitions else None
        if partition is not None and partition not in self.sizes:
            self.sizes[partition] = part, 0, partition.high_watermark
        return data

    def _locate(
        self, node: Node, partition: Partition, part: FetchPartition
    ) -> Slice | bytes | None:
        found: Any = super()._locate(node, partition, part)
        size = 0 if found is None else len(found)
        self.sizes[partition] = part, size, partition.high_watermark
        if found is None:
            return None
        try:
            found.pin()
        except OSError as error:
            raise StorageError(f"{partition.log}: {error}") from error
        if len(found) > READ_AT_ONCE:
            self.held.append(found)
            return found  # type: ignore[no-any-return]  # a slice
        try:
            data: bytes = found.read()
        finally:
            found.release()
        if len(data) < len(found):
            raise StorageError(f"{partition.log} is shorter than it was")
        return data

    def _let_go(self) -> None:
        for piece in self.held:
            piece.release()
        self.held.clear()

    # While it waits ------------------------------------------------------------------------------

    def _note_seen(self) -> None:
        """`sizes` says it, for each partition."""

    def try_again(self, partition: Partition) -> None:
        part, before, _ = self.sizes.get(partition, (None, 0, 0))
        if part is not None and partition.online:
            try:
                found = super()._locate(self.node, partition, part)
            except StorageError:
                found = None
            size = 0 if found is None else len(found)
            self.size += size - before
            self.sizes[partition] = part, size, partition.high_watermark
            if self.size < self.request.min_bytes:
                return
        self._finish()

    def expire(self, now: Now) -> None:  # noqa: ARG002 - waiters are called alike
        if not self.done:
            self._finish()

    def _finish(self) -> None:
        """It waits no longer: what there is now is the answer."""
        self.done = True
        self._stop_watching(self.partitions)
        node = self.node
        node.sliced.run(self.slot, self._look_and_answer(node), self.request)

    def _look_and_answer(self, node: Node) -> Iterator[int]:
        try:
            yield from self.looking(node)
            yield from self._answering(node)
        finally:
            self._let_go()

    def _answering(self, node: Node) -> Iterator[int]:
        self.done = True
        session = self.session
        if session is None and self.request.session_epoch == FIRST:
            session = yield from node.fetch_sessions.opening(
                self.request, self.slot.version, node.now
            )
        response = self._response_in(session)
        if session is not None:
            yield from session.sent_in_steps(response.responses)
        self._count()
        yield from self.slot.respond_in_steps(response, len(self.sizes) + 1)

    def cancel(self) -> None:
        super().cancel()
        self._let_go()
