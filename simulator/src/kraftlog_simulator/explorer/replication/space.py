"""The cluster as the search sees it: states, their keys, and paths as text."""

from __future__ import annotations

from struct import Struct

from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.explorer.replication.cluster import Cluster
from kraftlog_simulator.explorer.replication.trace import trace_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kraftlog_simulator.explorer.replication.bounds import Bound
    from kraftlog_simulator.explorer.replication.cluster import Move, State


class ReplicationSpace(Cluster):
    def __init__(self, bound: Bound) -> None:
        super().__init__(bound)
        self.max_states = bound.max_states
        self._pack = Struct(f"{len(self.first)}I").pack

    def key(self, state: State) -> bytes:
        return self._pack(*state)

    def is_within(self, _: State) -> bool:
        """Always: the number of each kind of event is bounded instead."""
        return True

    def trace_lines(self, path: Sequence[Move], broken: str) -> Iterator[str]:
        return trace_lines(self, path, broken)
