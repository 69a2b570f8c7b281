"""The error of a request that only the quorum's leader answers, while no leader is known."""

from __future__ import annotations

from kraftlog.errors import ClientError, ErrorCode, RefusedError
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.client.cluster import Cluster

#: What a node without a leader responds.
CODES = {
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.LEADER_NOT_AVAILABLE,
}


class NoLeaderError(ClientError):
    """No leader of the quorum was found within the timeout."""


def no_leader(cluster: Cluster, error: ClientError) -> ClientError:
    """Explain an error by a missing leader, unless it has another cause."""
    if isinstance(error, RefusedError):
        if error.code not in CODES:
            return error
    elif not (cluster.is_controllers and cluster.brokers):
        return error  # no server was reached
    servers = ", ".join([f"{host}:{port}" for host, port in cluster.servers])
    known = ""
    if cluster.is_controllers and cluster.brokers:
        voters = sorted(cluster.brokers.values(), key=lambda it: it.id)
        named = ", ".join([f"{it.id} at {it.address}" for it in voters])
        known = f" It knows the controllers {named}."
    return NoLeaderError(
        f"no leader of the quorum is known to {servers}; asked for {cluster.timeout_s:g} s.{known} "
        "A leader needs a majority of the voters: the logs of the nodes name those that are "
        f"missing, with the error of each. The last error was: {error}"
    )
