"""`TurnClock`: measures the steps of a turn and limits the time for client requests.

The clock is read once per step (a served connection, an append, a send), not once per request.
Steps below a millisecond and turns below `LONG_NS` are not recorded. The CPU clock is a system
call, so it is read once per millisecond of work and for long turns: CPU time decides what is long,
because a shared machine may interrupt any turn.
"""

from __future__ import annotations

import time

from kraftlog.server.operator_log import log_line
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

#: A turn with at least this CPU time is counted and logged, because all clients wait for it.
LONG_NS = 5_000_000
#: Shorter steps are not recorded, and the CPU clock is not read for shorter turns.
MIN_RECORDED_NS = 1_000_000
#: Time limit for all client requests of a turn, and for those of one connection.
TURN_NS = 3_000_000
SLICE_NS = 1_000_000
#: Time limit for sending responses in one turn.
SENDS_NS = 1_000_000
#: Long turns are logged at most this often.
LOG_INTERVAL_NS = 10_000_000_000
#: `longest_ns` covers the last one to two of these spans, if it is called at least once per span.
SPAN_NS = 30_000_000_000
#: The log line of a long turn names at most this many causes.
MAX_NAMED = 5


class StepTimes:
    """Count and total time of a step."""

    __slots__ = ("count", "total_ns")

    def __init__(self) -> None:
        self.count = 0
        self.total_ns = 0

    def add(self, took_ns: int) -> None:
        self.count += 1
        self.total_ns += took_ns


class TurnClock:
    """The loop calls `begin`, `step` after each part of a turn, and `end`.

    `clock_ns` is a monotonic clock, `cpu_ns` the CPU time of this thread.
    """

    def __init__(
        self,
        clock_ns: Callable[[], int] = time.monotonic_ns,
        cpu_ns: Callable[[], int] = time.thread_time_ns,
        log: Callable[[str], None] = log_line,
    ) -> None:
        self.clock_ns = clock_ns
        self._cpu_ns = cpu_ns
        self._log = log
        #: Whether the node has become ready; before that, long turns are counted but not logged.
        self.is_serving = False
        self.began_ns = clock_ns()
        #: The end of the last step.
        self.step_ended_ns = self.began_ns
        #: When the time limit for all client requests of this turn ends, and when that for the
        #: connection being served ends.
        self.requests_until_ns = TURN_NS
        self.slice_until_ns = SLICE_NS
        #: Recorded time of this turn's steps, by cause.
        self._steps: dict[str, int] = {}
        #: The CPU clock when it was last read, and the length of the short turns since then.
        self._cpu_read_ns = cpu_ns()
        self._short_turns_ns = 0
        #: By cause: steps of a millisecond and more; long turns, by their longest step.
        self.steps: dict[str, StepTimes] = {}
        self.long_turns: dict[str, StepTimes] = {}
        #: The longest turn of the previous span, and that of this one.
        self._longest_ns = [0, 0]
        self._span_began_ns = 0
        #: When a long turn was last logged, and the number of long turns since then.
        self._logged_ns: int | None = None
        self._unlogged = 0

    def begin(self) -> int:
        """Begin a turn; return the current time."""
        self.began_ns = self.step_ended_ns = now_ns = self.clock_ns()
        self.requests_until_ns = now_ns + TURN_NS
        return now_ns

    def step(self, cause: str) -> int:
        """Account the time since the last step to `cause`; return the current time."""
        now_ns = self.clock_ns()
        took_ns = now_ns - self.step_ended_ns
        self.step_ended_ns = now_ns
        if took_ns >= MIN_RECORDED_NS:
            self._record_step(cause, took_ns)
        return now_ns

    def end(self, cause: str) -> None:
        """End the turn; its last step is accounted to `cause`."""
        self.step_ended_ns, before_ns = self.clock_ns(), self.step_ended_ns
        took_ns = self.step_ended_ns - self.began_ns
        if took_ns < MIN_RECORDED_NS and self._short_turns_ns < MIN_RECORDED_NS:
            self._short_turns_ns += took_ns
            return
        if self.step_ended_ns - before_ns >= MIN_RECORDED_NS:
            self._record_step(cause, self.step_ended_ns - before_ns)
        if took_ns >= LONG_NS:
            self._end_long_turn(took_ns)
        else:
            self._read_cpu()
        self._steps.clear()

    def longest_ns(self) -> int:
        """The longest turn of the last one to two spans."""
        self._next_span()
        return max(self._longest_ns)

    def _record_step(self, cause: str, took_ns: int) -> None:
        self._steps[cause] = self._steps.get(cause, 0) + took_ns
        self.steps.setdefault(cause, StepTimes()).add(took_ns)

    def _read_cpu(self) -> int:
        """CPU time of this turn: since the last reading, without the short turns in between."""
        now_ns = self._cpu_ns()
        used_ns = now_ns - self._cpu_read_ns - self._short_turns_ns
        self._cpu_read_ns, self._short_turns_ns = now_ns, 0
        return used_ns

    def _end_long_turn(self, took_ns: int) -> None:
        steps = self._steps
        used_ns = min(self._read_cpu(), took_ns)
        if used_ns < LONG_NS:
            return
        cause = max(steps, key=steps.__getitem__, default="small steps")
        self.long_turns.setdefault(cause, StepTimes()).add(used_ns)
        self._next_span()
        self._longest_ns[1] = max(self._longest_ns[1], used_ns)
        if not self.is_serving:
            return
        if self._logged_ns is not None and self.step_ended_ns - self._logged_ns < LOG_INTERVAL_NS:
            self._unlogged += 1
            return
        self._log(_long_turn_line(used_ns, took_ns, steps, self._unlogged))
        self._logged_ns, self._unlogged = self.step_ended_ns, 0

    def _next_span(self) -> None:
        while self.step_ended_ns - self._span_began_ns >= SPAN_NS:
            if self.step_ended_ns - self._span_began_ns >= 2 * SPAN_NS:
                self._span_began_ns = self.step_ended_ns - SPAN_NS
            self._longest_ns = [self._longest_ns[1], 0]
            self._span_began_ns += SPAN_NS


def _long_turn_line(used_ns: int, took_ns: int, steps: dict[str, int], unlogged: int) -> str:
    longest_steps = sorted(steps.items(), key=lambda step: -step[1])[:MAX_NAMED]
    named = ", ".join([f"{cause} {step_ns / 1e6:.0f} ms" for cause, step_ns in longest_steps])
    unlogged_note = f"; {unlogged} more long turns since the last line" if unlogged else ""
    why = named or "many small steps"
    times = f"{took_ns / 1e6:.0f} ms, {used_ns / 1e6:.0f} ms of it CPU time"
    return f"a turn of the event loop took {times}: {why}{unlogged_note}"
