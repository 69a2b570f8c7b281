"""One cluster to which everything happens once."""

from __future__ import annotations

from tests.controller.cluster import Cluster


def eventful_cluster() -> Cluster:
    """Its log holds every kind of record that a controller writes."""
    cluster = Cluster(brokers=3, elr=True)
    cluster.create("t", (1, 2), (2, 3), configs={"min.insync.replicas": "2"})
    cluster.controller.broker_is_gone(1)
    cluster.pass_time(0)
    cluster.heartbeat(2, cordoned_log_dirs=[])
    cluster.heartbeat(2, want_shut_down=True)
    return cluster
