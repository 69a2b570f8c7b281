"""What this node can't do, and who asked for it would take the node for safer than it is.

The keys are Kafka's, so a file that has them is well-formed; but a node that ran all the same
would let everybody do everything, or send in the clear what was to be secret.
"""

from __future__ import annotations

from kraftlog.errors import ConfigError
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.config.broker import BrokerConfig

#: Keys that name a class which keeps somebody from something, and what happens without it.
GUARDS = {
    "authorizer.class.name": "there is no access control: every client may do everything",
    "create.topic.policy.class.name": "policies are not supported: every client may create "
    "any topic",
    "alter.config.policy.class.name": "policies are not supported: every client may change "
    "any config",
}


def refuse_false_safety(config: BrokerConfig) -> None:
    """ConfigError where the settings ask for protection that is not there."""
    for name, without in GUARDS.items():
        if config[name]:
            raise ConfigError(f"{name}={config[name]}: {without}; remove the key")
    for listener in config.listeners:
        _refuse_protocol("listeners", listener.name, listener.protocol)
    # A broker does not listen there, and yet speaks to its controllers through them.
    protocols = config.protocols
    for name in config.controller_listener_names:
        protocol = protocols.get(name.upper(), "PLAINTEXT")
        _refuse_protocol("controller.listener.names", name.upper(), protocol)


def _refuse_protocol(key: str, name: str, protocol: str) -> None:
    if protocol != "PLAINTEXT":
        raise ConfigError(
            f"{key}: {name} uses {protocol}; only PLAINTEXT is supported, without "
            "authentication or encryption"
        )
