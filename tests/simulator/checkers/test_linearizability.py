"""The linearizability checker: handmade histories, and comparison with trying every order."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog_simulator.checkers.linearizability import (
    LINEARIZABLE,
    NOT_LINEARIZABLE,
    UNKNOWN,
    Model,
    Operation,
    Verdict,
    check,
)
from kraftlog_simulator.checkers.models import KeyValue, Register

if TYPE_CHECKING:
    from collections.abc import Hashable


def op(span: str, call: str, result: Hashable = None) -> Operation:
    """`op("2-5", "write 1")`; a span without an end is an unknown outcome."""
    invoked, _, returned = span.partition("-")
    words = [int(word) if word.isdigit() else word for word in call.split()]
    return Operation(span, tuple(words), int(invoked), int(returned) if returned else None, result)


#: Histories of a register with their verdicts, by what distinguishes them.
REGISTER = {
    "nothing at all": ([], LINEARIZABLE),
    "nothing written": ([op("1-2", "read")], LINEARIZABLE),
    "read after write": ([op("1-2", "write 1"), op("3-4", "read", 1)], LINEARIZABLE),
    "stale read": ([op("1-2", "write 1"), op("3-4", "read")], NOT_LINEARIZABLE),
    "old value read during the write": ([op("1-3", "write 1"), op("2-4", "read")], LINEARIZABLE),
    "times that touch overlap": ([op("1-3", "write 1"), op("3-4", "read")], LINEARIZABLE),
    "read of the future": ([op("1-2", "read", 1), op("3-4", "write 1")], NOT_LINEARIZABLE),
    "new, then old": (
        [op("1-8", "write 1"), op("2-3", "read", 1), op("4-5", "read")],
        NOT_LINEARIZABLE,
    ),
    "readers that disagree on an order": (
        [
            op("1-20", "write 1"),
            op("2-21", "write 2"),
            op("3-4", "read", 1),
            op("5-6", "read", 2),
            op("7-8", "read", 1),
        ],
        NOT_LINEARIZABLE,
    ),
    "a swap that two won": (
        [op("1-2", "write 1"), op("3-6", "cas 1 2", True), op("4-7", "cas 1 3", True)],
        NOT_LINEARIZABLE,
    ),
    "a swap that one won": (
        [op("1-2", "write 1"), op("3-6", "cas 1 2", True), op("4-7", "cas 1 3", False)],
        LINEARIZABLE,
    ),
    "a refused swap that fitted": (
        [op("1-2", "write 1"), op("3-6", "cas 1 2", False)],
        NOT_LINEARIZABLE,
    ),
    "an unknown write that took effect late": (
        [op("1", "write 1"), op("2-3", "read"), op("4-5", "write 2"), op("6-7", "read", 1)],
        LINEARIZABLE,
    ),
    "an unknown write that took effect twice": (
        [op("1", "write 1"), op("2-3", "read", 1), op("4-5", "write 2"), op("6-7", "read", 1)],
        NOT_LINEARIZABLE,
    ),
    "two unknown writes of the same value": (
        [
            op("1", "write 1"),
            op("2", "write 1"),
            op("3-4", "read", 1),
            op("5-6", "write 2"),
            op("7-8", "read", 1),
        ],
        LINEARIZABLE,
    ),
    "an unknown write read before it began": (
        [op("1-2", "read", 1), op("3", "write 1")],
        NOT_LINEARIZABLE,
    ),
    "an unknown read": ([op("1", "read"), op("2-3", "write 1")], LINEARIZABLE),
    "an unknown swap": (
        [op("1-2", "write 1"), op("3", "cas 1 2"), op("4-5", "read", 1), op("6-7", "read", 2)],
        LINEARIZABLE,
    ),
    "an unknown swap of a value that was not there": (
        [op("1-2", "write 1"), op("3", "cas 5 2"), op("4-5", "read", 2)],
        NOT_LINEARIZABLE,
    ),
}

STORE = {
    "appends in either order": (
        [op("1-4", "append k a"), op("2-5", "append k b"), op("6-7", "get k", "ba")],
        LINEARIZABLE,
    ),
    "an append lost": (
        [op("1-4", "append k a"), op("2-5", "append k b"), op("6-7", "get k", "b")],
        NOT_LINEARIZABLE,
    ),
    "a put that replaces an append": (
        [op("1-4", "append k a"), op("2-5", "put k b"), op("6-7", "get k", "b")],
        LINEARIZABLE,
    ),
    "independent keys": (
        [op("1-2", "put k a"), op("3-4", "get j", ""), op("5-6", "get k", "a")],
        LINEARIZABLE,
    ),
    "wrong in the second key": (
        [op("1-2", "put k a"), op("3-4", "put j b"), op("5-6", "get j", "a")],
        NOT_LINEARIZABLE,
    ),
}


@pytest.mark.parametrize("name", REGISTER)
def test_each_history_of_a_register_gets_its_verdict(name: str) -> None:
    history, outcome = REGISTER[name]
    assert check(history, Register()).outcome == outcome


@pytest.mark.parametrize("name", STORE)
def test_each_history_of_a_key_value_store_gets_its_verdict(name: str) -> None:
    history, outcome = STORE[name]
    assert check(history, KeyValue()).outcome == outcome


def test_the_verdict_names_the_operation_that_no_order_explains() -> None:
    stale = op("5-6", "read", 1)
    history = [op("1-2", "write 1"), op("3-4", "write 2"), stale, op("7-8", "read", 2)]
    assert check(history, Register()) == Verdict(NOT_LINEARIZABLE, 3, stale)


def test_the_furthest_operation_is_named_although_the_search_went_back() -> None:
    wrong = op("9-10", "read", 9)
    writes = [op("1-5", "write 1"), op("2-6", "write 2")]
    assert check([*writes, op("7-8", "read", 2), wrong], Register()).stuck == wrong


def test_unknown_outcomes_of_the_same_call_do_not_multiply_the_work() -> None:
    """Ten writes each of two values: only the number that has happened matters."""
    history = [op(str(n), f"write {n % 2}") for n in range(20)]
    verdict = check([*history, op("30-31", "read", 9)], Register(), budget=100)
    assert verdict.outcome == NOT_LINEARIZABLE


def test_unknown_swaps_of_what_is_not_there_do_not_multiply_the_work() -> None:
    history = [op(str(n), f"cas {n + 50} {n}") for n in range(20)]
    verdict = check([*history, op("30-31", "read", 9)], Register(), budget=1)
    assert verdict.outcome == NOT_LINEARIZABLE


class Box(Register):
    """A register that `("take",)` empties; the call returns the content, None if there was none."""

    def apply(self, state: Hashable, call: Any) -> tuple[Hashable, Hashable]:
        return (None, state) if call == ("take",) else super().apply(state, call)

    def changes_nothing(self, call: Any, result: Hashable) -> bool:
        return call == ("read",) or (call == ("take",) and result is None)


def test_the_result_of_an_unknown_outcome_means_nothing() -> None:
    history = [op("1-2", "write 1"), op("3", "take"), op("4-5", "read")]
    assert check(history, Box()).outcome == LINEARIZABLE
    assert check([*history, op("6-7", "take", 1)], Box()).outcome == NOT_LINEARIZABLE


def overlapping_appends(count: int) -> list[Operation]:
    """Each order of the appends gives another state, and none explains the read."""
    appends = [op(f"{n}-{100 + n}", f"append k {n}x") for n in range(count)]
    return [*appends, op("200-201", "get k", "nothing of this")]


def test_a_budget_ends_the_search_without_a_verdict() -> None:
    history = overlapping_appends(9)
    verdict = check(history, KeyValue(), budget=5000)
    assert (verdict.outcome, verdict.configurations) == (UNKNOWN, 5000)
    assert verdict.stuck in history
    assert check(overlapping_appends(5), KeyValue(), budget=5000).outcome == NOT_LINEARIZABLE


def test_a_hard_key_does_not_hide_that_another_is_refuted() -> None:
    wrong = op("1-2", "get j", "an unwritten value")
    verdict = check([*overlapping_appends(9), wrong], KeyValue(), budget=30_000)
    assert (verdict.outcome, verdict.stuck) == (NOT_LINEARIZABLE, wrong)


def test_operations_without_returns_need_no_budget() -> None:
    history = [op("1", "write 1"), op("2", "read")]
    assert check(history, Register(), budget=0) == Verdict(LINEARIZABLE, 0)


def test_the_order_of_the_list_makes_no_difference() -> None:
    history = random_history(Random(1), 12)
    assert check(history, Register()) == check(list(reversed(history)), Register())


def test_a_return_before_the_invocation_is_refused() -> None:
    with pytest.raises(ValueError, match="returned before it was invoked"):
        check([op("5-4", "read")], Register())


@pytest.mark.parametrize("model", [Register(), KeyValue()])
def test_models_refuse_unknown_calls(model: Model) -> None:
    with pytest.raises(ValueError, match="not"):
        check([op("1-2", "shout k")], model)


def random_history(random: Random, size: int) -> list[Operation]:
    """Operations on a register with results that are possible, and often right."""
    calls: list[tuple[Any, ...]] = [
        ("read",), ("read",), ("write", 1), ("write", 2), ("cas", 1, 2), ("cas", 2, 1),
    ]  # fmt: skip
    results: dict[str, list[Hashable]] = {
        "read": [None, 1, 2], "write": [None], "cas": [True, False],
    }  # fmt: skip
    history = []
    for process in range(size):
        call = random.choice(calls)
        invoked = random.randrange(3 * size)
        returned = None if random.random() < 0.2 else invoked + random.randrange(size)
        result = None if returned is None else random.choice(results[call[0]])
        history.append(Operation(process, call, invoked, returned, result))
    return history


def is_linearizable(remaining: list[Operation], model: Model, state: Hashable) -> bool:
    """By definition: recursively try each operation that no remaining one precedes."""
    if all(operation.returned is None for operation in remaining):
        return True
    for operation in remaining:
        if any(o.returned is not None and o.returned < operation.invoked for o in remaining):
            continue
        after, result = model.apply(state, operation.call)
        if operation.returned is None or result == operation.result:
            others = [o for o in remaining if o is not operation]
            if is_linearizable(others, model, after):
                return True
    return False


def test_verdicts_agree_with_trying_every_order() -> None:
    random = Random(7)
    model = Register()
    outcomes = []
    for _ in range(4000):
        history = random_history(random, random.randrange(2, 8))
        expected = is_linearizable(history, model, model.initial)
        outcomes.append(expected)
        verdict = check(history, model)
        assert (verdict.outcome == LINEARIZABLE) == expected, history
    assert min(outcomes.count(True), outcomes.count(False)) > 800
