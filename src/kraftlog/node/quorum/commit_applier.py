"""`CommitApplier`: applies committed batches to the state machine.

Each batch is applied once, in order, and in slices if it is large. It counts as applied when all of
it is: until then no later batch is applied, no proposal completes, leadership does not begin and no
snapshot is taken. A crash during a batch is the same as a crash before it. All this holds for
several batches that a node other than the leader applies as one.
"""

from __future__ import annotations

from kraftlog.effects import ReadLog
from kraftlog.node.quorum.batches import METADATA_LOG, end_of, records_in, unreplayable
from kraftlog.steps import free_in_steps
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any, Protocol

    from kraftlog.effects import LogRead
    from kraftlog.node.quorum.snapshotter import Snapshotter
    from kraftlog.node.quorum.tail import Piece, Tail
    from kraftlog.node.slices import Slices, Work
    from kraftlog.raft.core import RaftCore
    from kraftlog.types import Now
    from kraftlog.wire.schema import Message

    class StateMachine(Protocol):
        """The state machine of the quorum: it gets every committed record once, in order.

        The `Node`, which creates the quorum's driver, so that this module cannot import it.
        """

        def replay_in_steps(self, records: Sequence[Message], last_offset: int) -> Iterator[int]:
            """Apply records in steps; yields their costs."""
            ...

        def reload(self, records: Iterable[Message], last_offset: int) -> None:
            """Replace the state by the records of a snapshot."""
            ...

        def leader_changed(self, leader_id: int, epoch: int) -> None:
            """The leader has changed; -1: unknown."""
            ...

        def became_leader(self, epoch: int, now: Now) -> None:
            """This node leads, and has replayed everything of earlier leaders."""
            ...


#: Cost of decoding a record, in microseconds.
DECODE_COST = 6


class CommitApplier:
    """`end` is the end of the applied batches. Calls `on_applied` whenever it has moved."""

    def __init__(
        self,
        core: RaftCore,
        machine: StateMachine,
        tail: Tail,
        snapshotter: Snapshotter,
        emit: Callable[[Any], None],
        slices: Slices,
        on_applied: Callable[[], None],
        end: int,
    ) -> None:
        self._core = core
        self._machine = machine
        self._tail = tail
        self._snapshotter = snapshotter
        self._emit = emit
        self._slices = slices
        self._on_applied = on_applied
        self.end = end
        #: Whether the state machine leads, as it was told last. The core may be ahead: a leader can
        #: resign in the step in which it commits, and the machine still has its own proposals.
        self.machine_leads = False
        #: Whether batches that the tail lacks are being read from the log or applied.
        self.is_reading = False
        self._read_pending = False
        #: Whether a part of the committed batches is being applied.
        self.is_applying = False
        self._work: Work | None = None

    def apply_committed(self, read: Sequence[Piece] = ()) -> None:
        """Apply up to the high watermark; first what has been `read` from the log."""
        if self.is_applying:
            return  # the running work continues up to the new high watermark
        self.is_applying = True
        self._work = self._slices.begin(self._steps(read))

    def read(self, report: LogRead) -> None:
        """Part of the log has been read."""
        self._read_pending = False
        if report.offset != self.end:
            self.is_reading = False
            return  # a snapshot has since been installed
        assert report.data, f"no records at {report.offset} in the metadata log"
        self.apply_committed(((report.data, None),))

    def restart_at(self, offset: int) -> None:
        """Continue at the end of an installed snapshot; cancels a half-applied batch."""
        self._tail.clear()
        if self._work is not None:
            self._work.cancel()
            self._work = None
        self.is_applying = False
        self.is_reading = self._read_pending
        self.end = offset

    def _steps(self, read: Sequence[Piece]) -> Iterator[int]:
        if read:
            yield from self._replay_in_steps(read, end_of(read[0][0]))
            self.is_reading = False
        core, tail = self._core, self._tail
        while self.end < core.log.high_watermark:
            if not tail or tail.start > self.end:
                self._read_log()
                break
            # The controller of a leader has applied its own proposals, and skips them by the last
            # offset of a batch: so a leader replays one batch at a time.
            max_pieces = 1 if self.machine_leads else len(tail)
            pieces, end = tail.take(self.end, core.log.high_watermark, max_pieces)
            if not pieces:
                break
            yield from self._replay_in_steps(pieces, end)
        self.is_applying = False

    def _replay_in_steps(self, pieces: Sequence[Piece], end: int) -> Iterator[int]:
        """Apply all pieces as one: later records mostly replace the effects of earlier ones."""
        records: list[Message] = []
        try:
            for data, decoded in pieces:
                if decoded is not None:
                    records += decoded
                    decoded.clear()
                    continue
                for record in records_in(data):
                    records.append(record)
                    yield DECODE_COST
            yield from self._machine.replay_in_steps(records, end - 1)
        except Exception as error:
            raise unreplayable([data for data, _ in pieces], records, error) from error
        self._snapshotter.applied(end - self.end, sum([len(data) for data, _ in pieces]))
        self.end = end
        self._on_applied()
        yield from free_in_steps(records)

    def _read_log(self) -> None:
        if self._read_pending:
            return
        limit = self._core.log.high_watermark
        if self._tail:
            limit = min(limit, self._tail.start)
        self._read_pending = self.is_reading = True
        self._emit(ReadLog(METADATA_LOG, self.end, limit))
