"""The states of a group and the one table of legal steps between them.

Empty: no members; it lingers while it has offsets. PreparingRebalance: waits for all members to
join. CompletingRebalance: waits for the leader's assignment. Stable: everybody has theirs. Dead:
its end is being written; should that fail, it is Empty again.
"""

from __future__ import annotations


class GroupState:
    """The names that clients see; plain strings, as they travel on the wire."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


#: From which states one may be entered.
MAY_FOLLOW: dict[str, frozenset[str]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING, GroupState.DEAD}),
    GroupState.PREPARING: frozenset({GroupState.STABLE, GroupState.COMPLETING, GroupState.EMPTY}),
    GroupState.COMPLETING: frozenset({GroupState.PREPARING}),
    GroupState.STABLE: frozenset({GroupState.COMPLETING}),
    GroupState.DEAD: frozenset(
        {GroupState.EMPTY, GroupState.PREPARING, GroupState.COMPLETING, GroupState.STABLE}
    ),
}
