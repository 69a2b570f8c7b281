"""Validation of config changes by the controller."""

from __future__ import annotations

from kraftlog.config.keys import (
    BROKER,
    CLIENT_METRICS,
    GROUP,
    LISTENER_PREFIX,
    TABLES,
    TOPIC,
    base_name,
    find_broker_key,
)
from kraftlog.config.layers import ConfigLayers
from kraftlog.config.topic import TopicConfig
from kraftlog.config.values import value_error
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kraftlog.config.keys import Key

_TYPE_NAMES = {TOPIC: "topic", GROUP: "group", CLIENT_METRICS: "client metrics"}


def config_error(resource_type: int, key: str, value: str) -> str | None:
    """The error in a key or its value, or None."""
    if resource_type not in TABLES:
        return f"resources of type {resource_type} have no configs"
    config_key = _find(resource_type, key)
    if config_key is not None:
        error = _read_only_error(config_key) if resource_type == BROKER else None
        return error or value_error(config_key, value)
    if resource_type == BROKER:
        return None  # a key of a plug-in
    return f"{key}: unknown key of a {_TYPE_NAMES[resource_type]}"


def is_list(resource_type: int, key: str) -> bool:
    """Whether APPEND and SUBTRACT apply to a key, because its type is LIST."""
    config_key = _find(resource_type, key)
    return config_key is not None and config_key.type == "list"


def default(resource_type: int, key: str) -> str | None:
    """The default of a key; None if it has none or is unknown."""
    config_key = _find(resource_type, key)
    return None if config_key is None else config_key.default


def keys(resource_type: int) -> tuple[str, ...]:
    """The keys of a resource type without the internal ones, sorted."""
    return tuple([key.name for key in TABLES[resource_type] if not key.internal])


def _find(resource_type: int, name: str) -> Key | None:
    if resource_type == BROKER:
        return find_broker_key(name)
    table = TABLES.get(resource_type)
    return None if table is None else table.find(name)


def _read_only_error(key: Key) -> str | None:
    if key.update_mode in {"", "internal"} and not key.name.startswith(LISTENER_PREFIX):
        return f"{key.name} can't be changed while brokers run; set it in their files"
    return None


def combination_error(
    resource_type: int, name: str, values: Mapping[str, str], layers: ConfigLayers
) -> str | None:
    """The error in a combination of valid configs of the resource `name`, or None.

    For BROKER, an empty name means all brokers. `layers` are those of a broker.
    """
    if resource_type == TOPIC:
        return _topic_error(values, layers)
    if resource_type == GROUP:
        return _group_error(values, layers)
    if resource_type == BROKER:
        return _scope_error(values, for_all=not name)
    return None


def _topic_error(values: Mapping[str, str], layers: ConfigLayers) -> str | None:
    config = TopicConfig(values, layers)
    least, most = config.min_compaction_lag_ms, config.max_compaction_lag_ms
    if least > most:
        return f"min.compaction.lag.ms={least}: expected at most max.compaction.lag.ms={most}"
    if config["remote.storage.enable"] and not layers.value("remote.log.storage.system.enable"):
        return "remote.storage.enable=true: this cluster has no remote storage"
    return None


def _group_error(values: Mapping[str, str], layers: ConfigLayers) -> str | None:
    """The error in a group config outside of the brokers' limits, or None."""
    for name, text in values.items():
        if name == "streams.assignor.name":
            assignors = layers.value("group.streams.assignors")
            if text not in assignors:
                return f"{name}={text}: expected one of {', '.join(assignors)}"
        group_type, setting = name.split(".", 1)
        for bound in ("min", "max"):
            limit_name = f"group.{group_type}.{bound}.{setting.removeprefix('num.')}"
            if find_broker_key(limit_name) is None:
                continue
            limit = layers.value(limit_name)
            if (int(text) < limit) if bound == "min" else (int(text) > limit):
                word = "least" if bound == "min" else "most"
                return f"{name}={text}: expected at {word} {limit_name}={limit}"
    return None


def _scope_error(values: Mapping[str, str], *, for_all: bool) -> str | None:
    """The error in a key that can only be set for one broker or for one listener, or None."""
    for name in values:
        key = find_broker_key(name)
        is_listener_override = name.startswith(LISTENER_PREFIX)
        if key is not None and key.update_mode == "listener" and not is_listener_override:
            return f"{name}: expected to be set for a listener, as listener.name.<listener>.{name}"
        is_for_one = key is not None and key.update_mode in {"broker", "listener"}
        is_for_one = is_for_one or (
            is_listener_override and base_name(name) not in _SET_FOR_ALL_BROKERS
        )
        if for_all and is_for_one:
            return f"{name}: expected to be set for one broker, not for all"
    return None


#: Keys that may be set for a listener of all brokers at once.
_SET_FOR_ALL_BROKERS = frozenset(
    {"max.connection.creation.rate", "max.connections", "num.network.threads"}
)
