"""The names of options: what an option does that Spark's Kafka connector has, or why it does not.

An option is used, refused with a reason, or without effect, which is printed once with the reason.
A misspelled name is refused with what was probably meant. docs/use/spark-connector.md has the same
as a table.
"""

from __future__ import annotations

import sys
from difflib import get_close_matches

from kraftlog.client.security import KEYS as SECURITY_KEYS
from kraftlog.errors import ConfigError
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PREFIX = "kafka."
_SECURITY = ("kafka.sasl.", "kafka.ssl.")
_NO_GROUP = "no consumer group is joined"
_TUNES_JAVA = "tunes Kafka's Java clients"
_TRIES_UNTIL_TIMEOUT = "offsets are looked up until kafkaConsumer.pollTimeoutMs is over"
#: Options that Spark itself uses, and hands to sources and sinks with the others.
_SPARKS = frozenset(
    {
        "asyncprogresstrackingcheckpointintervalms",
        "asyncprogresstrackingenabled",
        "checkpointlocation",
        "queryname",
    }
)
#: How similar a misspelled name is to the one that was meant, from 0 to 1. Settings of Kafka's
#: clients that differ, such as client.id and client.rack, are up to 0.7.
_SIMILAR, _SIMILAR_SETTING = 0.67, 0.85
#: A part of a name with this many letters is taken for the name: `offsets`, `headers`.
_MIN_PART = 7


class OptionNames:
    """The options that a source or a sink uses, refuses, or leaves without effect.

    The last two have reasons. Other settings of Kafka's clients are without effect.
    """

    def __init__(
        self,
        *,
        used: Iterable[str],
        refused: Mapping[str, str],
        without_effect: Mapping[str, str],
    ) -> None:
        self.used, self.refused, self.without_effect = tuple(used), refused, without_effect
        self._spellings = {name.lower(): name for name in (*self.used, *refused)}
        self._reasons = {name.lower(): (name, why) for name, why in without_effect.items()}

    def check(self, given: Iterable[str]) -> None:
        """Raise ConfigError for a name that is refused or misspelled."""
        for name in given:
            for refused, reason in self.refused.items():
                if name.lower() == refused.lower():
                    raise ConfigError(f"option {refused} can't be set: {reason}")
            meant = self._meant(name.lower())
            if meant is not None:
                raise ConfigError(f"option {name} is unknown: did you mean {meant}?")

    def ignored(self, given: Iterable[str]) -> dict[str, str]:
        """The names without effect among the given ones, with reasons; `check` has passed."""
        return dict(
            self._reasons.get(name.lower()) or (name, self._other_reason(name.lower()))
            for name in given
            if name.lower() not in self._spellings and name.lower() not in _SPARKS
        )

    def _other_reason(self, name: str) -> str:
        if name.startswith(_SECURITY):
            return "it is for Java's TLS and SASL"
        return _TUNES_JAVA if name.startswith(PREFIX) else "unknown"

    def _meant(self, name: str) -> str | None:
        """The option that an unknown name probably stands for."""
        if name in self._spellings or name in self._reasons or name in _SPARKS:
            return None
        if PREFIX + name in self._spellings:
            return self._spellings[PREFIX + name]
        is_setting = name.startswith(PREFIX)
        name = name.removeprefix(PREFIX)
        spellings = {
            known.removeprefix(PREFIX): spelling
            for known, spelling in self._spellings.items()
            if known.startswith(PREFIX) or not is_setting
        }
        cutoff = _SIMILAR_SETTING if is_setting else _SIMILAR
        near = get_close_matches(name, spellings, n=1, cutoff=cutoff)
        near += [known for known in spellings if name in known and len(name) >= _MIN_PART]
        return spellings[near[0]] if near else None


_OPTIONS_OF_BOTH = (
    "kafka.bootstrap.servers",
    "kafka.client.id",
    *(f"kafka.{key}" for key in SECURITY_KEYS),
)
_OPTIONS_OF_SOURCE = (
    "subscribe",
    "subscribePattern",
    "assign",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsets",
    "startingOffsetsByTimestampStrategy",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "endingOffsets",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "rememberTopicIds",
    "includeHeaders",
    "kafkaConsumer.pollTimeoutMs",
    "kafka.isolation.level",
    "kafka.max.partition.fetch.bytes",
)
_OPTIONS_OF_SINK = (
    "topic",
    "batchHeader",
    "kafka.acks",
    "kafka.enable.idempotence",
    "kafka.compression.type",
    "kafka.compression.gzip.level",
    "kafka.compression.lz4.level",
    "kafka.compression.zstd.level",
    "kafka.batch.size",
    "kafka.max.in.flight.requests.per.connection",
    "kafka.request.timeout.ms",
    "kafka.delivery.timeout.ms",
    "kafka.partitioner.ignore.keys",
)
_OF_STREAMS = (
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "rememberTopicIds",
)
_IS_TEXT = "keys and values are text or bytes already"
_READS_BYTES = "keys and values are read as bytes; cast or decode the columns"
_NO_CLASSES = "Java classes can't be run"

_REFUSED_READING = {
    "kafka.auto.offset.reset": "use startingOffsets to choose where to start",
    "kafka.enable.auto.commit": f"{_NO_GROUP}, and Spark's checkpoint has the offsets",
    "kafka.key.deserializer": _READS_BYTES,
    "kafka.value.deserializer": _READS_BYTES,
    "kafka.interceptor.classes": _NO_CLASSES,
}
_REFUSED_WRITING = {
    "kafka.transactional.id": "the sink has no transactions; records are written at least once",
    "kafka.key.serializer": _IS_TEXT,
    "kafka.value.serializer": _IS_TEXT,
    "kafka.partitioner.class": f"{_NO_CLASSES}; set the column partition instead",
    "kafka.interceptor.classes": _NO_CLASSES,
}

SOURCE = OptionNames(
    used=(*_OPTIONS_OF_BOTH, *_OPTIONS_OF_SOURCE),
    refused=_REFUSED_READING,
    without_effect={
        **dict.fromkeys(_REFUSED_WRITING, "is for writing"),
        **dict.fromkeys(_OPTIONS_OF_SINK, "is for writing"),
        "fetchOffset.numRetries": _TRIES_UNTIL_TIMEOUT,
        "fetchOffset.retryIntervalMs": _TRIES_UNTIL_TIMEOUT,
        "groupIdPrefix": _NO_GROUP,
        "kafka.group.id": _NO_GROUP,
        "path": "use subscribe to name topics",
    },
)
SINK = OptionNames(
    used=(*_OPTIONS_OF_BOTH, *_OPTIONS_OF_SINK),
    refused=_REFUSED_WRITING,
    without_effect={
        **dict.fromkeys(_REFUSED_READING, "is for reading"),
        **dict.fromkeys(_OPTIONS_OF_SOURCE, "is for reading"),
        "includeHeaders": "a column headers is always written",
        "path": "use topic to name the topic",
    },
)


def ignored_in_batches(given: Iterable[str]) -> dict[str, str]:
    """The options of streams among the given ones, which have no effect on a batch."""
    lower_case = {name.lower() for name in given}
    return {each: "is for streams" for each in _OF_STREAMS if each.lower() in lower_case}


_reported: set[str] = set()


def report(ignored: Mapping[str, str]) -> None:
    """Print options without effect as one line on standard error, once in a process."""
    if not ignored:
        return
    names = ", ".join(f"{name} ({reason})" for name, reason in sorted(ignored.items()))
    line = f"kraftlog: options without effect: {names}"
    if line not in _reported:
        _reported.add(line)
        print(line, file=sys.stderr, flush=True)
