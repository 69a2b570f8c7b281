"""`DelayedDeletions`: DeleteRecords that wait for the log start of the leader, then of followers.

A deletion is complete when the new log start is durable on this broker and every unfenced follower
has reported it in a fetch. If the request's timeout expires first, the response has
REQUEST_TIMED_OUT, and the records are deleted nevertheless. The timeout does not limit the write of
this broker.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.replication.delayed_produce import complete_wait
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.metadata.loader import MetadataLoader
    from kraftlog.replication.partition import Partition
    from kraftlog.replication.replicating_node import ReplicatingNode
    from kraftlog.types import DelayedResponse, Now

NO_OFFSET = -1


class DelayedDeletion:
    """One partition of a DeleteRecords request."""

    __slots__ = (
        "deletions",
        "done",
        "has_timeout",
        "offset",
        "partition",
        "pending",
        "result",
        "timeout_ms",
    )

    def __init__(
        self,
        deletions: DelayedDeletions,
        partition: Partition,
        offset: int,
        pending: DelayedResponse,
        result: Any,
        timeout_ms: int,
    ) -> None:
        self.deletions = deletions
        self.partition = partition
        #: The log start that completes it.
        self.offset = offset
        self.pending = pending
        #: The partition's entry in the response.
        self.result = result
        self.timeout_ms = timeout_ms
        #: Whether it waits for followers only, and so no longer than its timeout.
        self.has_timeout = False
        self.done = False

    def complete(self, low_watermark: int, error_code: int = ErrorCode.NONE) -> None:
        self.done = True
        self.result.low_watermark = low_watermark
        self.result.error_code = error_code
        complete_wait(self.pending)

    def expire(self, now: Now) -> None:  # noqa: ARG002 - interface of delayed operations
        self.deletions.expire(self)


class DelayedDeletions:
    """The deletions that wait, by partition."""

    def __init__(self, node: ReplicatingNode, metadata: MetadataLoader) -> None:
        self._node = node
        self._metadata = metadata
        self._waiting: dict[Partition, list[DelayedDeletion]] = {}

    def __contains__(self, partition: Partition) -> bool:
        """Whether a deletion waits in a partition."""
        return partition in self._waiting

    def add(
        self,
        partition: Partition,
        offset: int,
        pending: DelayedResponse,
        result: Any,
        timeout_ms: int,
    ) -> None:
        pending.waits += 1
        deletion = DelayedDeletion(self, partition, offset, pending, result, timeout_ms)
        self._waiting.setdefault(partition, []).append(deletion)

    def low_watermark(self, partition: Partition) -> int:
        """The lowest log start of the leader and its unfenced followers."""
        followers = () if partition.followers is None else partition.followers.by_broker.values()
        brokers = self._metadata.image.brokers
        starts = [
            follower.start
            for follower in followers
            if (broker := brokers.get(follower.broker_id)) is not None and broker.active
        ]
        return min([partition.stored_start, *starts])

    def check(self, partition: Partition) -> None:
        """A log start has moved, here or on a follower: complete deletions that waited for it."""
        if partition not in self._waiting:
            return
        low_watermark = self.low_watermark(partition)
        waiting = self._waiting.pop(partition)
        remaining = [deletion for deletion in waiting if deletion.offset > low_watermark]
        if remaining:
            self._waiting[partition] = remaining
        for deletion in waiting:
            if deletion.offset <= low_watermark:
                deletion.complete(low_watermark)
            elif deletion.offset <= partition.stored_start and not deletion.has_timeout:
                deletion.has_timeout = True
                self._node.wait_for_ms(deletion, deletion.timeout_ms)

    def check_all(self) -> None:
        """A broker was fenced or unfenced: complete the deletions that no longer wait."""
        for partition in list(self._waiting):
            self.check(partition)

    def expire(self, expired: DelayedDeletion) -> None:
        waiting = self._waiting.get(expired.partition, [])
        if expired in waiting:
            waiting.remove(expired)
            if not waiting:
                del self._waiting[expired.partition]
            low_watermark = self.low_watermark(expired.partition)
            expired.complete(low_watermark, ErrorCode.REQUEST_TIMED_OUT)

    def fail(self, partition: Partition, error_code: int) -> None:
        """Fail all that wait in a partition: it has another leader, or its disk has failed."""
        for deletion in self._waiting.pop(partition, ()):
            deletion.complete(NO_OFFSET, error_code)
