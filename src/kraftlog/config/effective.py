"""The one place that says which keys do something here; all others are accepted and idle.

Whoever makes a key work adds it with a few words of its own: they are its documentation, in
DescribeConfigs and in docs/configuration.md.
"""

from __future__ import annotations

from kraftlog.config.keys import BROKER, CLIENT_METRICS, GROUP, TOPIC

_BROKER = {
    "advertised.listeners": "What clients and other brokers are told to connect to.",
    "broker.id": "The old name of node.id.",
    "controller.listener.names": "The listeners through which controllers are reached.",
    "controller.quorum.voters": "The voters of a quorum that never changes, as id@host:port.",
    "listener.security.protocol.map": "Which security protocol each listener speaks.",
    "listeners": "Where the node listens, as NAME://host:port.",
    "log.dir": "Where logs are kept, when log.dirs is not given.",
    "log.dirs": "Where logs are kept: one directory.",
    "metadata.log.dir": "Where the metadata log is kept; the directory of the logs if not given.",
    "node.id": "The number of this node, of which no other node of the cluster has the same.",
    "process.roles": "What this node is: broker, controller or both.",
}

_TOPIC: dict[str, str] = {}
_GROUP: dict[str, str] = {}
_CLIENT_METRICS: dict[str, str] = {}

#: Resource type -> key -> what it does.
EFFECTIVE = {TOPIC: _TOPIC, BROKER: _BROKER, GROUP: _GROUP, CLIENT_METRICS: _CLIENT_METRICS}

_IDLE = "Known to Kafka, without effect here."


def documentation(resource_type: int, name: str) -> str:
    """What a key does, in a few words."""
    return EFFECTIVE[resource_type].get(name, _IDLE)
