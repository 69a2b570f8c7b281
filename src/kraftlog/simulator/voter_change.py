"""A voter change that an administrator requests."""

from __future__ import annotations

from kraftlog.logstate.voters import Voter
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from typing import Any


class VoterChange(Value):
    """A voter change.

    `kind` is the method of `RaftCore` that makes it, such as `add_voter` or `reassign`; `what` is
    its argument: a voter, its key, or target ids (None cancels).
    """

    kind: str
    what: Any

    def __str__(self) -> str:
        what = self.what
        if self.kind == "reassign":
            return (
                "cancel the reassignment" if what is None else f"move to {' '.join(map(str, what))}"
            )
        who = what.key.id if isinstance(what, Voter) else what.id
        return f"{self.kind.partition('_')[0]} voter {who}"
