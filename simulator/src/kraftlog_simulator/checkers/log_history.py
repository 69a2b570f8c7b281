"""Checks in linear time whether clients of a replicated log saw one log.

Every appended value is unique, so a response identifies its append and nothing is searched. The
rules, by the word that starts a violation:

acknowledged  the final log has an acknowledged value at its acknowledged offset, and nowhere else
order         an append that began after another was acknowledged has a higher offset
read          a read returns an end offset: not below anything acknowledged, read or seen before it
              began, and not beyond the appends invoked before it returned
outcome       a failed append appears nowhere, one of unknown outcome at most once, and nothing
              appears that was never appended
prefix        what a reader saw at an offset stays there, and nothing appears before it later

    history = LogHistory()
    history.record(Invoked(1, at=10, value=b"a"))
    history.record(Acknowledged(1, at=25, offset=0))
    for violation in history.finish([(0, b"a")]):
        print(violation)

Events are recorded in the order in which they happened. Only that order counts; `at` is for the
reader of a violation. An operation that never ends has an unknown outcome.
"""

from __future__ import annotations

from bisect import bisect_left

from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    OperationId = int | str


class Invoked(Value):
    """A client appends a value that no other append has."""

    id: OperationId
    at: int
    value: Hashable


class Acknowledged(Value):
    """The append succeeded: the value is at this offset."""

    id: OperationId
    at: int
    offset: int


class Failed(Value):
    """The append (or read) failed: it has not happened and never will."""

    id: OperationId
    at: int


class Unknown(Value):
    """The client gave up: the append may have happened, may still happen, or never."""

    id: OperationId
    at: int


class ReadInvoked(Value):
    """A client requests the end offset of the log."""

    id: OperationId
    at: int


class ReadAnswered(Value):
    """The log ends before this offset."""

    id: OperationId
    at: int
    offset: int


class Seen(Value):
    """A reader received this value at this offset.

    A reader gets the whole log in order, and may go back. One that skips a part, for example by
    loading a snapshot, continues under another name.
    """

    reader: OperationId
    at: int
    offset: int
    value: Hashable


class Landmark(Value):
    """A witness that is no event of a client; it only has a name in the text of a violation."""

    name: str


if TYPE_CHECKING:
    #: Events that prove how far the log reaches at least.
    EndWitness = Acknowledged | ReadAnswered | Seen
    Witness = EndWitness | Landmark
    Event = EndWitness | Invoked | Failed | Unknown | ReadInvoked

BEGINNING = Landmark("the beginning of the log")
FINAL_LOG = Landmark("the final log")


def _name(witness: Witness) -> str:
    match witness:
        case Acknowledged():
            return f"append {witness.id} (acknowledged at {witness.at} with {witness.offset})"
        case ReadAnswered():
            return f"read {witness.id} (answered at {witness.at} with {witness.offset})"
        case Seen():
            return f"reader {witness.reader} (saw offset {witness.offset} at {witness.at})"
        case Landmark():
            return witness.name


class _Started(Value):
    """An operation in progress: `floor` is the log end that was known when it began.

    The witness `floor_by` proves that end. The operation takes effect later: a read returns no
    less, an append gets no lower offset.
    """

    at: int
    floor: int
    floor_by: Witness


class _Append(_Started):
    """An append, its outcome so far, and the offset of its value, once it is known."""

    id: OperationId
    value: Hashable
    outcome: Acknowledged | Failed | Unknown | None = None
    place: int | None = None


