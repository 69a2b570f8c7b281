"""A quorum's times and limits, with Kafka's defaults."""

from __future__ import annotations

from kraftlog.value import Value


class RaftConfig(Value):
    election_timeout_ms: int = 1000
    fetch_timeout_ms: int = 2000
    election_backoff_max_ms: int = 1000
    retry_backoff_ms: int = 20
    retry_backoff_max_ms: int = 1000
    fetch_max_wait_ms: int = 500
    #: Whether to be told at once that something was committed. Who only votes can wait until more
    #: records follow, or the longest wait is over.
    awaits_commits: bool = True
    #: How long a linearizable read may wait before the client tries elsewhere (P6).
    read_timeout_ms: int = 5000
    #: The most that one answer carries of the log and of a snapshot, asked for or sent.
    max_fetch_bytes: int = 8 << 20
    max_snapshot_bytes: int = 8 << 20
    #: What one batch may hold; Kafka's figure.
    max_batch_bytes: int = 8 << 20
    #: For the first leader of a cluster that has no id yet (R11); the host makes one up.
    fresh_cluster_id: str | None = None
    #: Whom to ask for the quorum beside the voters that are known; nobody's own ids.
    bootstrap_ids: tuple[int, ...] = ()
    #: What makes this node's jitter its own.
    seed: int = 0


def jitter(seed: int, *what: int, below: int) -> int:
    """A number from 0 to `below` - 1, a pure function of its arguments."""
    mixed = seed & _MASK
    for number in what:
        mixed = (mixed ^ (number & _MASK)) * _PRIME & _MASK
        mixed ^= mixed >> 29
    mixed = mixed * _PRIME & _MASK
    return (mixed >> 16) % below if below > 0 else 0


_MASK = (1 << 64) - 1
_PRIME = 0x9E3779B97F4A7C15
