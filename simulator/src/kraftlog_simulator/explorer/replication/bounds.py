"""The bounds of the exploration of a replicated partition."""

from __future__ import annotations

from kraftlog.value import Value

A, B, C = 0, 1, 2


class Bound(Value):
    """Three brokers with one partition, and how often each kind of event may happen."""

    name: str
    #: The replicas, in the order in which the controller prefers them as leaders.
    replicas: tuple[int, ...] = (A, B, C)
    leader: int = A
    min_isr: int = 1
    has_elr: bool = False
    #: Records that producers append.
    records: int = 1
    #: Broker sessions that end (the process may run on), and fenced brokers that are unfenced.
    fencings: int = 1
    unfencings: int = 0
    #: Controlled shutdowns; such a broker may restart.
    shutdowns: int = 0
    #: Elections of the preferred leader.
    elections: int = 0
    #: Followers that have not caught up for too long.
    lags: int = 0
    #: Requests to change the ISR that reach the controller.
    isr_changes: int = 2
    #: Processes that are killed, and brokers that lose power, with the unsynced end of their logs.
    #: Each may restart.
    crashes: int = 0
    power_losses: int = 0
    #: Responses that are lost, and requests that arrive late, after the next one.
    losses: int = 0
    #: Whether truncations and writes take time.
    slow_disk: bool = False
    #: Unclean elections, which are possible only without a leader.
    unclean_elections: int = 0
    #: The sets of replicas to which the partition may be reassigned; how often it is reassigned,
    #: and how often a reassignment is cancelled.
    targets: tuple[tuple[int, ...], ...] = ()
    reassignments: int = 0
    cancellations: int = 0
    #: Deletions of the topic, after which it may be created again under its name.
    deletions: int = 0
    #: The search ends after this many states: it is breadth first, so all shorter runs are visited.
    max_states: int = 20_000_000

    @property
    def brokers(self) -> tuple[int, ...]:
        """The brokers that have a replica, or may get one."""
        added = [broker for target in self.targets for broker in target]
        return tuple(sorted({*self.replicas, *added}))


#: The second replica leads: the preferred one may replace it without leaving the ISR.
SECOND_LEADS = (B, A, C)
REASSIGNED = Bound(
    "partition: a record, a reassignment, cancelled",
    replicas=(A, B),
    targets=((C, B),),
    fencings=0,
    reassignments=1,
    cancellations=1,
)
RECREATED = Bound(
    "partition: a record, created again, a broker fenced", replicas=(A, B), deletions=1
)
#: `make explore` and CI exhaust these.
BOUNDS = (
    Bound("partition: a record, a crash", fencings=0, crashes=1),
    Bound("partition: a record, a fenced broker returns", unfencings=1),
    Bound("partition: a record, two brokers fenced", fencings=2),
    Bound("partition: a record, a broker fenced, slow disks", slow_disk=True),
    Bound("partition: a record, a slow follower", fencings=0, lags=1),
    Bound("partition: a record, a broker fenced, a slow follower", lags=1, isr_changes=1),
    Bound("partition: a record, a broker fenced, a crash", crashes=1),
    Bound("partition: a record, a broker fenced, a crash, ELR", crashes=1, has_elr=True, min_isr=2),
    Bound(
        "partition: a record, a power loss, a lost response, ELR",
        fencings=0,
        unfencings=1,
        power_losses=1,
        losses=1,
        has_elr=True,
        min_isr=2,
    ),
    Bound(
        "partition: a record, a broker fenced, a power loss, ELR",
        power_losses=1,
        has_elr=True,
        min_isr=2,
    ),
    Bound(
        "partition: two records, two replicas, an unclean election",
        replicas=(A, B),
        records=2,
        fencings=2,
        unfencings=2,
        unclean_elections=1,
    ),
    Bound(
        "partition: two records, a broker fenced, an election",
        replicas=SECOND_LEADS,
        records=2,
        elections=1,
    ),
    Bound(
        "partition: a record, a controlled shutdown, ELR",
        fencings=0,
        shutdowns=1,
        has_elr=True,
        min_isr=2,
    ),
    Bound(
        "partition: a record, a controlled shutdown, a broker fenced", replicas=(A, B), shutdowns=1
    ),
    REASSIGNED,
    Bound(
        "partition: a record, a reassignment, cancelled, a broker fenced",
        replicas=(A, B),
        targets=((C, B),),
        reassignments=1,
        cancellations=1,
    ),
    Bound(
        "partition: a record, a reassignment, a crash",
        replicas=(A, B),
        targets=((C, B),),
        fencings=0,
        crashes=1,
        reassignments=1,
    ),
    Bound(
        "partition: a record, two reassignments",
        replicas=(A, B),
        targets=((C, B), (B, C)),
        fencings=0,
        reassignments=2,
    ),
    Bound(
        "partition: a record, a reassignment and back",
        replicas=(A, B),
        targets=((A, C), (A, B)),
        fencings=0,
        reassignments=2,
    ),
    RECREATED,
    Bound(
        "partition: a record, created again, a broker fenced, a crash",
        replicas=(A, B),
        crashes=1,
        deletions=1,
    ),
    Bound(
        "partition: a record, created again, a broker fenced, a lost response",
        replicas=(A, B),
        losses=1,
        deletions=1,
    ),
    Bound(
        "partition: a record, created again, a broker fenced, slow disks",
        slow_disk=True,
        deletions=1,
    ),
)
#: The smallest: `make test` exhausts these.
QUICK = (BOUNDS[0], BOUNDS[3], REASSIGNED, RECREATED)
