"""Checks what the members of a consumer group saw: committed offsets, generations, assignments.

Every commit of a partition has its own offset, so a fetched offset identifies its commit. A commit
of unknown outcome may take effect at any later time.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

#: OffsetFetch returns this if no offset is committed.
NO_OFFSET = -1


class OffsetCommit:
    """A commit; `known_at` is when its effect was first known, None as long as it is unknown."""

    __slots__ = ("known_at", "sent_at")

    def __init__(self, sent_at: int) -> None:
        self.sent_at = sent_at
        self.known_at: int | None = None


class GroupHistory:
    """The history of one group.

    `fetched`, `joined` and `assigned` return a violation, or an empty text.
    """

    def __init__(self) -> None:
        #: By partition and offset.
        self._commits: dict[int, dict[int, OffsetCommit]] = {}
        #: The highest generation in which a member got its assignment.
        self.generation = 0
        #: By generation and partition: the member that has it.
        self._owners: dict[tuple[int, int], str] = {}

    def committing(self, partition: int, offset: int, now_ms: int) -> None:
        """A member sends the request to commit an offset."""
        self._commits.setdefault(partition, {})[offset] = OffsetCommit(now_ms)

    def committed(self, partition: int, offset: int, now_ms: int) -> None:
        """A commit has taken effect: it was acknowledged, or its offset was fetched."""
        commit = self._commits[partition][offset]
        if commit.known_at is None:
            commit.known_at = now_ms

    def fetched(self, partition: int, offset: int, sent_ms: int, now_ms: int) -> str:
        """An offset was fetched: no commit may have replaced it before the request was sent."""
        commits = self._commits.get(partition, {})
        fetched = commits.get(offset)
        if fetched is None and offset != NO_OFFSET:
            return f"offset {offset} of partition {partition} was never committed"
        for other_offset, other in commits.items():
            was_known = other.known_at is not None and other.known_at < sent_ms
            if was_known and (
                fetched is None
                or (fetched.known_at is not None and fetched.known_at < other.sent_at)
            ):
                return (
                    f"partition {partition} has offset {offset} after {other_offset} was committed"
                )
        if fetched is not None:
            self.committed(partition, offset, now_ms)
        return ""

    def joined(self, generation: int, lowest: int) -> str:
        """A member joined; `lowest` was the group's generation when it sent the request."""
        if generation < lowest:
            return f"generation {generation} after {lowest}"
        return ""

    def assigned(self, member: str, generation: int, partitions: Sequence[int]) -> str:
        """A member got its assignment, so the generation is in the log."""
        self.generation = max(self.generation, generation)
        for partition in partitions:
            owner = self._owners.setdefault((generation, partition), member)
            if owner != member:
                return f"{owner} and {member} have partition {partition} in generation {generation}"
        return ""
