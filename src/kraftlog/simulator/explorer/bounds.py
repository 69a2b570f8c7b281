"""How far the explorer looks."""

from __future__ import annotations

from kraftlog.value import Value

NODES = 3
#: What the nodes are called where people read.
NAMES = "ABC"
NOBODY_CRASHES = (0, 0, 0)


class Bound(Value):
    """Three nodes; at most one request and its answer under way from each node to each other."""

    name: str
    epochs: int = 2
    records: int = 1
    #: How often each node may crash; which node it is makes no difference.
    crashes: tuple[int, ...] = (0, 0, 1)
    #: Nodes ask before they stand (P1). Without, any node stands whenever it likes, as one does
    #: that a leaving leader has named (Q17): fewer messages, more freedom.
    asks_first: bool = False
    #: Nodes without a leader ask the others who leads (Q24).
    discovers: bool = False
    #: A request may arrive again, and once more after the next one: late, and out of order.
    repeats: bool = False
    #: Where the search gives up; one that does has been through all shorter runs.
    most_states: int = 20_000_000


#: What `make test` exhausts. CI exhausts the next part too: together they are all of bound A but
#: two epochs with a record *and* a crash.
QUICK = (
    Bound("one epoch, a record, a crash", epochs=1),
    Bound("two epochs, a record", crashes=NOBODY_CRASHES),
)
#: What lies beyond bound A is looked at up to so many states.
BEYOND = 3_000_000
#: What `make explore` searches.
PARTS = (
    *QUICK,
    Bound("two epochs, a crash", records=0),
    Bound("bound A: two epochs, a record, a crash"),
    Bound("one epoch, the pre-vote", epochs=1, records=0, crashes=NOBODY_CRASHES, asks_first=True),
    Bound("two epochs, looking for the leader", records=0, crashes=NOBODY_CRASHES, discovers=True),
    Bound(
        "one epoch, a crash, the pre-vote",
        epochs=1,
        records=0,
        asks_first=True,
        most_states=BEYOND,
    ),
    Bound("one epoch, a record, a crash, repeats", epochs=1, repeats=True, most_states=BEYOND),
    Bound("two epochs, two records", records=2, crashes=NOBODY_CRASHES, most_states=BEYOND),
    Bound("three epochs", epochs=3, records=0, crashes=NOBODY_CRASHES, most_states=BEYOND),
    Bound(
        "three epochs, two records, two crashes, repeats",
        epochs=3,
        records=2,
        crashes=(0, 1, 1),
        repeats=True,
        most_states=BEYOND,
    ),
)
