"""Runs mutants in forks of a process that has loaded the product, and for tests also the tests.

    python -m tests.mutants.warm [TEST ...]     the names of mutants are its input

For each name it prints a line: a JSON list of the exit code of `mutant.main`, or of its run of the
mutant's test, and the output. The code is NOT_IN_PLACE if the mutant needs a process of its own.
A fork copies only the thread that forks, so there must be no other.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import traceback
from functools import partial
from importlib import import_module
from pkgutil import walk_packages
from typing import TYPE_CHECKING, Self, TextIO

import pytest
from _pytest.runner import runtestprotocol

from tests import in_place
from tests.altered import AlteredFinder, Change
from tests.killing import Notes
from tests.mutants import MUTANTS, Mutant
from tests.mutants.mutant import by_runs, verdict

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

HERE = os.path.dirname(__file__)
ROOT = os.path.dirname(os.path.dirname(HERE))
#: The exit code for a mutant that changes more than functions. Python itself ends with 1 or 2.
NOT_IN_PLACE = 3
#: Runs if no name is given: a run of the product as it is, or the first test of each file. As none
#: of them fails, the exit code is 1.
UNCHANGED = Mutant("nothing", Change("kraftlog.raft.core:", ""), run="mixture 1")
#: What is loaded for the runs: the product imports some of its modules only when it needs them.
PLAYED = (
    "kraftlog_simulator",
    "kraftlog.node",
    "kraftlog.controller",
    "kraftlog.replication",
    "kraftlog.groups",
    "kraftlog.runner",
)


class WarmProcess:
    """The process that forks; with `tests`, it runs mutants by those tests, else by runs."""

    def __init__(self, *tests: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.mutants.warm", *tests],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.communicate()

    def run(self, name: str, limit_s: float) -> tuple[int, str]:
        """The exit code and the output of the mutant's run or test."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(limit_s, name, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        assert answer, f"the process ended with {self._process.wait()}"
        code, output = json.loads(answer)
        return code, output


def main(tests: list[str]) -> int:
    # Whatever else is printed here or by pytest goes elsewhere.
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        if tests:
            return int(pytest.main(["-q", "-s", *tests], plugins=[Tests(answers)]))
        for package in map(import_module, PLAYED):
            for module in walk_packages(package.__path__, f"{package.__name__}."):
                import_module(module.name)
        serve(by_runs, answers)
    return 0


class Tests:
    """A plugin of pytest: runs the collected tests of each mutant instead of all tests once."""

    def __init__(self, answers: TextIO) -> None:
        self.answers = answers

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:  # during the collection
            raise session.Interrupted("a test can't be collected")

        def run(mutant: Mutant) -> int:
            notes = Notes()
            session.config.pluginmanager.register(notes)
            items = [item for item in session.items if belongs(item, mutant.test)]
            if mutant is UNCHANGED:
                items = list({item.path: item for item in reversed(items)}.values())
            ran = False
            for item in items:
                reports = runtestprotocol(item, log=False, nextitem=None)
                ran |= any(report.when == "call" and not report.skipped for report in reports)
                if notes.killers:
                    break
            assert ran or notes.killers, f"{mutant.test} did not run"
            return verdict(mutant, notes.killers)

        serve(run, self.answers)
        return True


def belongs(item: pytest.Item, test: str) -> bool:
    """Whether the item is this test, one of its cases, or a test of this file."""
    return test in {"", item.nodeid} or item.nodeid.startswith((f"{test}[", f"{test}::"))


def serve(run: Callable[[Mutant], int], answers: TextIO) -> None:
    """Answer each line of the input: run the mutant in a fork in which it replaces the original."""

    def run_mutant(name: str) -> int:
        if not name:
            return run(UNCHANGED)
        mutant = MUTANTS[name]
        module, alter = mutant.change.module, mutant.change.altered
        if loaded := sys.modules.get(module):
            in_place.replace(loaded, alter)
        else:
            sys.meta_path.insert(0, AlteredFinder(module, alter))
        code = run(mutant)
        assert module in sys.modules, f"nothing uses {module}"
        return code

    for line in sys.stdin:
        limit_s, name = line.rstrip("\n").split(" ")
        outcome = in_child(partial(run_mutant, name), float(limit_s))
        print(json.dumps(outcome), file=answers, flush=True)


def in_child(run: Callable[[], int], limit_s: float) -> tuple[int, str]:
    """The exit code and the output of a fork; a signal that ended it is a negative exit code."""
    assert threading.active_count() == 1
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 2
        try:
            signal.setitimer(signal.ITIMER_REAL, limit_s)
            os.dup2(writing, 1)
            os.dup2(writing, 2)
            code = run()
        except in_place.NotInPlaceError as refusal:
            print(refusal)
            code = NOT_IN_PLACE
        except BaseException:  # whatever it is, this copy of the process ends here
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, errors="replace") as pipe:
        output = pipe.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), output


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
