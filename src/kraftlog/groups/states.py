"""The states of a group and the legal transitions between them.

Empty: no members; kept while it has offsets. PreparingRebalance: waits for all members to join.
CompletingRebalance: waits for the leader's assignment. Stable: all members have assignments. Dead:
the group was dropped, or its tombstone is being written; if that fails, the group is Empty again.
"""

from __future__ import annotations


class GroupState:
    """State names as clients see them."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


#: The states from which each state may be entered.
VALID_PREVIOUS_STATES: dict[str, frozenset[str]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING, GroupState.DEAD}),
    GroupState.PREPARING: frozenset({GroupState.STABLE, GroupState.COMPLETING, GroupState.EMPTY}),
    GroupState.COMPLETING: frozenset({GroupState.PREPARING}),
    GroupState.STABLE: frozenset({GroupState.COMPLETING}),
    GroupState.DEAD: frozenset(
        {GroupState.EMPTY, GroupState.PREPARING, GroupState.COMPLETING, GroupState.STABLE}
    ),
}
