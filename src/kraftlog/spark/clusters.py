"""The connections of a Spark worker, kept from task to task.

Spark runs many tasks in one Python worker, one after the other. Each would otherwise ask a broker
for its versions and for the topic's leaders again.
"""

from __future__ import annotations

import os

from kraftlog.client.cluster import Cluster

_clusters: dict[tuple[int, str, float], Cluster] = {}


def cluster_of(servers: str, timeout_s: float) -> Cluster:
    """The cluster behind these addresses; a forked process does not use its parent's."""
    key = (os.getpid(), servers, timeout_s)
    known = _clusters.get(key)
    if known is None:
        known = _clusters[key] = Cluster(servers, client_id="kraftlog-spark", timeout_s=timeout_s)
    return known
