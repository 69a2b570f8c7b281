"""`ConfigLayers`: the effective broker configs, dynamic and static.

Precedence: dynamic of this broker, dynamic of all brokers, file, default. A key may have several
names (`log.retention.ms`, `.minutes`, `.hours`); within a layer the first one wins.
"""

from __future__ import annotations

from kraftlog.config.keys import BROKER_KEYS, base_name
from kraftlog.config.values import default_of, parse_value, to_text
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from kraftlog.config.keys import Key

# Kafka's names of the sources of a value, with their numbers in responses.
DYNAMIC_TOPIC_CONFIG = 1
DYNAMIC_BROKER_CONFIG = 2
DYNAMIC_DEFAULT_BROKER_CONFIG = 3
STATIC_BROKER_CONFIG = 4
DEFAULT_CONFIG = 5
DYNAMIC_CLIENT_METRICS_CONFIG = 7
DYNAMIC_GROUP_CONFIG = 8


class ConfigSynonym(Value):
    """A value of a config, with the key and the source that set it; a sensitive value is None."""

    name: str
    value: str | None
    source: int


class ConfigLayers:
    """The layers of a broker's configs, as texts by key.

    The mappings must not be modified, because effective values are cached.
    """

    __slots__ = ("_inherited", "all_brokers", "broker", "file")

    def __init__(
        self,
        file: Mapping[str, str],
        all_brokers: Mapping[str, str] | None = None,
        broker: Mapping[str, str] | None = None,
    ) -> None:
        self.file = file
        self.all_brokers = all_brokers or {}
        self.broker = broker or {}
        self._inherited: dict[str, Any] = {}

    def values_of(self, names: list[str]) -> Iterator[ConfigSynonym]:
        """All values of the keys in order of precedence; the first is effective."""
        for layer, source in (
            (self.broker, DYNAMIC_BROKER_CONFIG),
            (self.all_brokers, DYNAMIC_DEFAULT_BROKER_CONFIG),
            (self.file, STATIC_BROKER_CONFIG),
        ):
            yield from [ConfigSynonym(name, layer[name], source) for name in names if name in layer]
        for name in names:
            key = BROKER_KEYS.find(name)
            if key and key.default is not None:
                yield ConfigSynonym(name, key.default, DEFAULT_CONFIG)

    def value(self, name: str) -> Any:
        """The effective value of a broker key; values of its synonyms do not count."""
        key = BROKER_KEYS.find(name)
        if key is None:
            raise KeyError(name)
        texts = [each.value for each in self.values_of([name])]
        return parse_value(key, texts[0]) if texts and texts[0] is not None else None

    def inherited_value(self, key: Key) -> Any:
        """The default of a topic config; None if there is none."""
        if key.name not in self._inherited:
            text = inherited(key, self)[0]
            self._inherited[key.name] = None if text is None else parse_value(key, text)
        return self._inherited[key.name]


def names_of(name: str) -> list[str]:
    """A broker key and its synonyms, in order of precedence."""
    base = base_name(name)
    return [name, base] if base != name else _SYNONYMS.get(name, [name])


_RETENTION = ["log.retention.ms", "log.retention.minutes", "log.retention.hours"]
_ROLL = ["log.roll.ms", "log.roll.hours"]
_JITTER = ["log.roll.jitter.ms", "log.roll.jitter.hours"]
_SYNONYMS = {
    "log.flush.interval.ms": ["log.flush.interval.ms", "log.flush.scheduler.interval.ms"],
    **dict.fromkeys(_RETENTION, _RETENTION),
    **dict.fromkeys(_ROLL, _ROLL),
    **dict.fromkeys(_JITTER, _JITTER),
}


def inherited(key: Key, layers: ConfigLayers) -> tuple[str | None, list[ConfigSynonym]]:
    """The default of a topic or group config, and the values of its broker keys by precedence."""
    factors = dict(key.synonyms)
    values = list(layers.values_of(list(factors)))
    if values and (values[0].source != DEFAULT_CONFIG or default_of(key) is None):
        first = values[0]
        assert first.value is not None
        return _scaled(key, first, factors[first.name]), values
    return to_text(default_of(key)), values


def _scaled(key: Key, synonym: ConfigSynonym, factor: int) -> str | None:
    """A broker value converted to the unit of the key."""
    broker_key = BROKER_KEYS.find(synonym.name)
    assert broker_key is not None
    assert synonym.value is not None
    value = parse_value(broker_key, synonym.value)
    if factor != 1 and value > 0:
        value *= factor
    if key.valid == "-1.." and value < 0:
        value = -1  # brokers treat negative values as unlimited
    return to_text(value)
