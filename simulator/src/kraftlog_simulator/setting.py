"""The setting of a run: how many replicas, their timeouts, and the load."""

from __future__ import annotations

from typing import Any

from kraftlog.raft.config import RaftConfig
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraftlog_simulator.rng import Rng


class Setting(Value):
    """Pairs are the minimum and the maximum of a time in ms; (0, 0) for a gap means never."""

    voters: int = 3
    observers: int = 0
    raft: Any = None
    network_ms: tuple[int, int] = (1, 6)
    disk_ms: tuple[int, int] = (0, 0)
    append_gap_ms: tuple[int, int] = (2, 4)
    read_gap_ms: tuple[int, int] = (0, 0)
    request_timeout_ms: int = 3000
    batches_per_fetch: int = 1000
    #: Whether the voters are known by their directory ids from the start, or by id alone.
    dynamic: bool = False
    #: The time between voter changes of an administrator.
    change_gap_ms: tuple[int, int] = (0, 0)
    #: The time between snapshots, each of a random replica.
    snapshot_gap_ms: tuple[int, int] = (0, 0)
    #: The most bytes of a snapshot that one response has.
    chunk_bytes: int = 1000
    #: Whether messages are encoded and decoded on their way.
    in_bytes: bool = False


#: The timeouts of Kafka's simulation, RaftEventSimulationTest.
KAFKA_TIMES = RaftConfig(
    election_timeout_ms=1000,
    fetch_timeout_ms=3000,
    election_backoff_max_ms=100,
    retry_backoff_ms=50,
    fetch_max_wait_ms=100,
)


# Drawn from a seed -------------------------------------------------------------------------------


def kafka_setting(
    min_voters: int, max_voters: int, max_observers: int, *, min_observers: int = 0
) -> Callable[[Rng], Setting]:
    """Random numbers of voters and observers within bounds, with Kafka's timeouts."""

    def draw(rng: Rng) -> Setting:
        return Setting(
            voters=rng.between(min_voters, max_voters),
            observers=rng.between(min_observers, max_observers),
            raft=KAFKA_TIMES,
            dynamic=rng.below(2) == 1,
        )

    return draw


def fixed_setting(voters: int, observers: int, **more: Any) -> Callable[[Rng], Setting]:
    """Fixed numbers of replicas, with Kafka's timeouts; voters are known by id or directory id."""

    def draw(rng: Rng) -> Setting:
        dynamic = rng.below(2) == 1
        setting = Setting(voters=voters, observers=observers, raft=KAFKA_TIMES, dynamic=dynamic)
        return setting.replace(**more)

    return draw


def reading_setting(rng: Rng) -> Setting:
    """Kafka's timeouts, with clients that read."""
    return kafka_setting(3, 5, 2)(rng).replace(append_gap_ms=(5, 20), read_gap_ms=(5, 30))


def any_setting(rng: Rng) -> Setting:
    """Random: kraftlog's or Kafka's timeouts, fast or slow networks and disks, any load."""
    slow = rng.below(3)
    raft = rng.pick([RaftConfig(), KAFKA_TIMES])
    return Setting(
        voters=rng.pick([1, 2, 3, 3, 3, 4, 5, 5]),
        observers=rng.below(3),
        raft=raft,
        network_ms=rng.pick([(1, 6), (0, 2), (5, 60)]),
        disk_ms=(0, 0) if slow == 0 else (1, rng.pick([2, 10, 40])),
        append_gap_ms=rng.pick([(5, 20), (10, 100), (50, 500)]),
        read_gap_ms=rng.pick([(20, 100), (100, 800)]),
        request_timeout_ms=rng.pick([1000, 2000, 3000]),
        batches_per_fetch=rng.pick([1000, 1000, 3, 1]),
        dynamic=rng.below(2) == 1,
        change_gap_ms=rng.pick([(0, 0), (20, 300), (100, 1500), (500, 4000)]),
        snapshot_gap_ms=rng.pick([(0, 0), (50, 400), (200, 2000), (1000, 5000)]),
        chunk_bytes=rng.pick([1000, 100, 40]),
        in_bytes=rng.below(10) == 0,
    )
