"""V17: a broker that is slow to act on committed changes is visible."""

from __future__ import annotations

from kraftlog.controller.sessions import BEHIND_LIMIT_MS
from tests.controller.cluster import Cluster

INTERVAL_MS = 2000


def behind_after_heartbeat(cluster: Cluster, offset: int) -> list[int]:
    """Send a heartbeat of broker 1 after an interval; return how long each lagging broker lags."""
    cluster.now_ms += INTERVAL_MS
    cluster.heartbeat(1, current_metadata_offset=offset)
    return cluster.controller.sessions.behind_ms(cluster.now_ms)


def test_v17_a_broker_is_behind_if_it_lags_for_a_heartbeat_interval() -> None:
    cluster = Cluster(brokers=2)
    applied = len(cluster.log) - 1
    assert behind_after_heartbeat(cluster, applied) == []
    cluster.create("t", (1,))
    assert behind_after_heartbeat(cluster, applied) == [], (
        "the record may have been committed just now"
    )
    assert behind_after_heartbeat(cluster, applied) == [INTERVAL_MS]
    assert behind_after_heartbeat(cluster, applied) == [2 * INTERVAL_MS]
    cluster.create("u", (1,))
    assert behind_after_heartbeat(cluster, len(cluster.log) - 1) == []


def test_v17_a_broker_that_stays_behind_is_logged_once() -> None:
    """C214."""
    cluster = Cluster(brokers=2)
    applied = len(cluster.log) - 1
    cluster.create("t", (1,))
    log_lines: list[str] = []
    for _ in range(2 * BEHIND_LIMIT_MS // INTERVAL_MS):
        behind_after_heartbeat(cluster, applied)
        log_lines += cluster.controller.take_log_lines()
    assert len(log_lines) == 1
    assert log_lines[0].startswith("broker 1 is slow to apply metadata: for 12000 ms")
    assert f"at offset {applied} of {len(cluster.log) - 1}" in log_lines[0]
    assert behind_after_heartbeat(cluster, len(cluster.log) - 1) == []


def test_v17_a_broker_that_starts_is_not_behind() -> None:
    cluster = Cluster(brokers=1)
    cluster.create("t", (1,))
    cluster.register(2)
    for _ in range(3):
        cluster.now_ms += INTERVAL_MS
        cluster.heartbeat(2, current_metadata_offset=0)
    assert cluster.controller.sessions.behind_ms(cluster.now_ms) == []
