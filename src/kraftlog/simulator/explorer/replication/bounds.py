"""The bounds of the exploration of a replicated partition."""

from __future__ import annotations

from kraftlog.value import Value

A, B, C = 0, 1, 2


class Bound(Value):
    """Brokers with one partition, and how often each kind of event may happen."""

    name: str
    #: In the order in which the controller prefers them as leaders.
    replicas: tuple[int, ...] = (A, B, C)
    leader: int = A
    min_isr: int = 1
    has_elr: bool = False
    #: Records that producers append.
    records: int = 1
    #: Brokers whose sessions end (they may run on), and fenced brokers that return.
    fences: int = 1
    returns: int = 0
    #: Controlled shutdowns; such a broker may restart.
    shutdowns: int = 0
    #: Elections of the preferred leader.
    elections: int = 0
    #: Followers that have not caught up for too long.
    lags: int = 0
    #: Requests to change the ISR that the controller answers.
    isr_changes: int = 2
    #: Processes that are killed, and brokers that lose power and with it the end of their logs.
    #: Both restart as often.
    crashes: int = 0
    power_losses: int = 0
    #: Responses that are lost, and requests that arrive late, after the next one.
    losses: int = 0
    #: Whether truncations take time, and writes until they count.
    slow_disk: bool = False
    #: Unclean elections, where nothing else is possible.
    unclean: int = 0
    #: The replicas to which the partition may be reassigned, how often, and how often that is
    #: cancelled.
    targets: tuple[tuple[int, ...], ...] = ()
    reassignments: int = 0
    cancellations: int = 0
    #: Deletions of the topic; it may be created again under the same name.
    deletions: int = 0
    #: The limit of the search, which has visited all shorter runs by then.
    most_states: int = 20_000_000

    @property
    def brokers(self) -> tuple[int, ...]:
        """All that have a replica, or may get one."""
        return tuple(sorted({*self.replicas, *[it for target in self.targets for it in target]}))


#: The second replica leads: the preferred one may replace it without leaving the ISR.
SECOND_LEADS = (B, A, C)
REASSIGNED = Bound(
    "partition: a record, a reassignment, cancelled",
    replicas=(A, B),
    targets=((C, B),),
    fences=0,
    reassignments=1,
    cancellations=1,
)
RECREATED = Bound(
    "partition: a record, created again, a broker fenced", replicas=(A, B), deletions=1
)
#: `make explore` and CI exhaust these.
PARTS = (
    Bound("partition: a record, a crash", fences=0, crashes=1),
    Bound("partition: a record, a fenced broker returns", returns=1),
    Bound("partition: a record, two brokers fenced", fences=2),
    Bound("partition: a record, a broker fenced, slow disks", slow_disk=True),
    Bound("partition: a record, a slow follower", fences=0, lags=1),
    Bound("partition: a record, a broker fenced, a slow follower", lags=1, isr_changes=1),
    Bound("partition: a record, a broker fenced, a crash", crashes=1),
    Bound("partition: a record, a broker fenced, a crash, ELR", crashes=1, has_elr=True, min_isr=2),
    Bound(
        "partition: a record, a power loss, a lost response, ELR",
        fences=0,
        returns=1,
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
        fences=2,
        returns=2,
        unclean=1,
    ),
    Bound(
        "partition: two records, a broker fenced, an election",
        replicas=SECOND_LEADS,
        records=2,
        elections=1,
    ),
    Bound(
        "partition: a record, a controlled shutdown, ELR",
        fences=0,
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
        fences=0,
        crashes=1,
        reassignments=1,
    ),
    Bound(
        "partition: a record, two reassignments",
        replicas=(A, B),
        targets=((C, B), (B, C)),
        fences=0,
        reassignments=2,
    ),
    Bound(
        "partition: a record, a reassignment and back",
        replicas=(A, B),
        targets=((A, C), (A, B)),
        fences=0,
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
QUICK = (PARTS[0], PARTS[3], REASSIGNED, RECREATED)
