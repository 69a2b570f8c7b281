"""Checks whether a concurrent history is linearizable.

A history is linearizable if each operation can be given one instant between its invocation and its
return, such that the operations in the order of these instants return what the model returns.
Deciding that is exponential in the number of overlapping operations. Three things keep it small:

- Keys are checked one by one: a history is linearizable if it is so for every key.
- An operation takes effect as late as possible (Lowe's just-in-time linearization): only when it
  returns, or when another operation returns that comes after it in the order.
- Each configuration (the next return, the pending operations that have happened, the state) is
  visited once.

The search is depth first on an explicit stack, in an order that depends on the history alone.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence
    from typing import Any

LINEARIZABLE = "linearizable"
NOT_LINEARIZABLE = "not linearizable"
UNKNOWN = "unknown"

#: How many configurations of one key are visited before the next key's turn.
SLICE = 10_000


class Operation(Value):
    """An operation of one process: its call, interval and result.

    `invoked` and `returned` are positions in one order of events, or times; equal ones overlap. If
    `returned` is None the outcome is unknown: the operation may take effect at any time after its
    invocation, or never, and its `result` is ignored.
    """

    process: int | str
    call: Hashable
    invoked: int
    returned: int | None = None
    result: Hashable = None


class Model:
    """A sequential object: its initial state and the effect of a call. States must be hashable."""

    initial: Hashable = None

    def key(self, call: Any) -> Hashable:  # noqa: ARG002 - a model without keys needs no call
        """The part of the object that a call accesses; parts must be independent."""
        return None

    def apply(self, state: Any, call: Any) -> tuple[Hashable, Hashable]:
        """The state after the call, and the call's result."""
        raise NotImplementedError

    def changes_nothing(self, call: Any, result: Any) -> bool:  # noqa: ARG002 - overridden by models
        """Whether a call with this result leaves every state unchanged.

        False is always correct; True for reads makes the search much smaller.
        """
        return False


class Verdict(Value):
    """The outcome, the number of visited configurations, and where the search ended.

    `stuck` is the operation whose return no order explains, the furthest one that the search
    reached; None if the history is linearizable.
    """

    outcome: str
    configurations: int
    stuck: Operation | None = None


def check(history: Iterable[Operation], model: Model, budget: int = 1_000_000) -> Verdict:
    """Check a history; the outcome is `UNKNOWN` if `budget` configurations were not enough.

    Memory grows by a few hundred bytes per configuration. All keys advance in slices, so that a
    key that is easily refuted does not wait for a hard one.
    """
    by_key: dict[Hashable, list[Operation]] = {}
    for operation in history:
        if operation.returned is not None and operation.returned < operation.invoked:
            raise ValueError(f"returned before it was invoked: {operation}")
        by_key.setdefault(model.key(operation.call), []).append(operation)
    # a key without any return is always linearizable: none of its calls need have happened
    undecided = [
        _Search(operations, model)
        for operations in by_key.values()
        if any(operation.returned is not None for operation in operations)
    ]
    used = 0
    while undecided:
        hard = []
        for search in undecided:
            outcome, visited = search.advance(min(SLICE, budget - used))
            used += visited
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
    #: the next return, the pending operations that have happened (bits), the state
    Configuration = tuple[int, int, Hashable]


class _Search:
    """The search in the history of one key.

    Operations are numbered in the order of their returns; those with unknown outcome come last.
    """

    def __init__(self, history: Sequence[Operation], model: Model) -> None:
        known = [o for o in history if o.returned is not None]
        known.sort(key=lambda o: (o.returned, o.invoked))
        unknown = [o for o in history if o.returned is None]
        unknown.sort(key=lambda o: o.invoked)
        self._model = model
        self._operations = known + unknown
        #: The number of operations that returned.
        self._returns = len(known)
        self._twin = self._earlier_twins()
        #: By return: the numbers of the pending operations, with reads of known result separate.
        self._changing: list[list[int]] = []
        self._reading: list[list[int]] = []
        self._find_pending()
        self._furthest = 0
        self._stack: list[Configuration] = []
        self._seen: set[Configuration] = set()
        self._visit(self._settle(0, 0, model.initial))

    def _earlier_twins(self) -> list[int]:
        """For each number a mask with the earlier operation of the same call and unknown outcome.

        Among several with the same call it does not matter which has happened, so the earliest has.
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
        """For each return the operations that were pending, with reads of known result separate."""
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
        return is_known and self._model.changes_nothing(operation.call, operation.result)

    @property
    def stuck(self) -> Operation:
        """The furthest return that the search reached and could not pass."""
        return self._operations[self._furthest]

    def advance(self, limit: int) -> tuple[str, int]:
        """Visit up to `limit` more configurations; return the outcome and how many were visited."""
        visited = 0
        while self._stack and visited < limit:
            visited += 1
            next_return, happened, state = self._stack.pop()
            if next_return == self._returns:
                return LINEARIZABLE, visited
            self._furthest = max(self._furthest, next_return)
            # backwards, so that the operation that returns next is tried first
            for number in reversed(self._changing[next_return]):
                after = self._take(number, happened, state)
                if after is not None:
                    self._visit(self._settle(next_return, happened | 1 << number, after[0]))
        return (UNKNOWN if self._stack else NOT_LINEARIZABLE), visited

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
        # it need not happen: skip it if it has no effect, or if its earlier twin has not happened
        is_skipped = after == state or self._twin[number] & ~happened
        return None if is_skipped else (after,)

    def _settle(self, next_return: int, happened: int, state: Hashable) -> Configuration:
        """Let reads happen as soon as they match, and pass the returns that have happened.

        A read that matches can happen now, as it does not affect later operations.
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
