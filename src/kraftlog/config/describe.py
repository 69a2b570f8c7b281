"""DescribeConfigs: values of a resource, their sources and documentation.

Three differences from a Kafka broker are intended:

- The source of a topic's `retention.ms`, `segment.ms`, `segment.jitter.ms` and `flush.ms` is the
  broker's file if only another key sets it there (`log.retention.hours`). Kafka reports a default.
- `log.retention.hours` and the like keep the value of the file if the smaller unit is set
  dynamically. Kafka shows the default, with the file's value as a synonym.
- The documentation strings are kraftlog's own, and say which keys have no effect.
"""

from __future__ import annotations

from kraftlog.config.effective import documentation
from kraftlog.config.keys import (
    BROKER,
    BROKER_KEYS,
    CLIENT_METRICS,
    CLIENT_METRICS_KEYS,
    GROUP,
    GROUP_KEYS,
    TOPIC,
    TOPIC_KEYS,
    find_broker_key,
)
from kraftlog.config.layers import (
    DEFAULT_CONFIG,
    DYNAMIC_CLIENT_METRICS_CONFIG,
    DYNAMIC_DEFAULT_BROKER_CONFIG,
    DYNAMIC_GROUP_CONFIG,
    DYNAMIC_TOPIC_CONFIG,
    ConfigLayers,
    ConfigSynonym,
    inherited,
    names_of,
)
from kraftlog.config.values import parse_value, to_text
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kraftlog.config.keys import Key

#: The types of configs by name, with their numbers in responses; 0 is unknown.
TYPES = {
    name: number
    for number, name in enumerate(
        ("boolean", "string", "int", "short", "long", "double", "list", "class", "password"), 1
    )
}


class DescribedConfig(Value):
    """A config in a DescribeConfigs response."""

    name: str
    value: str | None
    read_only: bool
    config_source: int
    is_sensitive: bool
    synonyms: Sequence[ConfigSynonym]
    config_type: int
    documentation: str | None


def describe_topic(
    own: Mapping[str, str], layers: ConfigLayers, names: Sequence[str] | None = None
) -> list[DescribedConfig]:
    """Describe the configs of a topic; `own` has those set on it."""
    described = []
    for key in TOPIC_KEYS:
        if not _is_wanted(key.name, names) or (key.internal and key.name not in own):
            continue
        text, synonyms = inherited(key, layers)
        described.append(
            _described(TOPIC, key, own, DYNAMIC_TOPIC_CONFIG, text, _shown_synonyms(key, synonyms))
        )
    return described


def _shown_synonyms(key: Key, synonyms: list[ConfigSynonym]) -> list[ConfigSynonym]:
    """The synonyms, without leading defaults of broker keys other than `key.synonyms[0]`."""
    first = key.synonyms[0][0] if key.synonyms else ""
    while synonyms and synonyms[0].source == DEFAULT_CONFIG and synonyms[0].name != first:
        synonyms = synonyms[1:]
    return synonyms


def describe_group(
    own: Mapping[str, str], layers: ConfigLayers, names: Sequence[str] | None = None
) -> list[DescribedConfig]:
    described = []
    for key in GROUP_KEYS:
        if not _is_wanted(key.name, names) or (key.internal and key.name not in own):
            continue
        text, synonyms = inherited(key, layers)
        sources = synonyms or [ConfigSynonym(key.name, text, DEFAULT_CONFIG)]
        described.append(_described(GROUP, key, own, DYNAMIC_GROUP_CONFIG, text, sources))
    return described


def describe_client_metrics(
    own: Mapping[str, str], names: Sequence[str] | None = None
) -> list[DescribedConfig]:
    return [
        _described(CLIENT_METRICS, key, own, DYNAMIC_CLIENT_METRICS_CONFIG, key.default, [])
        for key in CLIENT_METRICS_KEYS
        if _is_wanted(key.name, names)
    ]


def _described(
    resource_type: int,
    key: Key,
    own: Mapping[str, str],
    own_source: int,
    inherited_text: str | None,
    inherited_from: list[ConfigSynonym],
) -> DescribedConfig:
    text, synonyms = inherited_text, inherited_from
    if key.name in own:
        text = to_text(parse_value(key, own[key.name]))
        synonyms = [ConfigSynonym(key.name, text, own_source), *synonyms]
    return DescribedConfig(
        key.name,
        text,
        False,
        synonyms[0].source if synonyms else DEFAULT_CONFIG,
        False,
        synonyms,
        TYPES[key.type],
        documentation(resource_type, key.name),
    )


def describe_broker(
    layers: ConfigLayers, names: Sequence[str] | None = None
) -> list[DescribedConfig]:
    """Describe all keys that are set, and the others that are neither internal nor dynamic."""
    described = {
        key.name for key in BROKER_KEYS if not key.internal and key.update_mode != "dynamic"
    }
    all_names = sorted({*described, *layers.file, *layers.all_brokers, *layers.broker})
    return [_described_broker_key(name, layers) for name in all_names if _is_wanted(name, names)]


def describe_all_brokers(
    all_brokers: Mapping[str, str], names: Sequence[str] | None = None
) -> list[DescribedConfig]:
    """Describe the dynamic cluster-wide broker configs."""
    described = []
    for name in sorted(all_brokers):
        if _is_wanted(name, names):
            entry = _described_broker_key(name, ConfigLayers({}, all_brokers))
            dynamic = [
                each for each in entry.synonyms if each.source == DYNAMIC_DEFAULT_BROKER_CONFIG
            ]
            described.append(entry.replace(synonyms=dynamic))
    return described


def _described_broker_key(name: str, layers: ConfigLayers) -> DescribedConfig:
    key = find_broker_key(name)
    is_secret = key is None or key.sensitive
    synonyms = list(layers.values_of(names_of(name)))
    # A key is described with its own value, even if a synonym takes precedence.
    while synonyms and synonyms[0].name != name:
        synonyms = synonyms[1:]
    effective = next(layers.values_of([name]), None)
    text = effective.value if effective and not is_secret else None
    if key is not None and text is not None:
        text = to_text(parse_value(key, text))
    if is_secret:
        synonyms = [synonym.replace(value=None) for synonym in synonyms]
    return DescribedConfig(
        name,
        text,
        name not in BROKER_KEYS.names() or key is None or key.update_mode in {"", "internal"},
        synonyms[0].source if synonyms else DEFAULT_CONFIG,
        is_secret,
        synonyms,
        0 if key is None else TYPES[key.type],
        None if key is None else documentation(BROKER, name),
    )


def _is_wanted(name: str, names: Sequence[str] | None) -> bool:
    return names is None or name in names
