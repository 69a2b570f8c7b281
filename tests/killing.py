"""Runs tests against a changed module, and returns those that fail.

A test detects the change by an assertion, by an expected exception that is missing, by a violation
that a simulated world reports, or by an error in its own code. A bare exception from within the
product is marked: it may have any cause.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.altered import AlteredFinder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

HERE = os.path.dirname(__file__)
ROOT = os.path.dirname(HERE)


class Killer(NamedTuple):
    """A test that failed; `bare` is the name of an exception that the product's code raised."""

    test: str
    bare: str = ""


class Notes:
    """A plugin that records the failed tests and their causes."""

    def __init__(self) -> None:
        self.killers: list[Killer] = []
        self.calls = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.calls += report.when == "call"

    def pytest_exception_interact(
        self,
        node: pytest.Item | pytest.Collector,
        call: pytest.CallInfo[None],
        report: object,  # noqa: ARG002 - a hook's arguments are matched by name
    ) -> None:
        assert call.excinfo is not None, "pytest calls this hook only with an exception"
        error = call.excinfo.value
        # If a script's assertion fails, a simulated world raises a Violation `from` it.
        error = error.__cause__ or error
        name = type(error).__name__
        is_from_test = traceback.extract_tb(error.__traceback__)[-1].filename.startswith(HERE)
        is_detected = is_from_test or name in {"Failed", "Violation"}
        self.killers.append(Killer(node.nodeid, "" if is_detected else name))


def killers(
    module: str, alter: Callable[[str], str], tests: Sequence[str], *, first: bool = True
) -> list[Killer]:
    """The tests that fail with the changed `module`; with `first`, at most one.

    They run in a forked child process, which must import the changed module for the first time; so
    this process must not have imported kraftlog.
    """
    assert "kraftlog" not in sys.modules, "the child would inherit the loaded module"
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        with os.fdopen(writing, "w") as pipe:
            json.dump(_run_tests(module, alter, tests, first=first), pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        outcome = pipe.read()
    os.waitpid(child, 0)
    assert outcome, f"the process that tested the changed {module} ended without a result"
    result = json.loads(outcome)
    if isinstance(result, str):
        raise ValueError(result)
    return [Killer(*killer) for killer in result]


def _run_tests(
    module: str, alter: Callable[[str], str], tests: Sequence[str], *, first: bool
) -> list[Killer] | str:
    """Runs in the child. Returns the failed tests, or a text: why there is no result."""
    sys.meta_path.insert(0, AlteredFinder(module, alter))
    devnull = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(devnull, stream)
    os.chdir(ROOT)
    notes = Notes()
    options = ["-q", "-p", "no:cacheprovider", *(["-x"] if first else [])]
    code = pytest.main([*options, *tests], plugins=[notes])
    if module not in sys.modules and not notes.killers:
        return f"{', '.join(tests)}: {module} is not used there (pytest ended with {int(code)})"
    if not notes.calls and not notes.killers:
        return f"{', '.join(tests)}: no test ran (pytest ended with {int(code)})"
    return notes.killers
