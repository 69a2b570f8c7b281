"""What ends a simulation early."""

from __future__ import annotations


class Violation(Exception):  # noqa: N818 - an invariant is violated; nothing went wrong in the code that says so
    """`invariant` is the name of the property that does not hold."""

    def __init__(self, invariant: str, detail: str) -> None:
        super().__init__(f"{invariant}: {detail}")
        self.invariant = invariant
        self.detail = detail
