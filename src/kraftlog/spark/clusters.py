"""The connections of a Spark worker, kept from task to task.

Spark runs many tasks in one Python worker, one after the other. Each would otherwise ask a broker
for its versions and for the topic's leaders again.
"""

from __future__ import annotations

import os

from kraftlog.client.cluster import Cluster
from kraftlog.errors import ConfigError

_clusters: dict[tuple[int, str, float, str], Cluster] = {}


def cluster_of(servers: str, timeout_s: float, client_id: str = "kraftlog-spark") -> Cluster:
    """The cluster behind these addresses; a forked process does not use its parent's."""
    key = (os.getpid(), servers, timeout_s, client_id)
    known = _clusters.get(key)
    if known is None:
        try:
            known = Cluster(servers, client_id=client_id, timeout_s=timeout_s)
        except ValueError as error:
            raise ConfigError(f"option kafka.bootstrap.servers={servers}: {error}") from None
        _clusters[key] = known
    return known
