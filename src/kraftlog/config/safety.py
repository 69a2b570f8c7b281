"""Refuses settings that ask for protection that kraftlog does not have.

A node that ignored them would let every client do everything, or send secrets unencrypted.
"""

from __future__ import annotations

from kraftlog.errors import ConfigError
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.config.broker import BrokerConfig

#: Keys of classes that restrict access, and the consequence of their absence.
GUARDS = {
    "authorizer.class.name": "there is no access control: every client may do everything",
    "create.topic.policy.class.name": "policies are not supported: every client may create "
    "any topic",
    "alter.config.policy.class.name": "policies are not supported: every client may change "
    "any config",
}


def refuse_unsupported_security(config: BrokerConfig) -> None:
    """Raise ConfigError if the settings ask for unsupported protection."""
    for name, without in GUARDS.items():
        if config[name]:
            raise ConfigError(f"{name}={config[name]}: {without}; remove the key")
    for listener in config.listeners:
        _refuse_protocol("listeners", listener.name, listener.protocol)
    # A broker does not listen on these, but connects to controllers through them.
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
