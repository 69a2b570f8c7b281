"""Assignors of users: what they return is checked, and all their errors are AssignorErrors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.groups.assignors.interface import AssignorError
from kraftlog.groups.assignors.own import checked
from kraftlog.steps import result_of
from tests.groups.assignors.test_uniform import T1, T2, by_name, member, subscribed

if TYPE_CHECKING:
    from collections.abc import Iterator

MEMBERS = by_name(member("a", T1), member("b", T1))


def run(function: Any) -> Any:
    return result_of(checked("mine", function)(MEMBERS, subscribed(t1=3)))


def test_a_function_assigns() -> None:
    def by_parity(members: Any, topics: Any) -> Any:
        count = topics.partition_count(T1)
        return {
            name: {T1: range(position, count, 2)} for position, name in enumerate(sorted(members))
        }

    assert run(by_parity) == {"a": {T1: frozenset({0, 2})}, "b": {T1: frozenset({1})}}


def test_a_generator_assigns_in_steps() -> None:
    def slow(members: Any, topics: Any) -> Iterator[int]:
        yield 1_000
        yield 500
        return {"a": {T1: [0, 1, 2]}, "b": {T1: []}}  # type: ignore[return-value]  # a user's

    steps = checked("mine", slow)(MEMBERS, subscribed(t1=3))
    assert [next(steps), next(steps)] == [1_000, 500]
    assert result_of(steps) == {"a": {T1: frozenset({0, 1, 2})}, "b": {}}


WRONG = {
    "partition 1 of .* is given to two members": {"a": {T1: [0, 1]}, "b": {T1: [1, 2]}},
    "'c', which is not a member": {"c": {T1: [0]}},
    "to which it does not subscribe": {"a": {T2: [0]}},
    "has no partition 3, only 3": {"a": {T1: [3]}},
    "has no partition -1": {"a": {T1: [-1]}},
    "has no partition True": {"a": {T1: [True]}},
    "assignor mine: AttributeError": None,
    "assignor mine: TypeError": {"a": {T1: 5}},
}


@pytest.mark.parametrize("message", WRONG, ids=range(len(WRONG)))
def test_wrong_results_are_refused(message: str) -> None:
    with pytest.raises(AssignorError, match=message):
        run(lambda *_: WRONG[message])


def test_an_exception_of_the_function_names_the_assignor() -> None:
    with pytest.raises(AssignorError, match=r"^assignor mine: ZeroDivisionError: division by zero"):
        run(lambda *_: 1 / 0)
