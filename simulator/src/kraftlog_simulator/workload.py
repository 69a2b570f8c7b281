"""Clients that append unique values, read, and record the responses."""

from __future__ import annotations

from kraftlog.raft.messages import ReadOffset, Request
from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.checkers.log_history import (
    Acknowledged,
    Failed,
    Invoked,
    LogHistory,
    ReadAnswered,
    ReadInvoked,
    Unknown,
)
from kraftlog_simulator.process import CLUSTER_ID
from kraftlog_simulator.violation import Violation

if TYPE_CHECKING:
    from typing import Any

    from kraftlog_simulator.checkers.log_history import Event
    from kraftlog_simulator.interfaces import SimulatedWorld
    from kraftlog_simulator.process import Replica


class Workload:
    """Clients that reach any running process, whatever the state of the replicas' network."""

    def __init__(self, world: SimulatedWorld) -> None:
        self.world = world
        self.history = LogHistory()
        self.acknowledged = 0
        self.reads_done = 0
        self._rng = world.rng("workload")
        self._last_number = 0
        self.is_appending = self.is_reading = False
        self._append_gap_ms = world.setting.append_gap_ms

    def begin(self) -> None:
        """Start the clients; they run while `is_appending` and `is_reading` are true."""
        setting = self.world.setting
        if setting.append_gap_ms[1] and not self.is_appending:
            self.is_appending = True
            self.world.schedule(self.world.time, self._append)
        if setting.read_gap_ms[1] and not self.is_reading:
            self.is_reading = True
            self.world.schedule(self.world.time, self._read)

    def slow_down(self) -> None:
        """Reduce the load for the end of a run, where a higher load would only take longer."""
        low, high = self._append_gap_ms
        self._append_gap_ms = max(low, 100), max(high, 500)

    def stop(self) -> None:
        self.is_appending = self.is_reading = False

    # Appends ---------------------------------------------------------------------------------

    def _append(self) -> None:
        world = self.world
        if not self.is_appending:
            return
        world.schedule(world.time + self._rng.between(*self._append_gap_ms), self._append)
        leaders = world.leaders
        if leaders:
            claimants = list(leaders) if len(leaders) > 1 else None
            target = self._rng.pick(claimants) if claimants else next(iter(leaders))
            self.append_at(world.replicas[target])

    def append_at(self, replica: Replica) -> None:
        value = self._next_number()
        self._record(Invoked(value, self.world.time, value))
        self._propose(replica, replica.incarnation, value)

    def _propose(self, replica: Replica, incarnation: int, value: int) -> None:
        if replica.core is None or incarnation != replica.incarnation:
            self._record(Unknown(value, self.world.time))
        elif replica.paused:
            replica.waiting.append((self._propose, (replica, incarnation, value)))
        elif error := replica.propose(value, value):
            self.world.note(replica, "refuses", error)
            self._record(Failed(value, self.world.time))

    def proposed(self, value: int, error: int, end_offset: int) -> None:
        time = self.world.time
        if error:
            self.world.saw("append of unknown outcome")
            self._record(Unknown(value, time))
        else:
            self.acknowledged += 1
            self.world.progress += 1
            self._record(Acknowledged(value, time, end_offset - 1))

    # Reads -----------------------------------------------------------------------------------

    def _read(self) -> None:
        world = self.world
        if not self.is_reading:
            return
        world.schedule(world.time + self._rng.between(*world.setting.read_gap_ms), self._read)
        running = world.running
        if running:
            claimants = [world.replicas[leader] for leader in world.leaders]
            targets = claimants if claimants and self._rng.below(4) else running
            self.read_at(self._rng.pick(targets))

    def read_at(self, replica: Replica) -> None:
        self._send_read(replica, replica.incarnation, self.begin_read())

    def begin_read(self) -> int:
        """A client starts a read; return its number."""
        number = self._next_number()
        self._record(ReadInvoked(number, self.world.time))
        return number

    def _send_read(self, replica: Replica, incarnation: int, number: int) -> None:
        if replica.core is None or incarnation != replica.incarnation:
            return
        if replica.paused:
            replica.waiting.append((self._send_read, (replica, incarnation, number)))
            return
        replica.handle(Request(number, ReadOffset(CLUSTER_ID)))

    def read_response(self, number: int, body: Any) -> None:
        self.world.saw("read refused" if body.error else "read proved by a majority")
        self.read_done(number, body.error, body.offset)

    def read_done(self, number: int, error: int, offset: int) -> None:
        """A read ends: the client may read up to an offset, or has to retry at another replica."""
        time = self.world.time
        if error:
            self._record(Failed(number, time))
        else:
            self.reads_done += 1
            self.world.progress += 1
            self._record(ReadAnswered(number, time, offset))

    # Checking --------------------------------------------------------------------------------

    def _next_number(self) -> int:
        self._last_number += 1
        return self._last_number

    def _record(self, event: Event) -> None:
        self.history.record(event)
        if self.history.violations:
            raise Violation("client history", self.history.violations[0])

    def judge(self) -> list[str]:
        """Return the violations of the history, given everything that was ever committed."""
        final: list[tuple[int, int | None]] = [
            (batch.base_offset, batch.payload if isinstance(batch.payload, int) else None)
            for batch in self.world.oracle.committed_batches
        ]
        return self.history.finish(final)
