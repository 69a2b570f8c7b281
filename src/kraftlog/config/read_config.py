"""Reads the text of `server.properties` into a BrokerConfig, with warnings."""

from __future__ import annotations

from kraftlog.config.aliases import alias_warnings, replace_aliases
from kraftlog.config.authorizer import ALLOW_EVERYONE, CLASS_NAME, SUPER_USERS
from kraftlog.config.broker import BrokerConfig
from kraftlog.config.combinations import check_combinations
from kraftlog.config.effective import DOCUMENTED, OWN, name_with_effect
from kraftlog.config.keys import (
    BROKER,
    BROKER_KEYS,
    LISTENER_PREFIX,
    find_broker_key,
    listener_prefix,
)
from kraftlog.config.properties import parse
from kraftlog.config.values import parse_value
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Keys of Kafka 3 that Kafka 4 dropped; a prefix ends with a dot.
REMOVED = (
    "zookeeper.",
    "password.encoder.",
    "broker.id.generation.enable",
    "control.plane.listener.name",
    "controlled.shutdown.max.retries",
    "controlled.shutdown.retry.backoff.ms",
    "eligible.leader.replicas.enable",
    "inter.broker.protocol.version",
    "leader.imbalance.per.broker.percentage",
    "log.message.downconversion.enable",
    "log.message.format.version",
    "log.message.timestamp.difference.max.ms",
    "offsets.commit.required.acks",
    "reserved.broker.max.id",
)
#: Keys of Kafka's authorizer, which are not broker keys.
AUTHORIZER_KEYS = (SUPER_USERS, ALLOW_EVERYONE)
#: Prefixes of keys that plug-ins define.
_PLUGIN_PREFIXES = ("config.providers.", "rsm.config.", "rlmm.config.")


def read_config(text: str, overrides: Mapping[str, str]) -> tuple[BrokerConfig, list[str]]:
    """The settings and warnings about them; ConfigError if a node cannot start with them."""
    given = parse(text)
    texts = {**replace_aliases(given), **replace_aliases(overrides)}
    config = BrokerConfig(texts)
    for name, value in texts.items():
        key = find_broker_key(name)
        if key is not None:
            parse_value(key, value)
    for name in ("process.roles", "node.id", "controller.listener.names"):
        config[name]  # raises if it is missing
    check_combinations(config)
    return config, [
        *alias_warnings({**given, **overrides}),
        *warnings(texts),
        *_unknown_listener_warnings(texts, config),
    ]


def _unknown_listener_warnings(texts: Mapping[str, str], config: BrokerConfig) -> list[str]:
    """Keys of listeners that do not exist: a misspelt one may have asked for protection."""
    prefixes = tuple(map(listener_prefix, config.protocols))
    return [
        f"{name}: no effect, as no listener has this name in lower case"
        for name in texts
        if name.startswith(LISTENER_PREFIX) and not name.startswith(prefixes)
    ]


def warnings(texts: Mapping[str, str]) -> list[str]:
    """Warnings: one for each unknown key, and one for all keys without effect."""
    unknown = [
        name for name in texts if find_broker_key(name) is None and name not in AUTHORIZER_KEYS
    ]
    lines = [
        _unknown_key_warning(name) for name in unknown if not name.startswith(_PLUGIN_PREFIXES)
    ]
    documented = DOCUMENTED[BROKER]
    if texts.get(CLASS_NAME):
        documented = documented | dict.fromkeys(AUTHORIZER_KEYS, "")
    without_effect = [
        name for name in texts if name not in unknown and name_with_effect(name) not in documented
    ]
    if without_effect:
        lines.append(f"accepted, no effect: {', '.join(sorted(without_effect))}")
    return lines


def _unknown_key_warning(name: str) -> str:
    if name.startswith(tuple([prefix for prefix in REMOVED if prefix.endswith(".")])):
        return f"{name}: Kafka 4 has no ZooKeeper and dropped this key"
    if name in REMOVED:
        return f"{name}: Kafka 4 dropped this key"
    from difflib import get_close_matches  # slow to import

    near = get_close_matches(name, [*BROKER_KEYS.names(), *OWN], 1, 0.75)
    return f"{name}: unknown key" + (f"; did you mean {near[0]}?" if near else "")
