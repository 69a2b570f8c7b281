"""`kraftlog consume`: the flags of `kafka-console-consumer`."""

from __future__ import annotations

import signal
import struct
import sys
from contextlib import contextmanager, suppress

from kraftlog.cli.common import (
    UsageError,
    client_properties,
    matching,
    new_parser,
    parse_pairs,
    require_true_or_false,
    run_with_client,
)
from kraftlog.cli.show import Progress
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kraftlog.client.client import Client
    from kraftlog.client.consumer import Consumer
    from kraftlog.client.model import ConsumedRecord, PartitionName

#: Formatter properties and their defaults.
FORMATTER_DEFAULTS = {
    "print.timestamp": "false",
    "print.key": "false",
    "print.offset": "false",
    "print.partition": "false",
    "print.epoch": "false",
    "print.headers": "false",
    "print.value": "true",
    "key.separator": "\t",
    "line.separator": "\n",
    "headers.separator": ",",
    "null.literal": "null",
    "key.deserializer": "",
    "value.deserializer": "",
    "headers.deserializer": "",
}
#: The class names of Kafka's formatters: for all records, for no output, for coordinator records.
DEFAULT, NOTHING = "DefaultMessageFormatter", "NoOpMessageFormatter"
FORMATTERS = (
    *(DEFAULT, NOTHING, "OffsetsMessageFormatter"),
    *("GroupMetadataMessageFormatter", "TransactionLogMessageFormatter"),
)
ISOLATION_LEVELS = ("read_committed", "read_uncommitted")
#: The `struct` formats of Kafka's deserializers of numbers.
_STRUCT_FORMATS = {"Short": ">h", "Integer": ">i", "Long": ">q", "Float": ">f", "Double": ">d"}


def _parser() -> argparse.ArgumentParser:
    import argparse

    from kraftlog.client.command_parser import whole_number

    parser = new_parser(
        "consume",
        "Read topics and print their records.",
        "--topic demo --from-beginning --formatter-property print.key=true",
    )
    parser.add_argument("--topic", metavar="NAME")
    parser.add_argument("--include", metavar="REGEX", help="topics that match")
    parser.add_argument("--partition", type=whole_number(), metavar="N", help="only this partition")
    parser.add_argument(
        "--offset",
        metavar="OFFSET",
        help="start offset: N, earliest, latest; if N is out of range, the command says so and "
        "continues at auto.offset.reset (latest)",
    )
    parser.add_argument("--from-beginning", action="store_true")
    parser.add_argument("--group", metavar="ID", help="consumer group id")
    parser.add_argument(
        "--max-messages", type=whole_number(-1), metavar="N", help="exit after N messages"
    )
    parser.add_argument(
        "--timeout-ms", type=whole_number(), metavar="MS", help="exit after MS without a message"
    )
    parser.add_argument(
        "--isolation-level",
        choices=ISOLATION_LEVELS,
        help="default: the property isolation.level, or else read_uncommitted",
    )
    parser.add_argument(
        *("--formatter-property", "--property"),
        dest="formatter_property",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help=f"formatter property: {', '.join(FORMATTER_DEFAULTS)}",
    )
    parser.add_argument("--formatter-config", metavar="FILE", help="formatter properties file")
    parser.add_argument(
        "--formatter",
        type=lambda name: name.rpartition(".")[2],
        choices=FORMATTERS,
        default=DEFAULT,
        metavar="CLASS",
        help=f"formatter: {', '.join(FORMATTERS)}",
    )
    parser.add_argument("--key-deserializer", metavar="CLASS", help="String, Long, Integer, …")
    parser.add_argument("--value-deserializer", metavar="CLASS")
    parser.add_argument(
        *("--command-property", "--consumer-property"),
        dest="command_property",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="consumer property: group.id, auto.offset.reset, isolation.level",
    )
    parser.add_argument("--consumer.config", dest="command_config", help=argparse.SUPPRESS)
    parser.add_argument(
        "--skip-message-on-error",
        action="store_true",
        help="skip messages that cannot be formatted",
    )
    return parser


def run(arguments: Sequence[str]) -> int:
    return run_with_client("consume", _parser().parse_args(arguments), _consume)


