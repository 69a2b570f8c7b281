"""The exception that ends a simulation early."""

from __future__ import annotations

#: The file name endings of the modules that assert the expected course of a scenario.
SCRIPTS = ("scenarios.py", "catalog.py", "goals.py")


def is_failed_expectation(error: Exception) -> bool:
    """Whether an assertion of a script failed; otherwise the core or its host failed."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    where = "" if frame is None else frame.tb_frame.f_code.co_filename
    return isinstance(error, AssertionError) and where.endswith(SCRIPTS)


class Violation(Exception):  # noqa: N818 - it reports a violated invariant, not an error of the code that raises it
    """An invariant is violated; `invariant` is its name."""

    def __init__(self, invariant: str, detail: str) -> None:
        # Both arguments, so that a copy can be made of it: runs in other processes report it.
        super().__init__(invariant, detail)
        self.invariant = invariant
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.invariant}: {self.detail}"
