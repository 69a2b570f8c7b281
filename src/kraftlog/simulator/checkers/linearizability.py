"""Whether a concurrent history could have come from a sequential object.

A history is linearizable when each operation can be given one instant between its invocation and
its return, so that the operations, in the order of these instants, answer what the model answers.
Deciding that is exponential in how many operations overlap; three things keep it small:

- Keys are judged one by one, as a history is linearizable if it is so for every key.
- An operation takes effect as late as possible (Lowe's just-in-time linearization): only when some
  operation returns must it, and whatever it needs in front of it, have happened.
- A configuration (which return comes next, which pending operations have happened, the state) that
  was seen once is not looked at again.

Search is depth first, on a stack of its own, in an order that the history alone decides.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence
    from typing import Any

LINEARIZABLE = "linearizable"
NOT_LINEARIZABLE = "not linearizable"
UNKNOWN = "unknown"

#: How many configurations of one key are looked at before the next key's turn.
SLICE = 10_000


class Operation(Value):
    """What one process asked, when, and what came of it.

    `invoked` and `returned` are positions in one order of events, or times; equal ones count as
    overlapping. An operation whose `returned` is None has an unknown outcome: it may have
    happened at any time after its invocation, or never; its `result` means nothing.
    """

    process: int | str
    call: Hashable
    invoked: int
    returned: int | None = None
    result: Hashable = None


class Model:
    """A sequential object: its first state and what a call does. States must be hashable."""

    initial: Hashable = None

    def key(self, call: Any) -> Hashable:  # noqa: ARG002 - a model without keys needs no call
        """Which part of the object a call is about; parts must not influence each other."""
        return None

    def apply(self, state: Any, call: Any) -> tuple[Hashable, Hashable]:
        """The state after the call, and the call's result."""
        raise NotImplementedError

    def leaves_alone(self, call: Any, result: Any) -> bool:  # noqa: ARG002 - overridden by models
        """Whether a call with this result changes no state, whatever the state is.

        False is always right; True for reads makes the search much smaller.
        """
        return False


class Verdict(Value):
    """The outcome, the configurations looked at, and where it ended.

    `stuck` is the operation whose return no order explains, the furthest one that the search came
    to; None if the history is linearizable.
    """

    outcome: str
    configurations: int
    stuck: Operation | None = None


def check(history: Iterable[Operation], model: Model, budget: int = 1_000_000) -> Verdict:
    """Judge a history; the outcome is `UNKNOWN` when `budget` configurations did not decide.

    Memory grows with the budget, by a few hundred bytes each. All keys advance in slices: one that
    is easily refuted need not wait for one that is hard.
    """
    parts: dict[Hashable, list[Operation]] = {}
    for operation in history:
        if operation.returned is not None and operation.returned < operation.invoked:
            raise ValueError(f"returned before it was invoked: {operation}")
        parts.setdefault(model.key(operation.call), []).append(operation)
    # a key on which nothing has returned is fine as it is: none of it need have happened
    judged = [part for part in parts.values() if any(o.returned is not None for o in part)]
    undecided = [_Search(part, model) for part in judged]
    used = 0
    while undecided:
        hard = []
        for search in undecided:
            outcome, looked_at = search.advance(min(SLICE, budget - used))
            used += looked_at
            if outcome == NOT_LINEARIZABLE:
                return Verdict(outcome, used, search.stuck)
            if outcome == UNKNOWN:
                hard.append(search)
        undecided = hard
        if used >= budget:
            break
    if undecided:
        return Verdict(UNKNOWN, used, undecided[0].stuck)
    return Verdict(LINEARIZABLE, used)


if TYPE_CHECKING:
    #: the return to come, the pending operations that have happened (bits), the state
    Configuration = tuple[int, int, Hashable]


