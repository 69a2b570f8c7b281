"""Follows what an archive has recorded in its commits, from one batch to the next."""

from __future__ import annotations

from typing import Any

State = dict[str, Any]


class StateChain:
    """The states that commits have recorded, in order; `damage` gets a sentence for each gap."""

    def __init__(self, damage: list[str]) -> None:
        self._damage = damage
        self._states: list[State] = []

    @property
    def newest(self) -> State:
        """The last state; empty if there is none."""
        return self._states[-1] if self._states else {}

    def follow(self, state: State, commit: str) -> None:
        """Check that a batch begins where the one before it ended; `commit` names it.

        Commits that only merge files or add columns repeat the state before them.
        """
        ends = state.get("offsets", {})
        ranges = state.get("ranges", {})
        wrong_ends = [key for key, (_, end) in ranges.items() if ends.get(key, end) != end]
        before = self.newest
        if state == before:
            return
        expected = before.get("offsets", {})
        if before.get("topicId", state.get("topicId")) != state.get("topicId"):
            self._damage.append(f"{commit} is of another topic id than the one before it")
        for key, (start, _) in ranges.items():
            if expected.get(key, start) != start:
                self._damage.append(
                    f"{commit} begins at offset {start} of partition {key}, but the commit "
                    f"before it ended at {expected[key]}"
                )
        for key in wrong_ends:
            self._damage.append(
                f"{commit} says that partition {key} ends at {ends[key]} and at {ranges[key][1]}"
            )
        self._states.append(state)

    def archived(self) -> dict[int, tuple[int, int]]:
        """The archived offsets of each partition; older commits may have been cleaned up.

        Whatever is between where one commit and a later one end was archived, even if the commit
        that did it is lost.
        """
        spans = [
            (int(key), start, end)
            for state in self._states
            for key, (start, end) in state.get("ranges", {}).items()
        ]
        ranged = {key for key, _, _ in spans}
        for state in self._states:
            ends = {int(key): end for key, end in state.get("offsets", {}).items()}
            spans += [(key, end, end) for key, end in ends.items() if key in ranged]
        archived: dict[int, tuple[int, int]] = {}
        for key, start, end in spans:
            old_start, old_end = archived.get(key, (start, end))
            archived[key] = (min(old_start, start), max(old_end, end))
        return archived
