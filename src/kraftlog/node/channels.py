"""The channels on which a node sends requests to others: each has connections of its own.

Those of followers' fetches are in `replication.replica_fetchers`.
"""

from __future__ import annotations

from kraftlog.replication.replica_fetchers import CHANNEL_PREFIX as REPLICATION

#: The raft core's requests.
QUORUM_CHANNEL = "quorum"
#: Most requests to the controller.
CONTROLLER_CHANNEL = "controller"
#: Registration and heartbeats of the broker, so that nothing delays them.
HEARTBEAT_CHANNEL = "heartbeat"
#: The active controller's own requests to brokers.
PROBE_CHANNEL = "probe"
#: Linearizable reads: the leader answers them late, which must not delay others.
READ_CHANNEL = "reads"
DISCOVERY_CHANNEL = "discovery"

#: If one of these is refused, a controller is down.
TO_CONTROLLERS = frozenset((QUORUM_CHANNEL, CONTROLLER_CHANNEL, HEARTBEAT_CHANNEL))


def goes_to_brokers(channel: str) -> bool:
    """Whether a channel connects to listeners of brokers; all others go to those of controllers."""
    return channel == PROBE_CHANNEL or channel.startswith(REPLICATION)
