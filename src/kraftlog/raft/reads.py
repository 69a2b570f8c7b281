"""Linearizable reads at any replica (P6): ask the leader for an offset, wait until it is applied.

Each core has one `Reads`, with the interface of a core: `handle`, `poll`, `deadline` and
`take_effects`. Its requests go to the leader, which may be the local core. They need no order among
themselves or with the core's requests, so a host sends them on a separate connection and passes the
responses to `Reads`, not to the core. A request is made when the effects are taken: a host that
takes them at the end of a turn has one request for all reads of that turn.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.raft.messages import LeaderChanged, NoResponse, ReadOffset, Response, Send
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.raft.core import RaftCore
    from kraftlog.types import Now

NOT_IN_FLIGHT = -1
#: After a request for at least MANY_READS reads, the next request waits for the same number of
#: reads, for at most GATHER_MS.
MANY_READS, GATHER_MS = 16, 2


class Applied(Value):
    """The state machine of this replica has applied every record before `offset`."""

    offset: int


class ReadDone(Value):
    """Everything before `offset` is applied, so the read may run; or it failed with `error`."""

    pending: Any
    error: int
    offset: int


class PendingRead(Value):
    """A read with its deadline and, once the leader has responded, the offset to wait for.

    `began_wall_ms` is the wall-clock time of its arrival.
    """

    pending: Any
    deadline: int
    began_wall_ms: int
    offset: int = -1


class Reads:
    """Batches reads: all that arrive before the next request is made share that request.

    They cannot share one in flight, since the leader may have processed it before they arrived.
    A failed request is repeated, at the new leader if there is one, while any read is within its
    deadline.
    """

    def __init__(self, core: RaftCore, applied: int = 0) -> None:
        self.core = core
        self.applied = applied
        #: The reads of the next request, of the request in flight, and those that wait for the
        #: state machine; oldest first.
        self.queued: list[PendingRead] = []
        self.requested: list[PendingRead] = []
        self.awaiting_apply: list[PendingRead] = []
        self.in_flight = NOT_IN_FLIGHT
        self.failures = 0
        #: When to retry after a failure.
        self.retry_at: int | None = None
        #: How many reads the next request waits for, 0 if it need not wait, and until when.
        self.expected = 0
        self.gather_until: int | None = None
        self._numbers = 0
        self._effects: list[Any] = []

    def read(self, pending: object, now: Now) -> None:
        """Complete `pending` with ReadDone once a linearizable read may use the applied state."""
        deadline = now.monotonic_ms + self.core.config.read_timeout_ms
        if not self.queued and self.expected and self.in_flight == NOT_IN_FLIGHT:
            self.gather_until = now.monotonic_ms + GATHER_MS
        self.queued.append(PendingRead(pending, deadline, now.wall_ms))

    def handle(self, message: Any, now: Now) -> None:
        if isinstance(message, Applied):
            self.applied = message.offset
            self._complete_applied()
        elif isinstance(message, LeaderChanged):
            self._retry_at_new_leader()
        elif message.number != self.in_flight:
            return
        elif isinstance(message, Response) and not message.body.error:
            self._on_response(message.body.offset, now)
        elif isinstance(message, (Response, NoResponse)):
            self._on_failure(message, now)

    def deadline(self) -> int | None:
        times = [queue[0].deadline for queue in self._queues() if queue]
        times += [time for time in (self.retry_at, self.gather_until) if time is not None]
        return min(times, default=None)

    def poll(self, now: Now) -> None:
        """Time out reads whose deadline has passed, and retry when the backoff is over."""
        for queue in self._queues():
            while queue and queue[0].deadline <= now.monotonic_ms:
                self._complete(queue.pop(0), ErrorCode.REQUEST_TIMED_OUT)
        if self.retry_at is not None and self.retry_at <= now.monotonic_ms:
            self.retry_at = None
        if self.gather_until is not None and self.gather_until <= now.monotonic_ms:
            self.gather_until = None

    @property
    def has_work(self) -> bool:
        """Whether there are effects to take."""
        return bool(self._effects) or (bool(self.queued) and self._may_send)

    def take_effects(self) -> list[Any]:
        if self.queued and self._may_send:
            self._send()
        taken, self._effects = self._effects, []
        return taken

    def _queues(self) -> tuple[list[PendingRead], ...]:
        return self.queued, self.requested, self.awaiting_apply

    @property
    def _may_send(self) -> bool:
        """Whether a request can be made: one at a time, and only if a leader is known."""
        if self.in_flight != NOT_IN_FLIGHT or self.retry_at is not None:
            return False
        if self.gather_until is not None and len(self.queued) < self.expected:
            return False
        return self.core.election.leader_id >= 0

    def _send(self) -> None:
        """Send one request for all new reads."""
        self.requested, self.queued = self.queued, []
        self.gather_until = None
        self._numbers += 1
        self.in_flight = self._numbers
        core = self.core
        began_ms = min([it.began_wall_ms for it in self.requested])
        request = ReadOffset(core.cluster_id, core.me, core.election.epoch, began_ms)
        self._effects.append(Send(core.election.leader_id, self.in_flight, request))

    def _retry_at_new_leader(self) -> None:
        """The leader has changed: retry the current request at the new leader."""
        self._requeue()
        self.failures, self.retry_at = 0, None

    def _requeue(self) -> None:
        self.queued = self.requested + self.queued
        self.requested = []
        self.in_flight = NOT_IN_FLIGHT

    def _on_response(self, offset: int, now: Now) -> None:
        count = len(self.requested)
        self.expected = count if count >= MANY_READS else 0
        if self.expected and self.queued:
            self.gather_until = now.monotonic_ms + GATHER_MS
        self.awaiting_apply += [read.replace(offset=offset) for read in self.requested]
        self.requested, self.in_flight, self.failures = [], NOT_IN_FLIGHT, 0
        self._complete_applied()

    def _complete_applied(self) -> None:
        """Complete the reads whose offset is applied."""
        kept = []
        for read in self.awaiting_apply:
            if read.offset <= self.applied:
                self._complete(read, ErrorCode.NONE)
            else:
                kept.append(read)
        self.awaiting_apply = kept

    def _on_failure(self, message: Response | NoResponse, now: Now) -> None:
        if isinstance(message, Response) and message.body.error in FINAL_ERRORS:
            for read in self.requested:
                self._complete(read, message.body.error)
            self.requested = []
        self._requeue()
        self.retry_at = now.monotonic_ms + self.core.backoff(self.failures)
        self.failures += 1

    def _complete(self, read: PendingRead, error: int) -> None:
        offset = -1 if error else self.applied
        self._effects.append(ReadDone(read.pending, error, offset))


#: Errors that a retry cannot change. UNSUPPORTED_VERSION comes from a leader without ReadOffset,
#: such as Apache Kafka's.
FINAL_ERRORS = {
    ErrorCode.INCONSISTENT_CLUSTER_ID,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.UNSUPPORTED_VERSION,
}
