"""`DueSnapshots`: when a node takes a snapshot of its metadata."""

from __future__ import annotations

from kraftlog.part import Part
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraftlog.metadata.loader import MetadataLoader
    from kraftlog.node.quorum.driver import QuorumDriver
    from kraftlog.node.quorum.snapshotter import SnapshotPolicy
    from kraftlog.types import Now

#: A snapshot waits until the broker is unfenced, at most for this time after the start.
STARTING_MS = 60_000


class DueSnapshots(Part):
    def __init__(
        self,
        quorum: QuorumDriver,
        metadata: MetadataLoader,
        policy: SnapshotPolicy,
        is_ready: Callable[[], bool],
        now: Now,
    ) -> None:
        self._quorum = quorum
        self._metadata = metadata
        self._policy = policy
        self._is_ready = is_ready
        self._wait_until_ms = now.monotonic_ms + STARTING_MS

    def poll(self, now: Now) -> None:
        if self._is_ready() or now.monotonic_ms >= self._wait_until_ms:
            # Unfencing changes all partitions of the broker; an earlier snapshot would lack that.
            self.take(now, self._policy)

    def take(self, now: Now, policy: SnapshotPolicy) -> None:
        """Take a snapshot if one is due by this policy.

        Not during a metadata transaction or a half-replayed batch, nor before this node has caught
        up after a start.
        """
        quorum, image = self._quorum, self._metadata.image
        if image.transaction or quorum.is_applying or quorum.is_catching_up:
            return
        if quorum.snapshotter.is_due(now, policy):
            quorum.snapshotter.take(image.records(), quorum.applied, now)
