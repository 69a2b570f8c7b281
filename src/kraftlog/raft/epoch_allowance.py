"""How far requests of others may raise this replica's epoch (Q2).

Epochs end at 2^31-1, and any client that reaches a controller may name any epoch in a Vote.
So requests raise the epoch no faster than elections do. What is refused is not lost: a replica that
was away learns the epoch from the responses to its own requests, which are not limited, because it
sends them to the controllers that it knows. Its allowance grows as long as it runs, and so catches
up with a voter whose epoch is ahead.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from kraftlog.types import Now

#: The epochs that requests may add after the start, and in each second; elections take longer.
#: The last epoch is then more than six years away.
INITIAL_EPOCHS, EPOCHS_PER_S = 1000, 10


class EpochAllowance(Value):
    """The number of epochs that requests may add, as of a time."""

    epochs: int
    as_of_ms: int

    def without(self, count: int, now: Now) -> EpochAllowance | None:
        """The allowance after a request has added `count` epochs; None if that is too many."""
        earned = (now.monotonic_ms - self.as_of_ms) * EPOCHS_PER_S // 1000
        left = self.epochs + earned - count
        if left < 0:
            return None
        return EpochAllowance(left, self.as_of_ms + earned * 1000 // EPOCHS_PER_S)
