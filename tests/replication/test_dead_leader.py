"""V13: what a follower does while its leader's process is dead."""

from __future__ import annotations

from tests.replication.test_fetching import LONGEST_BACKOFF_MS, named_partitions, two_replicas


def test_v13_next_process_of_a_leader_gets_a_new_connection() -> None:
    """The machine lost power: the fetch in flight gets no response, its connection stays open."""
    cluster = two_replicas()
    cluster.flights.clear()
    cluster.elect(-1, (1,))
    cluster.register(1)
    cluster[2].turn()
    cluster.elect(1, (1,))
    cluster[2].turn()
    assert cluster.flight(2).effect.needs_new_connection


def test_v13_fetch_from_a_dead_leader_waits_for_the_longest_backoff() -> None:
    """Each request would name all partitions, while the survivors are busy electing leaders."""
    cluster = two_replicas()
    cluster.lose(cluster.flight(2))
    cluster[2].replica_manager.fetchers.leader_is_down(1, cluster.now)
    cluster.advance(LONGEST_BACKOFF_MS - 1)
    cluster.run_turns()
    assert cluster.flights == []
    cluster.advance(1)
    cluster.run_turns()
    assert named_partitions(cluster) == [(0, 1)]


def test_v13_leader_that_registers_again_is_fetched_from_at_once() -> None:
    cluster = two_replicas()
    cluster.lose(cluster.flight(2))
    cluster[2].replica_manager.fetchers.leader_is_down(1, cluster.now)
    cluster.register(1)
    cluster[2].turn()
    assert named_partitions(cluster) == [(0, 1)]