class LogHistory:
    """Records events as they happen; `violations` has the violations so far.

    Most rules are checked at once; lost values, and values that a reader skipped, need
    `finish`. Recording costs a few dictionary accesses. An impossible history, such as a response
    to nothing or a value appended twice, raises ValueError.
    """

    def __init__(self) -> None:
        self.violations: list[str] = []
        self._appends: dict[OperationId, _Append] = {}
        self._by_value: dict[Hashable, _Append] = {}
        #: None for a read that has ended
        self._reads: dict[OperationId, _Started | None] = {}
        #: by offset: the value there, and the first witness
        self._held: dict[int, tuple[Hashable, Witness]] = {}
        #: the highest log end known so far, and the witness that proves it
        self._known_end = 0
        self._known_end_by: Witness = BEGINNING
        self._answers: list[ReadAnswered] = []
        self._readers: dict[OperationId, Seen] = {}
        #: what a reader saw before and after offsets that it did not see
        self._gaps: list[tuple[Seen, Seen]] = []

    def record(self, event: Event) -> None:
        match event:
            case Invoked():
                self._invoked(event)
            case Acknowledged():
                self._acknowledged(event)
            case ReadInvoked():
                self._check_is_new(event)
                self._reads[event.id] = _Started(event.at, self._known_end, self._known_end_by)
            case ReadAnswered():
                self._read(event)
            case Seen():
                self._seen(event)
            case Failed() | Unknown():
                self._gave_up(event)

    def finish(self, final_log: Sequence[tuple[int, Hashable | None]]) -> list[str]:
        """Check the history against the final log; return all violations.

        The log is everything ever committed, in order from its first offset on; None stands for a
        record that is not from a client, such as a leader change.
        """
        witnessed = [(offset, witness) for offset, (_, witness) in self._held.items()]
        offsets: list[int] = []
        end = 0
        for offset, value in final_log:
            if offset < end:
                raise ValueError(f"the final log has offset {offset} after {end - 1}")
            end = offset + 1
            if value is not None:
                offsets.append(offset)
                self._holds(offset, value, FINAL_LOG)
        kept = set(offsets)
        for offset, witness in witnessed:
            if offset not in kept:
                rule = "prefix" if isinstance(witness, Seen) else "acknowledged"
                self._complain(rule, f"{_name(witness)} is not in the final log")
        for answer in self._answers:
            if answer.offset > end:
                self._complain("read", f"{_name(answer)} went beyond the end of the log, {end}")
        for before, after in self._gaps:
            first = bisect_left(offsets, before.offset + 1)
            if first < len(offsets) and offsets[first] < after.offset:
                self._complain(
                    "prefix", f"{_name(after)} was not shown offset {offsets[first]} before"
                )
        return self.violations

    # -- one method per kind of event --------------------------------------------------------

    def _invoked(self, event: Invoked) -> None:
        self._check_is_new(event)
        if event.value in self._by_value:
            raise ValueError(f"{event.value!r} is appended by {event.id} and by another")
        append = _Append(event.at, self._known_end, self._known_end_by, event.id, event.value)
        self._appends[event.id] = self._by_value[event.value] = append

    def _acknowledged(self, event: Acknowledged) -> None:
        append = self._append_of(event)
        append.outcome = event
        self._holds(event.offset, append.value, event)
        self._raise_known_end(event.offset + 1, event)

    def _gave_up(self, event: Failed | Unknown) -> None:
        if self._reads.get(event.id):
            self._reads[event.id] = None
            return
        append = self._append_of(event)
        append.outcome = event
        if isinstance(event, Failed) and append.place is not None:
            self._complain(
                "outcome", f"append {event.id} failed at {event.at}, yet lies at {append.place}"
            )

    def _read(self, event: ReadAnswered) -> None:
        read = self._reads.get(event.id)
        if read is None:
            raise ValueError(f"no read in progress is answered by {event}")
        self._reads[event.id] = None
        if event.offset < read.floor:
            self._complain(
                "read", f"{_name(event)} began at {read.at}, after {_name(read.floor_by)}"
            )
        self._answers.append(event)
        self._raise_known_end(event.offset, event)

    def _seen(self, event: Seen) -> None:
        before = self._readers.get(event.reader)
        if before is not None and event.offset > before.offset + 1:
            self._gaps.append((before, event))
        self._readers[event.reader] = event
        self._holds(event.offset, event.value, event)
        self._raise_known_end(event.offset + 1, event)

    # -- helpers -----------------------------------------------------------------------------

    def _check_is_new(self, event: Invoked | ReadInvoked) -> None:
        if event.id in self._appends or event.id in self._reads:
            raise ValueError(f"the id of {event} was used before")

    def _append_of(self, event: Acknowledged | Failed | Unknown) -> _Append:
        append = self._appends.get(event.id)
        if append is None or append.outcome is not None:
            raise ValueError(f"no append in progress is ended by {event}")
        return append

    def _raise_known_end(self, end: int, by: EndWitness) -> None:
        if end > self._known_end:
            self._known_end, self._known_end_by = end, by

    def _holds(self, offset: int, value: Hashable, witness: Witness) -> None:
        """Record that a value is at an offset, and compare that with earlier reports."""
        held, by = self._held.setdefault(offset, (value, witness))
        if held != value:
            is_seen = isinstance(witness, Seen) or isinstance(by, Seen)
            self._complain(
                "prefix" if is_seen else "acknowledged",
                f"at offset {offset} is {held!r} by {_name(by)}, {value!r} by {_name(witness)}",
            )
        append = self._by_value.get(value)
        if append is None:
            self._complain("outcome", f"{_name(witness)} has {value!r}, which no client appended")
            return
        if isinstance(append.outcome, Failed):
            self._complain(
                "outcome",
                f"{_name(witness)} has {value!r} of append {append.id}, "
                f"which failed at {append.outcome.at}",
            )
        self._lies_at(append, offset, witness)

    def _lies_at(self, append: _Append, offset: int, witness: Witness) -> None:
        if append.place is None:
            append.place = offset
            if offset < append.floor:
                self._complain_of_order(append, offset)
        elif append.place != offset:
            rule = "acknowledged" if isinstance(append.outcome, Acknowledged) else "outcome"
            self._complain(
                rule,
                f"append {append.id} lies at {append.place}, and at {offset} by {_name(witness)}",
            )

    def _complain_of_order(self, append: _Append, offset: int) -> None:
        """An append below an offset known when it began; the witness decides the broken rule."""
        by = append.floor_by
        rule = {ReadAnswered: "read", Seen: "prefix"}.get(type(by), "order")
        self._complain(
            rule,
            f"append {append.id} began at {append.at}, after {_name(by)}, yet lies at {offset}",
        )

    def _complain(self, rule: str, what: str) -> None:
        self.violations.append(f"{rule}: {what}")


def judge(events: Iterable[Event], final_log: Sequence[tuple[int, Hashable | None]]) -> list[str]:
    """Record a complete history, and return all its violations."""
    history = LogHistory()
    for event in events:
        history.record(event)
    return history.finish(final_log)