def _consume(client: Client, options: argparse.Namespace) -> None:
    properties = client_properties(options.command_config, options.command_property)
    group = options.group or properties.get("group.id")
    if options.partition is not None and group:
        raise UsageError("--partition does not work with --group: the group assigns partitions")
    if options.offset is not None and options.partition is None:
        raise UsageError("--offset needs --partition")
    if options.offset is not None and options.from_beginning:
        raise UsageError("give either --offset or --from-beginning")
    isolation = options.isolation_level or properties.get("isolation.level", "read_uncommitted")
    if isolation not in ISOLATION_LEVELS:
        raise UsageError(f"isolation.level={isolation}: expected {' or '.join(ISOLATION_LEVELS)}")
    format_record = _json_line if options.json else _formatter(options)
    reset = _reset(options, properties)
    consumer = client.consume(
        _topics(client, options),
        _start(options, reset),
        partitions=None if options.partition is None else [options.partition],
        group=group,
        timeout_s=None if options.timeout_ms is None else options.timeout_ms / 1000,
        isolation=isolation,
        reset=reset,
        on_reset=_report_reset,
    )
    with _interrupted_by_sigterm(), consumer:
        _print_records(consumer, format_record, options)


@contextmanager
def _interrupted_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end the command as Ctrl-C does: commit offsets and leave the group."""
    old_handler = None
    with suppress(ValueError):  # only the main thread may set handlers
        old_handler = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        if old_handler is not None:
            signal.signal(signal.SIGTERM, old_handler)


def _print_records(
    consumer: Consumer,
    format_record: Callable[[ConsumedRecord], bytes],
    options: argparse.Namespace,
) -> None:
    progress = Progress("records read")
    output = sys.stdout.buffer
    try:
        while progress.count != options.max_messages:
            record = next(consumer, None)
            if record is None:
                break
            try:
                output.write(format_record(record))
            except (struct.error, ValueError) as error:
                if not options.skip_message_on_error:
                    position = f"{record.topic}-{record.partition} at offset {record.offset}"
                    raise ValueError(f"cannot format the record in {position}: {error}") from None
            progress.add(1)
            if not consumer.has_more:
                output.flush()
    finally:
        progress.end()
        output.flush()
    count = progress.count
    print(f"{count} record{'s'[: count != 1]} read", file=sys.stderr)


def _topics(client: Client, options: argparse.Namespace) -> list[str]:
    if (options.topic is None) == (options.include is None):
        raise UsageError("give either --topic or --include")
    if options.topic is not None:
        return [options.topic]
    topics = matching([topic.name for topic in client.topics()], options.include)
    if not topics:
        raise ValueError(f"no topic matches {options.include}")
    return topics


def _report_reset(name: PartitionName, old: int, new: int) -> None:
    """Kafka's consumer logs this; without a word, the command would seem to wait for nothing."""
    where = "below the first offset" if old < new else "beyond the end of the log"
    print(
        f"kraftlog consume: {name[0]}-{name[1]}: offset {old} is out of range, {where}; reading "
        f"continues at offset {new} (auto.offset.reset)",
        file=sys.stderr,
        flush=True,
    )


def _reset(options: argparse.Namespace, properties: Mapping[str, str]) -> str:
    """Where to start without an offset, and to continue if an offset is out of range."""
    reset = properties.get("auto.offset.reset", "latest")
    if reset not in {"earliest", "latest"}:
        raise UsageError(f"auto.offset.reset={reset}: expected earliest or latest")
    return "beginning" if options.from_beginning or reset == "earliest" else "end"


def _start(options: argparse.Namespace, reset: str) -> str | int:
    if options.offset is not None:
        if options.offset in {"earliest", "latest"}:
            return "beginning" if options.offset == "earliest" else "end"
        if not _is_offset(options.offset):
            raise UsageError(f"--offset {options.offset}: expected N, earliest or latest")
        return int(options.offset)
    return reset


def _is_offset(text: str) -> bool:
    from kraftlog.client.arguments import MAX_INT64

    return text.isascii() and text.isdecimal() and int(text) <= MAX_INT64


def _formatter_properties(options: argparse.Namespace) -> dict[str, str]:
    from kraftlog.config.properties import parse

    properties: dict[str, str] = {}
    if options.formatter_config:
        with open(options.formatter_config, encoding="utf-8") as file:
            properties.update(parse(file.read()))
    for key, value in parse_pairs(options.formatter_property).items():
        properties[key] = value.replace("\\t", "\t").replace("\\n", "\n")
    for part in ("key", "value"):
        deserializer = getattr(options, f"{part}_deserializer")
        if deserializer:
            properties[f"{part}.deserializer"] = deserializer
    require_true_or_false(properties, FORMATTER_DEFAULTS)
    unknown = sorted(set(properties) - set(FORMATTER_DEFAULTS))
    if unknown:
        raise UsageError(
            f"--formatter-property {unknown[0]}: expected one of {', '.join(FORMATTER_DEFAULTS)}"
        )
    return properties


