"""A voter change that an administrator requests."""

from __future__ import annotations

from kraftlog.logstate.voters import Voter
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from typing import Any


class VoterChange(Value):
    """A method of `RaftCore` that changes voters, and its argument.

    `kind` is the method's name, such as `add_voter` or `reassign`; `what` is a voter, the key of a
    voter, the ids of the target voters (None cancels the reassignment), or a kraft.version level.
    """

    kind: str
    what: Any

    def __str__(self) -> str:
        what = self.what
        if self.kind == "reassign":
            return (
                "cancel the reassignment" if what is None else f"move to {' '.join(map(str, what))}"
            )
        if self.kind == "raise_kraft_version":
            return f"raise kraft.version to {what}"
        who = what.key.id if isinstance(what, Voter) else what.id
        return f"{self.kind.partition('_')[0]} voter {who}"
