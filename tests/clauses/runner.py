"""Deletes clauses one by one from the loaded modules, and runs tests against the result.

All tests are collected once. For each clause a child process is forked, in which the functions of
its module get the code of the altered text, and the chosen tests run. So a clause costs only the
time of its tests.
"""

from __future__ import annotations

import json
import os
import signal
from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.runner import runtestprotocol

from tests.killing import Killer, Notes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import ModuleType

    from tests.altered import Change
    from tests.clauses import Clause

#: The time limit of a clause's tests; a deleted clause may leave an endless loop.
LIMIT_S = 120
#: Stands for the exception in a `Killer` if the time limit has ended the child process.
NO_END = "no end"
#: The types of module and class attributes that are replaced besides functions.
VALUE_TYPES = (int, str, bytes, tuple, dict, frozenset, set)


class ClauseRunner:
    """A plugin of pytest: runs some of the tests for each clause instead of all once.

    `choose` returns, for a clause and the ids of all tests, lists of tests to run in turn until one
    of them fails.
    """

    def __init__(
        self,
        clauses: Sequence[Clause],
        choose: Callable[[Clause, list[str]], Iterator[list[str]]],
        judge: Callable[[Clause, list[Killer]], bool],
        *,
        runs_all: bool = True,
    ) -> None:
        """Without `runs_all`, the tests of a clause end with the first one that fails."""
        self.clauses = clauses
        self.choose = choose
        self.judge = judge
        self.runs_all = runs_all

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:  # during the collection
            raise session.Interrupted("a test can't be collected")
        items = {item.nodeid: item for item in session.items}
        for clause in self.clauses:
            killers: list[Killer] = []
            for ids in self.choose(clause, list(items)):
                chosen = [items[id_] for id_ in ids]
                killers = _run_in_child(session, clause, chosen, runs_all=self.runs_all)
                if any(not killer.bare for killer in killers):
                    break
            self.judge(clause, killers)
        return True


def _run_in_child(
    session: pytest.Session, clause: Clause, items: list[pytest.Item], *, runs_all: bool
) -> list[Killer]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        signal.alarm(LIMIT_S)
        try:
            notes = Notes()
            session.config.pluginmanager.register(notes)
            assert clause.change is not None
            apply(clause.change)
            for item in items:
                runtestprotocol(item, log=False, nextitem=None)
                if not runs_all and any(not Killer(*it).bare for it in notes.killers):
                    break
            with os.fdopen(writing, "w") as pipe:
                json.dump(notes.killers, pipe)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        output = pipe.read()
    os.waitpid(child, 0)
    if not output:
        return [Killer(items[0].nodeid, NO_END)] if items else []
    return [Killer(*killer) for killer in json.loads(output)]


def apply(change: Change) -> None:
    """Replace the code of the loaded functions with that of the altered text."""
    module = import_module(change.module)
    fresh: dict[str, Any] = {"__name__": change.module, "__file__": module.__file__}
    code = compile(change.altered_file(), str(module.__file__), "exec", dont_inherit=True)
    exec(code, fresh)
    _replace_code(module, vars(module), fresh, change.module)


def _replace_code(owner: ModuleType | type, old: Any, fresh: dict[str, Any], module: str) -> None:
    for name, new in list(fresh.items()):
        before = old.get(name)
        if isinstance(new, type) and new.__module__ == module:
            _replace_code(before, vars(before), dict(vars(new)), module)
        elif (function := _function_of(new)) is not None and function.__module__ == module:
            old_function = _function_of(before)
            assert old_function is not None, f"{module}: {name} was no function"
            old_function.__code__ = function.__code__
        elif isinstance(new, VALUE_TYPES) and not name.startswith("__") and new != before:
            setattr(owner, name, new)


def _function_of(member: Any) -> FunctionType | None:
    if isinstance(member, property):
        member = member.fget
    member = getattr(member, "__func__", member)
    return member if isinstance(member, FunctionType) else None
