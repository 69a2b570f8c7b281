"""`TopicPattern`: which topics a regular expression matches, in time linear in their names.

The states of the automaton that have been reached are kept, so that a character usually costs one
look-up. A new state costs up to the number of instructions. Kept states are bounded; if they are
too many, all are forgotten.
"""

from __future__ import annotations

from kraftlog.groups.subscription_regex.classes import PERL_CLASSES
from kraftlog.groups.subscription_regex.parser import parse
from kraftlog.groups.subscription_regex.program import EDGE, MATCH, OTHER, WORD, Program
from kraftlog.steps import result_of
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

#: The instructions in all kept states; each takes some 40 bytes.
MAX_KEPT = 20_000
#: The cost of a step, in microseconds.
STEP_COST = 500

_CHARACTERS = [chr(code) for code in range(128)]
_KINDS = {char: WORD if PERL_CLASSES["w"] >> ord(char) & 1 else OTHER for char in _CHARACTERS}
#: Above this number of different classes, characters are not grouped.
_MAX_GROUPED = 100


class _State:
    """A set of instructions, before what is reached without a character, and what they follow."""

    __slots__ = ("before", "instructions", "matches", "next")

    def __init__(self, instructions: frozenset[int], before: int) -> None:
        self.instructions = instructions
        self.before = before
        self.next: dict[str, _State] = {}
        #: Whether a name that ends here matches; None: not known yet.
        self.matches: bool | None = None


class TopicPattern:
    """A regular expression; PatternError if it is not valid.

    Names are those of topics: other than ASCII characters match nothing.
    """

    __slots__ = ("_alike", "_kept", "_program", "_start", "_states", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._program = Program(parse(text))
        self._alike = _alike_characters(self._program)
        self._states: dict[tuple[frozenset[int], int], _State] = {}
        self._forget()

    def matches(self, name: str) -> bool:
        """Whether the whole name matches."""
        return bool(result_of(self.matching_in_steps((name,))))

    def matching_in_steps(self, names: Iterable[str]) -> Generator[int, None, list[str]]:
        """The names that match, in their order."""
        found: list[str] = []
        for step in self._names_in_steps(names):
            if isinstance(step, str):
                found.append(step)
            else:
                yield step
        return found

    def _names_in_steps(self, names: Iterable[str]) -> Generator[int | str, None, None]:
        """Yield each name that matches, and now and then a cost."""
        alike, cost = self._alike, 0
        for name in names:
            state = self._start
            for char in name:
                group = alike.get(char)
                following = state.next.get(group) if group is not None else None
                if following is None:
                    if group is None or not state.instructions:
                        break
                    following = self._follow(state, group)
                    cost += 2 + len(state.instructions) // 2
                    if cost >= STEP_COST:
                        yield cost
                        cost = 0
                state = following
            else:
                if self._is_match(state):
                    yield name
            cost += 1 + len(name) // 16
            if cost >= STEP_COST:
                yield cost
                cost = 0

    def _follow(self, state: _State, char: str) -> _State:
        """The state after one more character."""
        program, kind = self._program, _KINDS[char] if self._program.has_assertions else EDGE
        bit = 1 << ord(char)
        masks, next_of = program.masks, program.next_of
        reached = frozenset(
            [
                next_of(number)
                for number in program.reachable(state.instructions, state.before, kind)
                if masks[number] & bit
            ]
        )
        following = self._states.get((reached, kind))
        if following is None:
            following = _State(reached, kind)
            self._kept += 2 + len(reached)
            if self._kept > MAX_KEPT:
                self._forget()
            self._states[reached, kind] = following
        state.next[char] = following
        return following

    def _is_match(self, state: _State) -> bool:
        if state.matches is None:
            ended = self._program.reachable(state.instructions, state.before, EDGE)
            state.matches = MATCH in ended
        return state.matches

    def _forget(self) -> None:
        """Drop all states; one in use goes on to new ones."""
        for state in self._states.values():
            state.next = {}  # They refer to each other.
        self._kept = 0
        self._states = {}
        self._start = _State(frozenset({self._program.start}), EDGE)


def _alike_characters(program: Program) -> dict[str, str]:
    """For each character one that the expression cannot tell from it."""
    masks = set(program.masks)
    if program.has_assertions:
        masks.add(PERL_CLASSES["w"])
    if len(masks) > _MAX_GROUPED:
        return {char: char for char in _CHARACTERS}
    groups = [(1 << 128) - 1]
    for mask in masks:
        groups = [part for group in groups for part in (group & mask, group & ~mask) if part]
    first = {group: chr((group & -group).bit_length() - 1) for group in groups}
    return {
        char: first[group] for group in groups for char in _CHARACTERS if group >> ord(char) & 1
    }
