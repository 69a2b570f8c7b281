"""Keys of states, equal for states that differ only by the names of their nodes.

Nodes are sorted by their anonymous keys, whose only names are "this node" and "another node". Among
nodes with equal anonymous keys every order is tried, and the least key is used.
"""

from __future__ import annotations

from functools import cache
from operator import itemgetter
from struct import Struct

from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.explorer.bounds import NODES
from kraftlog_simulator.explorer.keys import node_key
from kraftlog_simulator.explorer.quorum import HISTORY, PLACE_OF, PLACES
from kraftlog_simulator.explorer.tables import RENAMINGS, Numbers

if TYPE_CHECKING:
    from typing import Any

    from kraftlog_simulator.explorer.keys import Names
    from kraftlog_simulator.explorer.quorum import Quorum, State


class Symmetry:
    """Computes the keys of a quorum's states: complete, not hashes, so that none collide."""

    def __init__(self, quorum: Quorum) -> None:
        self._quorum = quorum
        self._anonymous = _AnonymousKeys(quorum)
        size = len(quorum.first)
        self._pack = Struct(f"{size}I").pack
        self._renamings = [
            (
                itemgetter(*_order(names, size)),
                quorum.nodes.renamed[number],
                quorum.histories.renamed[number],
                quorum.messages.renamed[number].__getitem__,
            )
            for number, names in enumerate(RENAMINGS)
        ]

    def key(self, state: State) -> bytes:
        anonymous = self._anonymous
        a, b, c = state[:NODES]
        numbers = _in_order(anonymous[a], anonymous[b], anonymous[c])
        if len(numbers) == 1:
            return self._key(state, numbers[0])
        return min([self._key(state, number) for number in numbers])

    def _key(self, state: State, number: int) -> bytes:
        reorder, nodes, histories, message = self._renamings[number]
        a, b, c, history, *wire = reorder(state)
        return self._pack(nodes[a], nodes[b], nodes[c], histories[history], *map(message, wire))


class _AnonymousKeys(dict[int, int]):
    """Maps the number of a node to a number for its anonymous key."""

    def __init__(self, quorum: Quorum) -> None:
        super().__init__()
        self._nodes = quorum.nodes
        self._numbers = Numbers()

    def __missing__(self, number: int) -> int:
        node = self._nodes[number]
        names = tuple([int(node_id != node.id) for node_id in range(NODES)])
        anonymous = self[number] = self._numbers.of(node_key(node, (*names, -1)))
        return anonymous


@cache
def _in_order(*anonymous: int) -> list[int]:
    """The numbers of the renamings that sort nodes by these anonymous keys."""
    ordered = sorted(anonymous)
    return [
        number
        for number, names in enumerate(RENAMINGS)
        if all(ordered[names[node_id]] == anonymous[node_id] for node_id in range(NODES))
    ]


def _order(names: Names, size: int) -> list[int]:
    """For each position of a renamed state, the position of its content in the original."""
    old_position: dict[int, Any] = {names[node_id]: node_id for node_id in range(NODES)}
    old_position[HISTORY] = HISTORY
    for position, (source, target, kind) in PLACES.items():
        old_position[PLACE_OF[names[source], names[target], kind]] = position
    return [old_position[position] for position in range(size)]
