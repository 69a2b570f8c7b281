"""Numbers for the parts of states, so that each computation is done once.

Things with equal keys have the same number. The number of a thing whose nodes are renamed is
computed on demand.
"""

from __future__ import annotations

from itertools import permutations

from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.explorer.bounds import NODES

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog_simulator.explorer.keys import Names

#: All permutations of the nodes, the identity first. Each ends with -1, so that -1, which stands
#: for no node, maps to itself.
RENAMINGS: tuple[Names, ...] = tuple([(*names, -1) for names in permutations(range(NODES))])
IDENTITY = RENAMINGS[0]


class Numbers:
    """A number from 1 on for each key, in the order of first use."""

    def __init__(self) -> None:
        self._known: dict[Any, int] = {}

    def of(self, key: Any) -> int:
        return self._known.setdefault(key, len(self._known) + 1)


class Table:
    """A number for each node, message or history that has occurred; 0 is none."""

    def __init__(self, make_key: Callable[[Any, Names], Any]) -> None:
        self._make_key = make_key
        self._numbers = Numbers()
        renamed_numbers = Numbers()
        self.things: list[Any] = [None]
        #: For each renaming: a map from the number of a thing to the renamed number of the renamed
        #: thing. Renamed numbers are equal for equal things, but differ from those of `number`.
        self.renamed = [
            _Renamed(self.things, make_key, names, renamed_numbers) for names in RENAMINGS
        ]

    def number(self, thing: Any, owner: int = -1) -> int:
        """The number of a thing; `owner` distinguishes equal things of different nodes."""
        number = self._numbers.of((owner, self._make_key(thing, IDENTITY)))
        if number == len(self.things):
            self.things.append(thing)
        return number

    def __getitem__(self, number: int) -> Any:
        return self.things[number]

    def __len__(self) -> int:
        return len(self.things)


class _Renamed(dict[int, int]):
    """Maps the number of a thing to the renamed number of that thing with its nodes renamed."""

    def __init__(
        self,
        things: list[Any],
        make_key: Callable[[Any, Names], Any],
        names: Names,
        numbers: Numbers,
    ) -> None:
        super().__init__({0: 0})
        self._things = things
        self._make_key = make_key
        self._names = names
        self._numbers = numbers

    def __missing__(self, number: int) -> int:
        renamed = self._numbers.of(self._make_key(self._things[number], self._names))
        self[number] = renamed
        return renamed
