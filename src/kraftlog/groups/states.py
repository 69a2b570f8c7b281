"""The states of a group and the one table of legal steps between them.

Empty: no members; it lingers while it has offsets. PreparingRebalance: waits for all members to
join. CompletingRebalance: waits for the leader's assignment. Stable: everybody has theirs. Dead:
its end is being written; should that fail, it is Empty again.
"""

from __future__ import annotations


class State:
    """The names that clients see; plain strings, as they travel on the wire."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


#: From which states one may be entered.
MAY_FOLLOW: dict[str, frozenset[str]] = {
    State.EMPTY: frozenset({State.PREPARING, State.DEAD}),
    State.PREPARING: frozenset({State.STABLE, State.COMPLETING, State.EMPTY}),
    State.COMPLETING: frozenset({State.PREPARING}),
    State.STABLE: frozenset({State.COMPLETING}),
    State.DEAD: frozenset({State.EMPTY, State.PREPARING, State.COMPLETING, State.STABLE}),
}
