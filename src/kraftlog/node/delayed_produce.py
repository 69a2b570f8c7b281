"""Batches that are written here and that other replicas in sync lack: who waits for those.

While a partition's only replica in sync is this one, whatever is written is committed, and nothing
of this is ever made. A request waits for as long as it said: then it is told REQUEST_TIMED_OUT, and
the offsets that its batches have, as they may be committed yet.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.node.node import Node
    from kraftlog.replication.partition import Partition
    from kraftlog.types import Now


class DelayedProduce:
    """One batch whose producer wants it on every replica in sync."""

    __slots__ = ("done", "offset", "partition", "result", "slot")

    def __init__(self, partition: Partition, offset: int, slot: Any, result: Any) -> None:
        self.partition = partition
        #: Where the high watermark must be.
        self.offset = offset
        self.slot = slot
        self.result = result
        self.done = False

    def expire(self, node: Node, now: Now) -> None:  # noqa: ARG002 - whatever waits is called alike
        if not self.done:
            self.done = True
            self.partition.awaiting_isr.remove(self)
            self.result.error_code = ErrorCode.REQUEST_TIMED_OUT
            node.one_done(self.slot)


def wait_for_replicas(node: Node, partition: Partition) -> None:
    """What was just written, and must be elsewhere as well, has from now on the time it said."""
    just_written, partition.just_written = partition.just_written, []
    for offset, slot, result, timeout_ms in just_written:
        waiting = DelayedProduce(partition, offset, slot, result)
        partition.awaiting_isr.append(waiting)
        node.wait(waiting, node.now.monotonic_ms + timeout_ms)


def high_watermark_moved(node: Node, partition: Partition) -> None:
    """Whose batches are below it is told so; or that too few replicas are left that have them."""
    waiting, partition.awaiting_isr = partition.awaiting_isr, []
    for one in waiting:
        if one.offset > partition.high_watermark:
            partition.awaiting_isr.append(one)
            continue
        one.done = True
        if partition.lacks_replicas:
            one.result.error_code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        node.one_done(one.slot)
