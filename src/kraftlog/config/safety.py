"""Refuses settings that Kafka accepts, but with which a node must not start.

Some ask for protection that kraftlog does not have: a node that ignored them would let every client
do everything, or send secrets unencrypted. With a short fetch timeout no quorum is stable.
"""

from __future__ import annotations

from kraftlog.config.authorizer import authorizer_config
from kraftlog.errors import ConfigError
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.config.broker import BrokerConfig

#: How long a quorum leader without new records holds a fetch; Kafka's value, which has no key.
QUORUM_FETCH_WAIT_MS = 500
#: The smallest fetch timeout: that wait, and half as long for the network, a flush and a busy node.
LEAST_FETCH_TIMEOUT_MS = QUORUM_FETCH_WAIT_MS * 3 // 2
#: Keys of classes that restrict access and that kraftlog lacks, and what follows.
GUARDS = {
    "create.topic.policy.class.name": "policies are not supported: every client may create "
    "any topic",
    "alter.config.policy.class.name": "policies are not supported: every client may change "
    "any config",
}


def refuse_unsafe(config: BrokerConfig) -> None:
    """Raise ConfigError if no node should start with these settings."""
    _refuse_short_fetch_timeout(config)
    refuse_unsupported_security(config)


def _refuse_short_fetch_timeout(config: BrokerConfig) -> None:
    """Refuse a timeout at which followers campaign, or leaders resign, in an idle quorum.

    If this node's own fetches waited for less time, that would not help: as leader it compares the
    fetches of all other voters with its timeout.
    """
    key = "controller.quorum.fetch.timeout.ms"
    if config[key] < LEAST_FETCH_TIMEOUT_MS:
        raise ConfigError(
            f"{key}={config[key]}: expected at least {LEAST_FETCH_TIMEOUT_MS}. A leader without "
            f"new records responds to a fetch after {QUORUM_FETCH_WAIT_MS} ms; with a shorter "
            "timeout the voters of an idle quorum would take their leader for dead and hold "
            "elections without end. Remove the key for the default, 2000, or set the same larger "
            "value on all nodes"
        )


def refuse_unsupported_security(config: BrokerConfig) -> None:
    """Raise ConfigError if the settings ask for unsupported protection."""
    for name, consequence in GUARDS.items():
        if config[name]:
            raise ConfigError(f"{name}={config[name]}: {consequence}; remove the key")
    authorizer_config(config)
    for name in config.controller_listener_names:
        if name.upper() not in config.protocols:
            raise ConfigError(
                f"controller.listener.names: {name} has no security protocol; add {name}:PLAINTEXT "
                "(or the one of the controllers) to listener.security.protocol.map"
            )
    if config.uses_sasl:
        from kraftlog.config.sasl import check_sasl

        check_sasl(config)
