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

    from kraftlog.replication.partition import Partition
    from kraftlog.types import DelayedResponse, Now


def one_done(slot: DelayedResponse) -> None:
    """One of the things that an answer waits for has come."""
    slot.waits -= 1
    if not slot.waits:
        slot.respond(slot.response)


class DelayedProduce:
    """One batch whose producer wants it on every replica in sync."""

    __slots__ = ("done", "offset", "partition", "result", "slot")

    def __init__(
        self, partition: Partition, offset: int, slot: DelayedResponse, result: Any
    ) -> None:
        self.partition = partition
        #: Where the high watermark must be.
        self.offset = offset
        self.slot = slot
        self.result = result
        self.done = False
        partition.wait_for_isr(self)

    def expire(self, now: Now) -> None:  # noqa: ARG002 - whatever waits is called alike
        if not self.done:
            self.done = True
            self.partition.wait_no_more(self)
            self.result.error_code = ErrorCode.REQUEST_TIMED_OUT
            one_done(self.slot)
