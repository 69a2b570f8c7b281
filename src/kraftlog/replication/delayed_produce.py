"""`DelayedProduce`: a batch with acks=all that waits for the other in-sync replicas.

If this replica is the only one in sync, a written batch is committed and does not wait. If the
request's timeout expires first, the response has REQUEST_TIMED_OUT and the offsets of the batches,
which may still be committed. A batch that the broker writes itself waits until it is committed, or
until this broker no longer leads: it must learn the outcome of the records in its log.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.replication.partition import Partition
    from kraftlog.types import DelayedResponse, Now


def complete_wait(pending: DelayedResponse) -> None:
    """Complete one of the waits of a response; send it after the last."""
    pending.waits -= 1
    if not pending.waits:
        pending.respond(pending.response)


class DelayedProduce:
    """One batch with acks=all that the leader has written, but not every in-sync replica has."""

    __slots__ = ("done", "may_fail", "offset", "partition", "pending", "result")

    def __init__(
        self,
        partition: Partition,
        offset: int,
        pending: DelayedResponse,
        result: Any,
        *,
        may_fail: bool = True,
    ) -> None:
        self.partition = partition
        #: The high watermark that completes it.
        self.offset = offset
        self.pending = pending
        #: The partition's entry in the response.
        self.result = result
        self.done = False
        #: Whether its timeout or a small ISR ends the wait.
        self.may_fail = may_fail
        partition.wait_for_isr(self)

    def expire(self, now: Now) -> None:  # noqa: ARG002 - interface of delayed operations
        if not self.done:
            self.done = True
            self.partition.stop_waiting(self)
            self.result.error_code = ErrorCode.REQUEST_TIMED_OUT
            complete_wait(self.pending)