class Formatter:
    """Formats records as lines, with the requested parts in the order of Kafka's formatter."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._printed = {key for key, value in properties.items() if value == "true"}
        self._separator = properties["key.separator"].encode()
        self._end = properties["line.separator"].encode()
        self._headers_separator = properties["headers.separator"].encode()
        self._null = properties["null.literal"].encode()
        self._read_key = _deserializer(properties["key.deserializer"])
        self._read_value = _deserializer(properties["value.deserializer"])
        self._read_header = _deserializer(properties["headers.deserializer"])

    def format(self, record: ConsumedRecord) -> bytes:
        parts: dict[str, Callable[[ConsumedRecord], bytes]] = {
            "print.timestamp": self._timestamp,
            "print.partition": lambda record: b"Partition:%d" % record.partition,
            "print.offset": lambda record: b"Offset:%d" % record.offset,
            "print.epoch": lambda record: b"Epoch:%d" % record.leader_epoch,
            "print.headers": self._headers,
            "print.key": lambda record: self._field_bytes(record.key, self._read_key),
            "print.value": lambda record: self._field_bytes(record.value, self._read_value),
        }
        printed = [part(record) for key, part in parts.items() if key in self._printed]
        return self._separator.join(printed) + self._end

    @staticmethod
    def _timestamp(record: ConsumedRecord) -> bytes:
        if record.timestamp_ms < 0:
            return b"NO_TIMESTAMP"
        kind = b"LogAppendTime" if record.has_log_append_time else b"CreateTime"
        return b"%s:%d" % (kind, record.timestamp_ms)

    def _headers(self, record: ConsumedRecord) -> bytes:
        texts = [
            name.encode("utf-8", "surrogateescape")
            + b":"
            + self._field_bytes(value, self._read_header)
            for name, value in record.headers
        ]
        return self._headers_separator.join(texts) if texts else b"NO_HEADERS"

    def _field_bytes(self, data: bytes | None, read: Callable[[bytes], bytes]) -> bytes:
        return self._null if data is None else read(data)


def _deserializer(name: str) -> Callable[[bytes], bytes]:
    """The function that formats bytes: as text, or as a number, by Kafka's deserializer."""
    short = name.rpartition(".")[2].removesuffix("Deserializer")
    if short in {"", "String", "ByteArray", "Bytes", "ByteBuffer"}:
        return lambda data: data
    if short not in _STRUCT_FORMATS:
        raise UsageError(
            f"{name}: expected String, ByteArray or one of {', '.join(_STRUCT_FORMATS)}"
        )
    number_format = struct.Struct(_STRUCT_FORMATS[short])

    def read(data: bytes) -> bytes:
        if len(data) != number_format.size:
            needed = f"{short} has {number_format.size} bytes"
            raise ValueError(f"{needed}, and there are {len(data)}")
        return str(number_format.unpack(data)[0]).encode()

    return read


def _formatter(options: argparse.Namespace) -> Callable[[ConsumedRecord], bytes]:
    if options.formatter == DEFAULT:
        return Formatter(FORMATTER_DEFAULTS | _formatter_properties(options)).format
    if options.formatter == NOTHING:
        return _format_nothing
    from kraftlog.cli.coordinator_text import formatter

    return formatter(options.formatter)


def _format_nothing(record: ConsumedRecord) -> bytes:  # noqa: ARG001 - formatters are called alike
    return b""


def _json_line(record: ConsumedRecord) -> bytes:
    """A record as a line of JSON; bytes that are not UTF-8 are base64, as in `key_base64`."""
    import json

    result: dict[str, object] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "leader_epoch": record.leader_epoch,
        **_readable("key", record.key),
        **_readable("value", record.value),
    }
    result["headers"] = [
        {"name": name.encode("utf-8", "replace").decode(), **_readable("value", value)}
        for name, value in record.headers
    ]
    return json.dumps(result).encode() + b"\n"


def _readable(name: str, data: bytes | None) -> dict[str, str | None]:
    import binascii

    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": binascii.b2a_base64(data, newline=False).decode()}