class _Search:
    """The search in one part of a history.

    Operations are numbered in the order of their returns, those with unknown outcome behind them.
    """

    def __init__(self, part: Sequence[Operation], model: Model) -> None:
        closed = [o for o in part if o.returned is not None]
        closed.sort(key=lambda o: (o.returned, o.invoked))
        unknown = [o for o in part if o.returned is None]
        unknown.sort(key=lambda o: o.invoked)
        self._model = model
        self._operations = closed + unknown
        self._returns = len(closed)
        self._twin = self._earlier_twins()
        self._changing: list[list[int]] = []
        self._reading: list[list[int]] = []
        self._find_pending()
        self._furthest = 0
        self._stack: list[Configuration] = []
        self._seen: set[Configuration] = set()
        self._visit(self._settle(0, 0, model.initial))

    def _earlier_twins(self) -> list[int]:
        """For each number a mask: the operation of unknown outcome that goes first, if any.

        Of several with the same call it makes no difference which has happened: the earliest.
        """
        twins = [0] * len(self._operations)
        latest: dict[Hashable, int] = {}
        for number in range(self._returns, len(self._operations)):
            call = self._operations[number].call
            if call in latest:
                twins[number] = 1 << latest[call]
            latest[call] = number
        return twins

    def _find_pending(self) -> None:
        """For each return the operations that were pending; reads with a known result apart."""
        operations = self._operations
        to_come = sorted(range(len(operations)), key=lambda number: -operations[number].invoked)
        pending: list[int] = []
        for next_return in range(self._returns):
            returned = operations[next_return].returned
            assert returned is not None
            while to_come and operations[to_come[-1]].invoked <= returned:
                pending.append(to_come.pop())
            pending.sort()
            self._changing.append([number for number in pending if not self._is_read(number)])
            self._reading.append([number for number in pending if self._is_read(number)])
            pending.remove(next_return)

    def _is_read(self, number: int) -> bool:
        operation = self._operations[number]
        is_known = number < self._returns
        return is_known and self._model.leaves_alone(operation.call, operation.result)

    @property
    def stuck(self) -> Operation:
        """The furthest return that the search came to and could not pass."""
        return self._operations[self._furthest]

    def advance(self, limit: int) -> tuple[str, int]:
        """Look at up to `limit` configurations more: the outcome, and how many it were."""
        looked_at = 0
        while self._stack and looked_at < limit:
            looked_at += 1
            next_return, happened, state = self._stack.pop()
            if next_return == self._returns:
                return LINEARIZABLE, looked_at
            self._furthest = max(self._furthest, next_return)
            # backwards, so that the one that returns next is tried first
            for number in reversed(self._changing[next_return]):
                after = self._take(number, happened, state)
                if after is not None:
                    self._visit(self._settle(next_return, happened | 1 << number, after[0]))
        return (UNKNOWN if self._stack else NOT_LINEARIZABLE), looked_at

    def _visit(self, configuration: Configuration) -> None:
        if configuration not in self._seen:
            self._seen.add(configuration)
            self._stack.append(configuration)

    def _take(self, number: int, happened: int, state: Hashable) -> tuple[Hashable] | None:
        """The state after an operation, in a tuple; None if it can't or needn't happen here."""
        if happened >> number & 1:
            return None
        operation = self._operations[number]
        after, result = self._model.apply(state, operation.call)
        if number < self._returns:
            return (after,) if result == operation.result else None
        # of unknown outcome: it need not happen, so doing nothing is no use
        is_idle = after == state or self._twin[number] & ~happened
        return None if is_idle else (after,)

    def _settle(self, next_return: int, happened: int, state: Hashable) -> Configuration:
        """Let reads happen as soon as they fit, and pass the returns that have happened.

        A read that fits may as well be now: it hinders nothing that follows.
        """
        while next_return < self._returns:
            for number in self._reading[next_return]:
                if not happened >> number & 1:
                    operation = self._operations[number]
                    if self._model.apply(state, operation.call)[1] == operation.result:
                        happened |= 1 << number
            if not happened >> next_return & 1:
                break
            while next_return < self._returns and happened >> next_return & 1:
                happened ^= 1 << next_return
                next_return += 1
        return next_return, happened, state
