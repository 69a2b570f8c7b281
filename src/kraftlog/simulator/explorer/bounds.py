"""The bounds of the explorer."""

from __future__ import annotations

from kraftlog.value import Value

NODES = 3
#: The names of the nodes in reports.
NAMES = "ABC"
NOBODY_CRASHES = (0, 0, 0)


class Bound(Value):
    """Three nodes; each has at most one request and response in flight with each other."""

    name: str
    epochs: int = 2
    records: int = 1
    #: How often each node may crash; which node it is makes no difference.
    crashes: tuple[int, ...] = (0, 0, 1)
    #: Nodes campaign only after a pre-vote (P1). Without it any node may campaign at any time, as a
    #: named successor may (Q17): fewer messages and more transitions.
    asks_first: bool = False
    #: Nodes without a leader fetch from the others to find it (Q24).
    discovers: bool = False
    #: A request may arrive a second time, after the next one: late and out of order.
    repeats: bool = False
    #: The limit of the search, which has visited all shorter runs by then.
    most_states: int = 20_000_000


#: `make test` exhausts this. CI exhausts the next two parts too: together they are all of bound A
#: except two epochs with a record *and* a crash.
QUICK = (Bound("one epoch, a record, a crash", epochs=1),)
#: How many states beyond bound A are visited.
BEYOND = 3_000_000
#: `make explore` searches these.
PARTS = (
    *QUICK,
    Bound("two epochs, a record, no crash", crashes=NOBODY_CRASHES),
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
