"""The quorum as the search sees it: states, their keys, and paths as text."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.explorer.quorum import Quorum
from kraftlog_simulator.explorer.symmetry import Symmetry
from kraftlog_simulator.explorer.trace import trace_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kraftlog_simulator.explorer.bounds import Bound
    from kraftlog_simulator.explorer.quorum import Move


class QuorumSpace(Quorum):
    def __init__(self, bound: Bound) -> None:
        super().__init__(bound)
        self.max_states = bound.max_states
        self.key = Symmetry(self).key

    def trace_lines(self, path: Sequence[Move], broken: str) -> Iterator[str]:
        return trace_lines(self, path, broken)
