"""The error of requests to the quorum's leader while no node knows a leader."""

from __future__ import annotations

from kraftlog.client.cluster import ANY
from kraftlog.client.deadline import Deadline
from kraftlog.errors import ClientError, ErrorCode, RefusedError, UnreachableError
from kraftlog.value import TYPE_CHECKING
from kraftlog.version import VERSION
from kraftlog.wire.apis import OWN_CLIENT
from kraftlog.wire.messages.api_versions import ApiVersionsRequest

if TYPE_CHECKING:
    from kraftlog.client.cluster import Cluster

#: Error codes of a node that knows no leader.
NO_LEADER_CODES = {
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.LEADER_NOT_AVAILABLE,
}


#: How long to wait for the response to a probe, after a request to the leader has timed out.
PROBE_TIMEOUT_S = 1.0


class NoLeaderError(ClientError):
    """No leader of the quorum was found within the timeout."""


def explain_missing_leader(cluster: Cluster, error: ClientError) -> ClientError:
    """A NoLeaderError if a missing leader may have caused the error; else the error itself."""
    if isinstance(error, RefusedError):
        if error.code not in NO_LEADER_CODES:
            return error
    elif not (cluster.brokers if cluster.is_controllers else _responds(cluster, error)):
        return error  # no server was reached, or none responds to anything
    servers = ", ".join([f"{host}:{port}" for host, port in cluster.servers])
    controllers_text = ""
    if cluster.is_controllers and cluster.brokers:
        voters = sorted(cluster.brokers.values(), key=lambda voter: voter.id)
        addresses = ", ".join([f"{voter.id} at {voter.address}" for voter in voters])
        subject = "It knows" if len(cluster.servers) == 1 else "They know"
        controllers_text = f" {subject} the controllers {addresses}."
    return NoLeaderError(
        f"no leader of the quorum is known to {servers}; asked for {cluster.timeout_s:g} s."
        f"{controllers_text} A leader needs a majority of the voters: the logs of the nodes name "
        "those that are missing, with the error of each. "
        f"The last error was: {error}"
    )


def _responds(cluster: Cluster, error: ClientError) -> bool:
    """Whether a broker that did not respond to a request in time responds to ApiVersions.

    Brokers hold a request for the leader until there is one, possibly longer than its timeout.
    """
    if not (isinstance(error, UnreachableError) and error.was_sent):
        return False
    limit = Deadline(PROBE_TIMEOUT_S)
    request = ApiVersionsRequest(client_software_name=OWN_CLIENT, client_software_version=VERSION)
    try:
        cluster.connection(ANY, limit).call(request, limit)
    except ClientError:
        return False
    return True
