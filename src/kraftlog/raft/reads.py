"""Linearizable reads at any replica (P6): ask the leader how far to read, apply that far, answer.

Beside each core stands one `Reads`, with the same door: `handle`, `poll`, `deadline`,
`take_effects`. Its requests go to the leader, which may be this very replica: a host then gives
them to its own core. They need no order among themselves or with the core's, so a host sends them
on a connection apart, and brings the answers here and not to the core.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.raft.messages import LeaderChanged, NoResponse, ReadOffset, Response, Send
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.raft.core import RaftCore
    from kraftlog.types import Now

NOBODY_ASKED = -1


class Applied(Value):
    """The state machine of this replica has applied everything before `offset`."""

    offset: int


class ReadDone(Value):
    """Read now: everything before `offset` is applied. With an error: read elsewhere."""

    slot: Any
    error: int
    offset: int


class PendingRead(Value):
    """A read, until when it may wait, and once the leader has said so, for which offset."""

    slot: Any
    deadline: int
    offset: int = -1


class Reads:
    """Reads that arrive while the leader is being asked share the next question.

    They can't share the one under way: the leader may have answered it before they arrived. A
    question without a good answer is repeated, at the next leader if there is one, as long as
    there are reads that may still wait.
    """

    def __init__(self, core: RaftCore, applied: int = 0) -> None:
        self.core = core
        self.applied = applied
        #: Each oldest first: for the next question, for the one under way, for the state machine.
        self.fresh: list[PendingRead] = []
        self.asking: list[PendingRead] = []
        self.applying: list[PendingRead] = []
        self.in_flight = NOBODY_ASKED
        self.failures = 0
        #: When to ask again after a failure.
        self.again_at: int | None = None
        self._numbers = 0
        self._effects: list[Any] = []

    def read(self, slot: Any, now: Now) -> None:
        """Tell `slot` by ReadDone when it may read what this replica has applied."""
        deadline = now.monotonic_ms + self.core.config.read_timeout_ms
        self.fresh.append(PendingRead(slot, deadline))
        self._ask()

    def handle(self, message: Any, now: Now) -> None:
        if isinstance(message, Applied):
            self.applied = message.offset
            self._answer()
        elif isinstance(message, LeaderChanged):
            self._begin_again()
        elif message.number != self.in_flight:
            return
        elif isinstance(message, Response) and not message.body.error:
            self._answered(message.body.offset)
        elif isinstance(message, (Response, NoResponse)):
            self._failed(message, now)

    def deadline(self) -> int | None:
        times = [waits[0].deadline for waits in self._lists() if waits]
        if self.again_at is not None:
            times.append(self.again_at)
        return min(times, default=None)

    def poll(self, now: Now) -> None:
        """Give up what has waited too long; ask again when it is time."""
        for waits in self._lists():
            while waits and waits[0].deadline <= now.monotonic_ms:
                self._done(waits.pop(0), ErrorCode.REQUEST_TIMED_OUT)
        if self.again_at is not None and self.again_at <= now.monotonic_ms:
            self.again_at = None
            self._ask()

    def take_effects(self) -> list[Any]:
        taken, self._effects = self._effects, []
        return taken

    def _lists(self) -> tuple[list[PendingRead], ...]:
        return self.fresh, self.asking, self.applying

    def _ask(self) -> None:
        """One question for all that wait, when none is under way."""
        leader = self.core.election.leader_id
        busy = self.in_flight != NOBODY_ASKED or self.again_at is not None
        if busy or leader < 0 or not self.fresh:
            return
        self.asking, self.fresh = self.fresh, []
        self._numbers += 1
        self.in_flight = self._numbers
        self._effects.append(Send(leader, self.in_flight, ReadOffset(self.core.cluster_id)))

    def _begin_again(self) -> None:
        """Another leader, or none: what was asked of the last one is asked again."""
        self._abandon()
        self.failures, self.again_at = 0, None
        self._ask()

    def _abandon(self) -> None:
        self.fresh = self.asking + self.fresh
        self.asking = []
        self.in_flight = NOBODY_ASKED

    def _answered(self, offset: int) -> None:
        self.applying += [wait.replace(offset=offset) for wait in self.asking]
        self.asking, self.in_flight, self.failures = [], NOBODY_ASKED, 0
        self._answer()
        self._ask()

    def _answer(self) -> None:
        """Those that the state machine has reached."""
        kept = []
        for wait in self.applying:
            if wait.offset <= self.applied:
                self._done(wait, ErrorCode.NONE)
            else:
                kept.append(wait)
        self.applying = kept

    def _failed(self, message: Response | NoResponse, now: Now) -> None:
        if isinstance(message, Response) and message.body.error in FINAL:
            for wait in self.asking:
                self._done(wait, message.body.error)
            self.asking = []
        self._abandon()
        self.again_at = now.monotonic_ms + self.core.backoff(self.failures)
        self.failures += 1

    def _done(self, wait: PendingRead, error: int) -> None:
        offset = -1 if error else self.applied
        self._effects.append(ReadDone(wait.slot, error, offset))


#: No other answer is to be had by asking again.
FINAL = {ErrorCode.INCONSISTENT_CLUSTER_ID, ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
