"""The bounds of the explorer."""

from __future__ import annotations

from kraftlog.value import Value

NODES = 3
#: The names of the nodes in reports.
NAMES = "ABC"
NO_CRASHES = (0, 0, 0)


class Bound(Value):
    """The limits of a search of three nodes; each has one request in flight to each other."""

    name: str
    epochs: int = 2
    #: The records that are appended besides those with which leaders begin.
    records: int = 1
    #: How often each node may crash; the order makes no difference, as all nodes are alike.
    crashes: tuple[int, ...] = (0, 0, 1)
    #: Whether nodes campaign only after a pre-vote (P1). Otherwise any node may campaign at any
    #: time, as a named successor may (Q17), which needs fewer messages and allows more transitions.
    has_pre_vote: bool = False
    #: Whether nodes without a leader fetch from the others to find the leader (Q24).
    finds_leader: bool = False
    #: Whether a request may be delivered twice, the second time after the next request: late and
    #: out of order.
    duplicates: bool = False
    #: The search ends after this many states: it is breadth first, so all shorter runs are visited.
    max_states: int = 20_000_000


#: `make test` exhausts this bound. CI exhausts the next two of BOUNDS as well. Bound A is two
#: epochs, a record and a crash; the three together are all of it except a record *and* a crash in
#: two epochs.
QUICK = (Bound("one epoch, a record, a crash", epochs=1),)
#: The `max_states` of bounds that may be too large to exhaust.
MAX_STATES_BEYOND_A = 3_000_000
#: `make explore` searches these.
BOUNDS = (
    *QUICK,
    Bound("two epochs, a record, no crash", crashes=NO_CRASHES),
    Bound("two epochs, a crash", records=0),
    Bound("bound A: two epochs, a record, a crash"),
    Bound("one epoch, the pre-vote", epochs=1, records=0, crashes=NO_CRASHES, has_pre_vote=True),
    Bound("two epochs, looking for the leader", records=0, crashes=NO_CRASHES, finds_leader=True),
    Bound(
        "one epoch, a crash, the pre-vote",
        epochs=1,
        records=0,
        has_pre_vote=True,
        max_states=MAX_STATES_BEYOND_A,
    ),
    Bound(
        "one epoch, a record, a crash, duplicates",
        epochs=1,
        duplicates=True,
        max_states=MAX_STATES_BEYOND_A,
    ),
    Bound("two epochs, two records", records=2, crashes=NO_CRASHES, max_states=MAX_STATES_BEYOND_A),
    Bound("three epochs", epochs=3, records=0, crashes=NO_CRASHES, max_states=MAX_STATES_BEYOND_A),
    Bound(
        "three epochs, two records, two crashes, duplicates",
        epochs=3,
        records=2,
        crashes=(0, 1, 1),
        duplicates=True,
        max_states=MAX_STATES_BEYOND_A,
    ),
)
