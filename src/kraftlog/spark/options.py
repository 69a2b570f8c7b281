"""The options of the source, with the names, defaults and precedence of Spark's Kafka connector.

Options of the consumer (`kafka.*`) fall into three groups. The source uses some. It refuses those
that contradict how it reads, and encryption and authentication, which must not be left out
silently. All others are without effect, as they tune the Java consumer and change no row
(`option_names`).
"""

from __future__ import annotations

import json
import re

from kraftlog.client.fetched_batches import READ_COMMITTED, READ_UNCOMMITTED
from kraftlog.client.security import KEYS, security_of
from kraftlog.errors import ConfigError
from kraftlog.spark.option_names import SOURCE
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from kraftlog.client.model import PartitionName
    from kraftlog.client.security import Security

#: Offsets that stand for the end and the start of a partition.
LATEST, EARLIEST = -1, -2
ASSIGN, SUBSCRIBE, PATTERN = "assign", "subscribe", "subscribepattern"
#: The default of `maxTriggerDelay`: how long a batch may wait for `minOffsetsPerTrigger`.
_DEFAULT_MAX_TRIGGER_DELAY = "15m"
_UNITS_MS = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


class Selection(Value):
    """Which partitions are read: topics by name or pattern, or single partitions."""

    kind: str
    topics: tuple[str, ...] = ()
    pattern: str = ""
    partitions: tuple[PartitionName, ...] = ()


class Limit(Value):
    """Where to start or to end: `LATEST` or `EARLIEST` everywhere, offsets, or timestamps."""

    everywhere: int | None = None
    offsets: tuple[tuple[PartitionName, int], ...] | None = None
    time_ms: int | None = None
    times_ms: tuple[tuple[PartitionName, int], ...] | None = None


class SourceOptions(Value):
    servers: str
    selection: Selection
    starting: Limit
    ending: Limit
    includes_headers: bool = False
    fails_on_data_loss: bool = True
    #: Whether a starting timestamp after the last record means the log end instead of an error.
    is_late_start_latest: bool = False
    max_offsets_per_trigger: int | None = None
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    isolation_level: int = READ_UNCOMMITTED
    timeout_s: float = 120.0
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 900_000
    #: Whether the checkpoint keeps the topic ids beside the offsets (`positions.nested`).
    remembers_topic_ids: bool = False
    fetch_bytes: int | None = None
    client_id: str = "kraftlog-spark"
    security: Security | None = None


