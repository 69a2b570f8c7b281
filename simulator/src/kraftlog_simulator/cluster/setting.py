"""The setting of a cluster: its nodes, its topics, their replication, and its clients."""

from __future__ import annotations

from kraftlog.raft.config import RaftConfig
from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.setting import Setting

if TYPE_CHECKING:
    from kraftlog_simulator.rng import Rng

#: The replicas of a partition, at most.
MAX_REPLICAS = 3


class ClusterSetting(Setting):
    """With `separate`, voters are controllers only, and the other nodes brokers only."""

    separate: bool = False
    #: The number of partitions of each topic.
    partitions: tuple[int, ...] = (1,)
    replication: int = 1
    min_insync: int = 1
    #: Whether records are flushed before they are acknowledged (flush.messages=1).
    flushes: bool = False
    heartbeat_ms: int = 300
    session_ms: int = 1500
    #: replica.lag.time.max.ms
    lag_ms: int = 1500
    fetch_wait_ms: int = 300
    producers: int = 2
    consumers: int = 1
    #: The pause between two batches of a producer: minimum and maximum.
    batch_gap_ms: tuple[int, int] = (50, 400)
    #: How many requests a producer has in flight for a partition, at most.
    in_flight: int = 1
    #: The members of a consumer group; without any there is no offsets topic.
    members: int = 0
    offsets_partitions: int = 3
    #: The number of racks of brokers and consumers (KIP-392); 0: they have none.
    racks: int = 0
    #: The log directories of each broker; the first one also has the metadata log.
    log_directories: int = 1
    #: Bytes of metadata after which a node takes a snapshot; 0: Kafka's default.
    snapshot_bytes: int = 0
    #: The fetch sessions of a broker, at most; those of followers evict those of consumers.
    session_slots: int = 1000
    #: How often the controller elects preferred leaders.
    balance_s: int = 300
    #: Whether nodes have an authorizer, and there is a client that is no super user.
    authorizer: bool = False

    @property
    def brokers(self) -> tuple[int, ...]:
        node_ids = range(self.voters + self.observers)
        return tuple(node_ids[self.voters :] if self.separate else node_ids)

    def rack_of(self, number: int) -> str:
        """The rack of a broker or a consumer; empty if there are no racks."""
        return f"rack-{number % self.racks}" if self.racks else ""


def some_members(rng: Rng) -> int:
    """In one of three seeds a consumer group has one to three members."""
    return 0 if rng.below(3) else 1 + rng.below(3)


def some_log_directories(rng: Rng) -> int:
    """In half of the seeds brokers have two log directories."""
    return 1 + rng.below(2)


def some_snapshot_bytes(rng: Rng) -> int:
    """In half of the seeds nodes take snapshots all the time."""
    return rng.pick([0, 0, 500, 3000])


def some_in_flight(rng: Rng) -> int:
    """In half of the seeds producers have five requests in flight, as Kafka's have by default."""
    return rng.pick([1, 5])


def some_session_slots(rng: Rng) -> int:
    """In a third of the seeds a broker has fewer slots for fetch sessions than clients want."""
    return rng.pick([1000, 1000, 3])


def any_cluster(rng: Rng) -> ClusterSetting:
    """Three to six nodes, combined or separate, in racks or not, with up to six partitions.

    It has no consumer group, one log directory a broker, no snapshots, one request in flight a
    producer, and many slots for fetch sessions; `some_members`, `some_log_directories`,
    `some_snapshot_bytes`, `some_in_flight` and `some_session_slots` draw these.
    """
    separate = rng.below(3) == 0
    voters, observers = (3, 2 + rng.below(2)) if separate else (rng.pick([3, 3, 3, 4, 5]), 0)
    brokers = observers if separate else voters
    replication = min(rng.pick([3, 3, 3, 2]), brokers, MAX_REPLICAS)
    session_ms = rng.pick([1000, 1500, 3000])
    return ClusterSetting(
        voters=voters,
        observers=observers,
        separate=separate,
        raft=RaftConfig(),
        network_ms=rng.pick([(1, 6), (0, 2), (1, 20)]),
        disk_ms=rng.pick([(0, 0), (0, 2), (1, 10)]),
        append_gap_ms=(0, 0),
        read_gap_ms=(0, 0),
        request_timeout_ms=rng.pick([1000, 2000]),
        dynamic=rng.below(2) == 1,
        partitions=rng.pick([(1,), (2,), (3,), (1, 2), (3, 3)]),
        replication=replication,
        min_insync=min(rng.pick([1, 2, 2]), replication),
        flushes=rng.below(3) == 0,
        heartbeat_ms=session_ms // 5,
        session_ms=session_ms,
        lag_ms=rng.pick([500, 1500, 3000]),
        fetch_wait_ms=rng.pick([100, 300, 500]),
        producers=rng.pick([1, 2, 3]),
        consumers=rng.pick([1, 1, 2]),
        batch_gap_ms=rng.pick([(20, 100), (50, 400), (100, 1000)]),
        racks=rng.pick([0, 2, 3]),
        balance_s=rng.pick([300, 1, 3]),
    )
