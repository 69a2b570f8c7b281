"""`CommitApplier`: what is committed, on its way to the state machine.

In order, once each, and a slice a turn where it takes long. A batch counts as applied when all of
it is: until then nothing that follows is, no proposer is told, nobody leads on that ground and no
snapshot is taken. A crash in the midst is one before the batch.
"""

from __future__ import annotations

from kraftlog.effects import ReadLog
from kraftlog.node.quorum.batches import METADATA_LOG, end_of, records_in, unreplayable
from kraftlog.raft.roles.leader import Leader
from kraftlog.steps import letting_go
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any, Protocol

    from kraftlog.effects import LogRead
    from kraftlog.node.quorum.snapshotter import Snapshotter
    from kraftlog.node.quorum.tail import Piece, Tail
    from kraftlog.node.sliced import Slices, Work
    from kraftlog.raft.core import RaftCore
    from kraftlog.types import Now
    from kraftlog.wire.schema import Message

    class StateMachine(Protocol):
        """What is built on the quorum: it sees every committed record once, in order."""

        def replaying(self, records: Sequence[Message], last_offset: int) -> Iterator[int]:
            """Follow these, in steps; what each of them has cost."""
            ...

        def reload(self, records: Iterable[Message], last_offset: int) -> None:
            """Begin anew from these: a snapshot has taken the place of everything."""
            ...

        def led_by(self, leader_id: int, epoch: int) -> None:
            """Who leads now, -1 if nobody is known to."""
            ...

        def leads(self, epoch: int, now: Now) -> None:
            """This node leads, and everything of earlier leaders has been replayed."""
            ...


#: What it costs to decode a record, in microseconds.
A_RECORD_COSTS = 6


class CommitApplier:
    """`end` is where the state machine stands. `has_applied` is called when that has moved."""

    def __init__(
        self,
        core: RaftCore,
        machine: StateMachine,
        tail: Tail,
        snapshotter: Snapshotter,
        emit: Callable[[Any], None],
        slices: Slices,
        has_applied: Callable[[], None],
        end: int,
    ) -> None:
        self._core = core
        self._machine = machine
        self._tail = tail
        self._snapping = snapshotter
        self._emit = emit
        self._slices = slices
        self._has_applied = has_applied
        self.end = end
        #: Whether the log is read for what the tail does not hold, or that is being applied.
        self.is_reading = False
        self._is_asked_for = False
        #: Whether some of it is under way.
        self.is_going_on = False
        self._work: Work | None = None

    def go_on(self) -> None:
        """More may be committed."""
        self._begin(())

    def read(self, report: LogRead) -> None:
        """Part of the log has been read."""
        self._is_asked_for = False
        if report.offset != self.end:
            self.is_reading = False
            return  # a snapshot was installed meanwhile
        assert report.data, f"no records at {report.offset} in the metadata log"
        self._begin(((report.data, None),))

    def begin_at(self, offset: int) -> None:
        """A snapshot takes the place of everything before this, also of what is half done."""
        self._tail.clear()
        if self._work is not None:
            self._work.cancel()
            self._work = None
        self.is_going_on = False
        self.is_reading = self._is_asked_for
        self.end = offset

    def _begin(self, read: Sequence[Piece]) -> None:
        if self.is_going_on:
            return  # it will come to that, too
        self.is_going_on = True
        work = self._slices.begin(self._steps(read))
        if not work.done:
            self._work = work

    def _steps(self, read: Sequence[Piece]) -> Iterator[int]:
        if read:
            yield from self._replaying(read, end_of(read[0][0]))
            self.is_reading = False
        core, tail = self._core, self._tail
        while self.end < core.log.high_watermark:
            if not tail or tail.start > self.end:
                self._read_on()
                break
            # Who leads has decided by its own proposals already, and follows them one by one.
            most = 1 if isinstance(core.role, Leader) else len(tail)
            pieces, end = tail.take(self.end, core.log.high_watermark, most)
            if not pieces:
                break
            yield from self._replaying(pieces, end)
        self.is_going_on = False

    def _replaying(self, pieces: Sequence[Piece], end: int) -> Iterator[int]:
        """All pieces as one: what follows from each would mostly be overtaken by the next."""
        records: list[Message] = []
        try:
            for data, known in pieces:
                if known is not None:
                    records += known
                    known.clear()
                    continue
                for record in records_in(data):
                    records.append(record)
                    yield A_RECORD_COSTS
            yield from self._machine.replaying(records, end - 1)
        except Exception as error:
            raise unreplayable([data for data, _ in pieces], records, error) from error
        self._snapping.applied(end - self.end, sum([len(data) for data, _ in pieces]))
        self.end = end
        self._has_applied()
        yield from letting_go(records)

    def _read_on(self) -> None:
        if self._is_asked_for:
            return
        limit = self._core.log.high_watermark
        if self._tail:
            limit = min(limit, self._tail.start)
        self._is_asked_for = self.is_reading = True
        self._emit(ReadLog(METADATA_LOG, self.end, limit))