class Options:
    """Options by case-insensitive name; the error for an invalid value names its option."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given = {name.lower(): (name, value) for name, value in given.items()}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._given

    def text(self, name: str) -> str | None:
        name_and_value = self._given.get(name.lower())
        return (
            None
            if name_and_value is None or name_and_value[1] is None
            else str(name_and_value[1]).strip()
        )

    def required(self, name: str) -> str:
        value = self.text(name)
        if not value:
            raise ConfigError(f"option {name} must be set")
        return value

    def flag(self, name: str, *, default: bool) -> bool:
        value = (self.text(name) or str(default)).lower()
        if value not in {"true", "false"}:
            raise self.wrong(name, "expected true or false")
        return value == "true"

    def number(self, name: str, *, minimum: int | None = 1) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        try:
            value = int(text)
        except ValueError:
            raise self.wrong(name, "expected a whole number") from None
        if minimum is not None and value < minimum:
            raise self.wrong(name, f"expected at least {minimum}")
        return value

    def duration_ms(self, name: str, default: str) -> int:
        """A duration as Spark writes it: `90s`, `15m`; without a unit, milliseconds."""
        match = re.fullmatch(r"(\d+)\s*([a-z]*)", (self.text(name) or default).lower())
        if match is None or match[2] not in _UNITS_MS:
            raise self.wrong(name, "expected a duration like 90s or 15m")
        return int(match[1]) * _UNITS_MS[match[2]]

    def by_partition(self, name: str) -> tuple[tuple[PartitionName, int], ...] | None:
        """The numbers of a JSON object like `{"topic": {"0": 23, "1": -1}}`, by partition."""
        text = self.text(name)
        if text is None:
            return None
        try:
            return tuple(
                ((topic, int(index)), int(value))
                for topic, partitions in json.loads(text).items()
                for index, value in partitions.items()
            )
        except (ValueError, AttributeError, TypeError):
            raise self.wrong(name, 'expected JSON like {"topic": {"0": 23, "1": -1}}') from None

    def wrong(self, name: str, expected: str) -> ConfigError:
        return ConfigError(f"option {name}={self.text(name)}: {expected}")


def source_options(given: Mapping[str, Any], *, is_stream: bool | None) -> SourceOptions:
    """Parse and check the options of a batch or streaming read; None if that is not known yet."""
    SOURCE.check(given)
    options = Options(given)
    selection = _selection(options)
    min_offsets, max_offsets = (
        options.number(f"{side}OffsetsPerTrigger") for side in ("min", "max")
    )
    if min_offsets is not None and max_offsets is not None and min_offsets > max_offsets:
        raise options.wrong("minOffsetsPerTrigger", f"more than maxOffsetsPerTrigger={max_offsets}")
    starting = _limit(options, "starting", LATEST if is_stream else EARLIEST)
    ending = _limit(options, "ending", LATEST)
    if is_stream is True:
        for name in ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"):
            if name in options:
                raise ConfigError(f"option {name} is for batch reads; a stream has no end")
    elif is_stream is False:
        _check_batch(starting, ending)
    strategy = (options.text("startingOffsetsByTimestampStrategy") or "error").lower()
    if strategy not in {"error", "latest"}:
        raise options.wrong("startingOffsetsByTimestampStrategy", "expected error or latest")
    return SourceOptions(
        servers=options.required("kafka.bootstrap.servers"),
        selection=selection,
        starting=starting,
        ending=ending,
        includes_headers=options.flag("includeHeaders", default=False),
        fails_on_data_loss=options.flag("failOnDataLoss", default=True),
        is_late_start_latest=strategy == "latest",
        max_offsets_per_trigger=max_offsets,
        min_partitions=options.number("minPartitions"),
        max_records_per_partition=options.number("maxRecordsPerPartition"),
        isolation_level=_isolation_level(options),
        timeout_s=(options.number("kafkaConsumer.pollTimeoutMs") or 120_000) / 1000,
        min_offsets_per_trigger=min_offsets,
        max_trigger_delay_ms=options.duration_ms("maxTriggerDelay", _DEFAULT_MAX_TRIGGER_DELAY),
        remembers_topic_ids=options.flag("rememberTopicIds", default=False),
        fetch_bytes=options.number("kafka.max.partition.fetch.bytes"),
        client_id=options.text("kafka.client.id") or "kraftlog-spark",
        security=security_by(options),
    )


def _selection(options: Options) -> Selection:
    given = [name for name in (ASSIGN, SUBSCRIBE, "subscribePattern") if name in options]
    if len(given) != 1:
        raise ConfigError("exactly one of subscribe, subscribePattern and assign must be set")
    if given[0] == SUBSCRIBE:
        names = [name.strip() for name in options.required(SUBSCRIBE).split(",")]
        topics = tuple(dict.fromkeys(filter(None, names)))
        if not topics:
            raise options.wrong(SUBSCRIBE, "expected topics, separated by commas")
        return Selection(SUBSCRIBE, topics=topics)
    if given[0] == "subscribePattern":
        pattern = options.required("subscribePattern")
        try:
            re.compile(pattern)
        except re.error as error:
            raise options.wrong(
                "subscribePattern", f"expected a regular expression of Python, and {error}"
            ) from None
        return Selection(PATTERN, pattern=pattern)
    try:
        partitions = tuple(
            (topic, int(index))
            for topic, indexes in json.loads(options.required(ASSIGN)).items()
            for index in indexes
        )
    except (ValueError, AttributeError, TypeError):
        raise options.wrong(ASSIGN, 'expected JSON like {"topic": [0, 1]}') from None
    return Selection(ASSIGN, partitions=partitions)


def _limit(options: Options, prefix: str, default: int) -> Limit:
    """The limit by the options with this prefix, `starting` or `ending`.

    Precedence: one timestamp, timestamps by partition, offsets.
    """
    if f"{prefix}Timestamp" in options:
        return Limit(time_ms=options.number(f"{prefix}Timestamp", minimum=None))
    if f"{prefix}OffsetsByTimestamp" in options:
        return Limit(times_ms=options.by_partition(f"{prefix}OffsetsByTimestamp"))
    name = f"{prefix}Offsets"
    text = (options.text(name) or "").lower()
    if not text:
        return Limit(everywhere=default)
    if text in {"latest", "earliest"}:
        return Limit(everywhere=LATEST if text == "latest" else EARLIEST)
    if not text.startswith("{"):
        raise options.wrong(name, 'expected earliest, latest or JSON like {"topic": {"0": 23}}')
    return Limit(offsets=options.by_partition(name))


def _check_batch(starting: Limit, ending: Limit) -> None:
    if starting.everywhere == LATEST or LATEST in dict(starting.offsets or ()).values():
        raise ConfigError("option startingOffsets: a batch read can't start at the latest offset")
    if ending.everywhere == EARLIEST or EARLIEST in dict(ending.offsets or ()).values():
        raise ConfigError("option endingOffsets: a batch read can't end at the earliest offset")


def _isolation_level(options: Options) -> int:
    name = "kafka.isolation.level"
    value = (options.text(name) or "read_uncommitted").lower()
    if value not in {"read_committed", "read_uncommitted"}:
        raise options.wrong(name, "expected read_committed or read_uncommitted")
    return READ_COMMITTED if value == "read_committed" else READ_UNCOMMITTED


def security_by(options: Options) -> Security | None:
    """TLS and SASL as the options ask for them."""
    given = {key: options.text(f"kafka.{key}") for key in KEYS}
    properties = {key: text for key, text in given.items() if text is not None}
    return security_of(properties, prefix="option kafka.")
