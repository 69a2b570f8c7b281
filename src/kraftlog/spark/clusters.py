"""The connections of a Spark worker, kept from task to task.

Spark runs many tasks in one Python worker, one after the other. Each would otherwise ask a broker
for its versions and for the topic's leaders again.
"""

from __future__ import annotations

import os

from kraftlog.client.cluster import Cluster
from kraftlog.errors import ConfigError
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.client.security import Security

#: By process, as a forked worker must not share the connections of its parent.
_clusters: dict[tuple[int, str, float, str, Security | None], Cluster] = {}


def cluster_of(
    servers: str,
    timeout_s: float,
    client_id: str = "kraftlog-spark",
    security: Security | None = None,
) -> Cluster:
    """This process's client of the cluster with these bootstrap servers, made on first use."""
    key = (os.getpid(), servers, timeout_s, client_id, security)
    cluster = _clusters.get(key)
    if cluster is None:
        try:
            cluster = Cluster(servers, client_id=client_id, timeout_s=timeout_s, security=security)
        except ValueError as error:
            raise ConfigError(f"option kafka.bootstrap.servers={servers}: {error}") from None
        _clusters[key] = cluster
    return cluster
