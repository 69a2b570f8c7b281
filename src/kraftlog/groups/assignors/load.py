"""The most and the least loaded subscribers of a topic, while partitions move between them.

Both go over members in rounds, level by level, so that no member gets or gives a second partition
before the others of its level. The caller changes the sizes between two calls of `next`.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class LeastLoaded:
    """Members to which to give the next partition; each has one more at the next call."""

    __slots__ = ("_end", "_index", "_members", "_sizes", "level")

    def __init__(self, sizes: Sequence[int], by_load: Sequence[int]) -> None:
        self._sizes = sizes
        self._members = by_load
        #: The round goes over the members before `_end`, which all have `level` at its start.
        self._end = self._index = 0
        self.level = sizes[by_load[0]] - 1

    def next(self) -> int:
        if self._index >= self._end:
            self.level += 1
            members, sizes = self._members, self._sizes
            while self._end < len(members) and sizes[members[self._end]] == self.level:
                self._end += 1
            self._index = 0
        self._index += 1
        return self._members[self._index - 1]


class MostLoaded:
    """Members from which to take the next partition; each has one less at the next call.

    Members that hold none of the topic's partitions are left out.
    """

    __slots__ = ("_end", "_held", "_index", "_members", "_sizes", "_start", "level")

    def __init__(
        self,
        sizes: Sequence[int],
        by_load: Iterable[int],
        held: Mapping[int, Sequence[int]],
    ) -> None:
        self._sizes = sizes
        self._members = list(by_load)
        self._held = held
        #: The round goes backwards over the members from `_start` to `_end`.
        self._start = self._end = len(self._members)
        self._index = self._end - 1
        self.level = sizes[self._members[-1]] + 1

    def next(self) -> int | None:
        """The member, or None if no subscriber holds a partition any more."""
        while True:
            if self._index < self._start:
                self._begin_round()
            if self._index < 0:
                return None
            member = self._members[self._index]
            if self._held.get(member):
                self._index -= 1
                return member
            # The last of the round takes its place; this changes the order of the next round.
            self._end -= 1
            self._members[self._index] = self._members[self._end]
            self._index -= 1

    def _begin_round(self) -> None:
        members, sizes = self._members, self._sizes
        if self._end <= self._start and self._start > 0:
            self.level = sizes[members[self._start - 1]]
        else:
            self.level -= 1
        while self._start > 0 and sizes[members[self._start - 1]] == self.level:
            self._start -= 1
        self._index = self._end - 1
