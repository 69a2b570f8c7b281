"""Each rule for clients of a log has a history that violates it; all agree with linearizability."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog_simulator.checkers.linearizability import LINEARIZABLE, Model, Operation, check
from kraftlog_simulator.checkers.log_history import (
    Acknowledged,
    Failed,
    Invoked,
    LogHistory,
    ReadAnswered,
    ReadInvoked,
    Seen,
    Unknown,
    judge,
)

if TYPE_CHECKING:
    from collections.abc import Hashable

    from kraftlog_simulator.checkers.log_history import Event

    Log = list[tuple[int, Hashable | None]]

#: All cases begin with these events: "a" is appended at offset 0.
A_DONE: list[Event] = [Invoked(1, 10, "a"), Acknowledged(1, 11, 0)]
AB: Log = [(0, "a"), (1, None), (2, "b")]


def test_a_correct_history_has_no_violation() -> None:
    events = [
        *A_DONE,
        ReadInvoked("r", 12),
        Invoked(2, 13, "b"),
        Seen("reader", 14, 0, "a"),
        Unknown(2, 15),
        ReadAnswered("r", 16, 2),
        Seen("reader", 17, 2, "b"),
        Invoked(3, 18, "c"),
        Failed(3, 19),
        ReadInvoked("s", 20),
        Failed("s", 21),
        ReadInvoked("t", 22),
        Invoked(4, 23, "d"),
    ]
    assert judge(events, AB) == []


#: name -> (events after A_DONE, the final log, the violations)
BROKEN: dict[str, tuple[list[Event], Log, list[str]]] = {
    "rule 1: an acknowledged value is lost": (
        [],
        [],
        ["acknowledged: append 1 (acknowledged at 11 with 0) is not in the final log"],
    ),
    "rule 1: it is lost, and another value has its offset": (
        [Invoked(2, 12, "b"), Unknown(2, 13)],
        [(0, "b")],
        [
            (
                "acknowledged: at offset 0 is 'a' by append 1 (acknowledged at 11 with 0), "
                "'b' by the final log"
            ),
            (
                "order: append 2 began at 12, after append 1 (acknowledged at 11 with 0), "
                "yet lies at 0"
            ),
        ],
    ),
    "rule 1: an acknowledged value is there twice": (
        [],
        [(0, "a"), (1, "a")],
        ["acknowledged: append 1 lies at 0, and at 1 by the final log"],
    ),
    "rule 1: two values get one offset": (
        [Invoked(2, 12, "b"), Invoked(3, 12, "c"), Acknowledged(2, 13, 2), Acknowledged(3, 14, 2)],
        AB,
        [
            (
                "acknowledged: at offset 2 is 'b' by append 2 (acknowledged at 13 with 2), "
                "'c' by append 3 (acknowledged at 14 with 2)"
            )
        ],
    ),
    "rule 2: a later append has a lower offset": (
        [Invoked(2, 12, "b"), Acknowledged(2, 13, 2), Invoked(3, 14, "c"), Acknowledged(3, 15, 1)],
        [(0, "a"), (1, "c"), (2, "b")],
        ["order: append 3 began at 14, after append 2 (acknowledged at 13 with 2), yet lies at 1"],
    ),
    "rule 2: the same with an unknown outcome": (
        [Invoked(2, 12, "b"), Acknowledged(2, 13, 2), Invoked(3, 14, "c"), Unknown(3, 15)],
        [(0, "a"), (1, "c"), (2, "b")],
        ["order: append 3 began at 14, after append 2 (acknowledged at 13 with 2), yet lies at 1"],
    ),
    "rule 3: a read misses an acknowledged value": (
        [ReadInvoked("r", 12), ReadAnswered("r", 13, 0)],
        AB[:1],
        [
            (
                "read: read r (answered at 13 with 0) began at 12, "
                "after append 1 (acknowledged at 11 with 0)"
            )
        ],
    ),
    "rule 3: a read is older than an earlier one": (
        [
            Invoked(2, 12, "b"),
            ReadInvoked("r", 13),
            ReadAnswered("r", 14, 3),
            ReadInvoked("s", 15),
            ReadAnswered("s", 16, 2),
        ],
        AB,
        ["read: read s (answered at 16 with 2) began at 15, after read r (answered at 14 with 3)"],
    ),
    "rule 3: a read misses a value that a reader saw": (
        [
            Invoked(2, 12, "b"),
            Seen("x", 13, 2, "b"),
            ReadInvoked("r", 14),
            ReadAnswered("r", 15, 2),
        ],
        AB,
        ["read: read r (answered at 15 with 2) began at 14, after reader x (saw offset 2 at 13)"],
    ),
    "rule 3: a read is beyond what had been invoked": (
        [ReadInvoked("r", 12), ReadAnswered("r", 13, 3), Invoked(2, 14, "b")],
        AB,
        ["read: append 2 began at 14, after read r (answered at 13 with 3), yet lies at 2"],
    ),
    "rule 3: a read is beyond the log": (
        [ReadInvoked("r", 12), ReadAnswered("r", 13, 2)],
        AB[:1],
        ["read: read r (answered at 13 with 2) went beyond the end of the log, 1"],
    ),
    "rule 4: a failed append is in the log": (
        [Invoked(2, 12, "b"), Failed(2, 13)],
        AB,
        ["outcome: the final log has 'b' of append 2, which failed at 13"],
    ),
    "rule 4: a failed append was seen": (
        [Invoked(2, 12, "b"), Seen("x", 13, 2, "b"), Failed(2, 14)],
        AB[:2],
        [
            "outcome: append 2 failed at 14, yet lies at 2",
            "prefix: reader x (saw offset 2 at 13) is not in the final log",
        ],
    ),
    "rule 4: an unknown append is there twice": (
        [Invoked(2, 12, "b"), Unknown(2, 13)],
        [*AB, (3, "b")],
        ["outcome: append 2 lies at 2, and at 3 by the final log"],
    ),
    "rule 4: a value comes from nowhere": (
        [],
        AB,
        ["outcome: the final log has 'b', which no client appended"],
    ),
    "rule 5: two readers saw different values": (
        [
            Invoked(2, 12, "b"),
            Invoked(3, 12, "c"),
            Seen("x", 13, 2, "b"),
            Seen("y", 14, 2, "c"),
        ],
        AB,
        [
            (
                "prefix: at offset 2 is 'b' by reader x (saw offset 2 at 13), "
                "'c' by reader y (saw offset 2 at 14)"
            )
        ],
    ),
    "rule 5: a seen value is gone": (
        [Invoked(2, 12, "b"), Seen("x", 13, 0, "a"), Seen("x", 13, 2, "b")],
        AB[:2],
        ["prefix: reader x (saw offset 2 at 13) is not in the final log"],
    ),
    "rule 5: a record appears before a seen value": (
        [
            Invoked(2, 12, "b"),
            Invoked(3, 12, "c"),
            Seen("x", 13, 0, "a"),
            Seen("x", 14, 2, "b"),
        ],
        [(0, "a"), (1, "c"), (2, "b")],
        ["prefix: reader x (saw offset 2 at 14) was not shown offset 1 before"],
    ),
    "rule 5: a later append lies before a seen value": (
        [Invoked(2, 12, "b"), Seen("x", 13, 2, "b"), Invoked(3, 14, "c")],
        [(0, "a"), (1, "c"), (2, "b")],
        ["prefix: append 3 began at 14, after reader x (saw offset 2 at 13), yet lies at 1"],
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_violation_is_reported(name: str) -> None:
    events, log, violations = BROKEN[name]
    assert judge([*A_DONE, *events], log) == violations


def test_a_negative_offset_is_a_violation() -> None:
    append: list[Event] = [Invoked(1, 10, "a"), Acknowledged(1, 11, -1)]
    assert "order: append 1 began at 10, after the beginning of the log, yet lies at -1" in judge(
        append, [(0, "a")]
    )
    read: list[Event] = [ReadInvoked("r", 10), ReadAnswered("r", 11, -1)]
    assert len(judge(read, [])) == 1


def test_violations_are_detected_as_soon_as_they_happen() -> None:
    history = LogHistory()
    for event in (*A_DONE, ReadInvoked("r", 12)):
        history.record(event)
    assert history.violations == []
    history.record(ReadAnswered("r", 13, 0))
    assert len(history.violations) == 1


def test_the_order_of_recording_counts_and_not_the_time() -> None:
    """Events of one millisecond have an order, too."""
    read: list[Event] = [ReadInvoked("r", 10), ReadAnswered("r", 10, 0)]
    append: list[Event] = [Invoked(1, 10, "a"), Acknowledged(1, 10, 0)]
    assert judge([*read, *append], [(0, "a")]) == []
    assert len(judge([*append, *read], [(0, "a")])) == 1


def test_a_reader_may_go_back() -> None:
    events = [*A_DONE, Invoked(2, 12, "b"), Seen("x", 13, 2, "b")]
    assert judge([*events, Seen("x", 14, 0, "a"), Seen("x", 15, 2, "b")], AB) == []


@pytest.mark.parametrize(
    ("events", "error_text"),
    [
        ([Invoked(1, 12, "b")], "used before"),
        ([ReadInvoked(1, 12)], "used before"),
        ([ReadInvoked("r", 12), ReadAnswered("r", 13, 1), ReadInvoked("r", 14)], "used before"),
        ([Invoked(2, 12, "a")], "is appended by 2 and by another"),
        ([Acknowledged(1, 12, 0)], "no append in progress is ended"),
        ([Unknown(9, 12)], "no append in progress is ended"),
        ([ReadAnswered("r", 12, 1)], "no read in progress"),
        ([ReadInvoked("r", 12), Unknown("r", 13), ReadAnswered("r", 14, 1)], "no read in progress"),
    ],
)
def test_an_impossible_history_is_refused(events: list[Event], error_text: str) -> None:
    with pytest.raises(ValueError, match=error_text):
        judge([*A_DONE, *events], AB)


def test_a_final_log_out_of_order_is_refused() -> None:
    with pytest.raises(ValueError, match="offset 0 after 0"):
        judge(A_DONE, [(0, "a"), (0, None)])


# -- the same verdicts as the general checker, for logs of clients' records only -------------------


class LogModel(Model):
    """A log as a sequential object."""

    initial = ()

    def apply(self, state: tuple[Hashable, ...], call: Any) -> tuple[Hashable, Hashable]:
        match call:
            case ("append", value):
                return (*state, value), len(state)
            case ("read",):
                return state, len(state)
            case ("see", offset):
                return state, state[offset] if offset < len(state) else None
            case ("everything",):
                return state, state
        raise ValueError(call)

    def changes_nothing(self, call: Any, result: Hashable) -> bool:  # noqa: ARG002 - the call says it
        return bool(call[0] != "append")


def as_operations(events: list[Event], log: Log) -> list[Operation]:
    """The history as operations; a failed one has not happened."""
    pending: dict[int | str, Operation] = {}
    completed: list[Operation] = []
    for position, event in enumerate(events):
        match event:
            case Invoked():
                pending[event.id] = Operation(event.id, ("append", event.value), position)
            case ReadInvoked():
                pending[event.id] = Operation(event.id, ("read",), position)
            case Acknowledged() | ReadAnswered():
                operation = pending.pop(event.id)
                completed.append(operation.replace(returned=position, result=event.offset))
            case Failed():
                del pending[event.id]
            case Seen():
                completed.append(
                    Operation(event.reader, ("see", event.offset), position, position, event.value)
                )
    values = tuple(value for _, value in log)
    end = len(events)
    return [*completed, *pending.values(), Operation("end", ("everything",), end, end, values)]


class RandomClients:
    """Clients of a log that is correct, or returns wrong results at the rate `error_rate`."""

    def __init__(self, random: Random, error_rate: float) -> None:
        self._random = random
        self._error_rate = error_rate
        self.events: list[Event] = []
        self.log: list[str] = []
        self._appends: dict[str, int | None] = {}  # pending appends and their offsets
        self._reads: dict[str, int | None] = {}

    def _offset_error(self) -> int:
        return self._random.choice((-1, 1)) if self._random.random() < self._error_rate else 0

    def step(self, time: int) -> None:
        name = f"v{time}"
        action = self._random.randrange(8)
        if action == 0:
            self._appends[name] = None
            self.events.append(Invoked(name, time, name))
        elif action == 1:
            self._reads[name] = None
            self.events.append(ReadInvoked(name, time))
        elif action == 2 and self.log:
            offset = self._random.randrange(len(self.log))
            seen = self.log[min(max(0, offset + self._offset_error()), len(self.log) - 1)]
            self.events.append(Seen(name, time, offset, seen))
        elif action in {3, 4} and self._appends:
            append = self._random.choice(list(self._appends))
            if self._appends[append] is None:
                self._appends[append] = len(self.log)
                self.log.append(append)
        elif action in {5, 6} and self._appends:
            self._end_append(time, self._random.choice(list(self._appends)))
        elif action == 7 and self._reads:
            self._advance_read(time, self._random.choice(list(self._reads)))

    def _end_append(self, time: int, append: str) -> None:
        offset = self._appends[append]
        if offset is not None:
            self.events.append(Acknowledged(append, time, offset + self._offset_error()))
        elif self._random.random() < 0.5:
            self.events.append(Unknown(append, time))
            if self._random.random() < 0.5:
                self.log.append(append)
        else:
            self.events.append(Failed(append, time))
            if self._random.random() < self._error_rate:
                self.log.append(append)
        del self._appends[append]

    def _advance_read(self, time: int, read: str) -> None:
        offset = self._reads[read]
        if offset is None:
            self._reads[read] = len(self.log)
        else:
            self.events.append(ReadAnswered(read, time, offset + self._offset_error()))
            del self._reads[read]

    def final_log(self) -> Log:
        log = list(self.log)
        if len(log) > 1 and self._random.random() < self._error_rate:
            match self._random.randrange(4):
                case 0:
                    log.pop()
                case 1:
                    log[0], log[1] = log[1], log[0]
                case 2:
                    log.append(log[0])
                case 3:
                    log.append("from nowhere")
        return list(enumerate(log))


@pytest.mark.parametrize("error_rate", [0.0, 0.05, 0.2])
def test_the_rules_agree_with_linearizability(error_rate: float) -> None:
    random = Random(3)
    linearizable_count = 0
    for _ in range(1000):
        clients = RandomClients(random, error_rate)
        for time in range(random.randrange(10, 40)):
            clients.step(time)
        log = clients.final_log()
        verdict = check(as_operations(clients.events, log), LogModel())
        violations = judge(clients.events, log)
        assert (violations == []) == (verdict.outcome == LINEARIZABLE), (clients.events, log)
        linearizable_count += violations == []
    assert linearizable_count == 1000 if error_rate == 0 else 200 < linearizable_count < 900
