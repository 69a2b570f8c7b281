"""What ends a simulation early."""

from __future__ import annotations

#: Modules whose assertions say what must come of a scenario.
SCRIPTS = ("scenarios.py", "_scripts.py", "goals.py")


def is_of_script(error: Exception) -> bool:
    """Whether a script found something else than it expects; else the core or its host broke."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    where = "" if frame is None else frame.tb_frame.f_code.co_filename
    return isinstance(error, AssertionError) and where.endswith(SCRIPTS)


class Violation(Exception):  # noqa: N818 - an invariant is violated; nothing went wrong in the code that says so
    """`invariant` is the name of the property that does not hold."""

    def __init__(self, invariant: str, detail: str) -> None:
        super().__init__(f"{invariant}: {detail}")
        self.invariant = invariant
        self.detail = detail
