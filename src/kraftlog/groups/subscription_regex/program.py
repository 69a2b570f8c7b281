"""The instructions of a regular expression: a nondeterministic automaton."""

from __future__ import annotations

from kraftlog.groups.subscription_regex.syntax import (
    BEGIN,
    BOUNDARY,
    END,
    Alternate,
    Assertion,
    Characters,
    Concat,
    Node,
    Repeat,
)
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: Kinds of neighbours: nothing, a character of words (as Perl's \w), another character.
EDGE, WORD, OTHER = range(3)

MATCH = 0


class Program:
    """Instructions, by number: each has a class, an assertion, or several that come next."""

    __slots__ = ("_assertions", "_following", "has_assertions", "masks", "start")

    def __init__(self, tree: Node) -> None:
        #: For each instruction the class of characters that it takes; 0 if it takes none.
        self.masks: list[int] = [0]
        #: What comes next; of a choice, all of it.
        self._following: list[Sequence[int]] = [()]
        self._assertions: dict[int, int] = {}
        self.start = self._add(tree, MATCH)
        self.has_assertions = bool(self._assertions)

    def _add(self, node: Node, then: int) -> int:
        """Add the instructions of a part before those at `then`; return the first."""
        if isinstance(node, Characters):
            return self._instruction(node.mask, (then,)) if node.mask else self._choice(())
        if isinstance(node, Assertion):
            number = self._choice((then,))
            self._assertions[number] = node.kind
            return number
        if isinstance(node, Concat):
            for part in reversed(node.parts):
                then = self._add(part, then)
            return then
        if isinstance(node, Alternate):
            return self._choice([self._add(part, then) for part in node.parts])
        assert isinstance(node, Repeat)
        return self._repeat(node, then)

    def _repeat(self, node: Repeat, then: int) -> int:
        if node.most is None:
            loop = self._choice(())
            self._following[loop] = (self._add(node.part, loop), then)
            then = loop
        else:
            end = then
            for _ in range(node.most - node.least):
                then = self._choice((self._add(node.part, then), end))
        for _ in range(node.least):
            then = self._add(node.part, then)
        return then

    def _choice(self, following: Sequence[int]) -> int:
        return self._instruction(0, following)

    def _instruction(self, mask: int, following: Sequence[int]) -> int:
        self.masks.append(mask)
        self._following.append(following)
        return len(self.masks) - 1

    def next_of(self, number: int) -> int:
        """What comes after an instruction that takes a character."""
        return self._following[number][0]

    def reachable(self, numbers: Iterable[int], before: int, after: int) -> set[int]:
        """All that are reached without taking a character, between two kinds of neighbours."""
        masks, following, assertions = self.masks, self._following, self._assertions
        seen = set(numbers)
        waiting = list(seen)
        while waiting:
            number = waiting.pop()
            if masks[number] or (
                number in assertions and not holds(assertions[number], before, after)
            ):
                continue
            for each in following[number]:
                if each not in seen:
                    seen.add(each)
                    waiting.append(each)
        return seen


def holds(kind: int, before: int, after: int) -> bool:
    """Whether an assertion holds between two kinds of neighbours."""
    if kind == BEGIN:
        return before == EDGE
    if kind == END:
        return after == EDGE
    is_boundary = (before == WORD) != (after == WORD)
    return is_boundary if kind == BOUNDARY else not is_boundary
