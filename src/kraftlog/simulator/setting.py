"""What a scenario is played in: how many replicas, their times, and how busy they are."""

from __future__ import annotations

from typing import Any

from kraftlog.raft.config import RaftConfig
from kraftlog.value import Value


class Setting(Value):
    """Pairs are the least and the most of a time in ms; (0, 0) for a gap means never."""

    voters: int = 3
    observers: int = 0
    raft: Any = None
    network_ms: tuple[int, int] = (1, 6)
    disk_ms: tuple[int, int] = (0, 0)
    append_gap_ms: tuple[int, int] = (2, 4)
    read_gap_ms: tuple[int, int] = (0, 0)
    request_timeout_ms: int = 3000
    batches_per_fetch: int = 1000


#: Kafka's simulation uses these times.
KAFKA_TIMES = RaftConfig(
    election_timeout_ms=1000,
    fetch_timeout_ms=3000,
    election_backoff_max_ms=100,
    retry_backoff_ms=50,
    fetch_max_wait_ms=100,
)
