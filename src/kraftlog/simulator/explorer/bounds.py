"""How far the explorer looks."""

from __future__ import annotations

from kraftlog.value import Value

NODES = 3


class Bound(Value):
    """Three nodes; at most one request and one answer under way in each direction of a pair."""

    name: str
    epochs: int = 2
    records: int = 1
    #: How often each node may crash; which node it is makes no difference.
    crashes: tuple[int, ...] = (0, 0, 1)
    #: Nodes ask before they stand (P1). Without, any node stands whenever it likes, as one does
    #: whom a leaving leader has named (Q17): fewer messages, more freedom.
    asks_first: bool = False
    #: Nodes without a leader ask the others who leads (Q24).
    discovers: bool = False
    #: A message may come twice, and one that is slower than its successor is not lost.
    reorders: bool = False


#: Bound A by its parts. `make test` exhausts the first ones, `make explore` searches them all.
PARTS = (
    Bound("elections: 2 epochs, a crash", records=0),
)
