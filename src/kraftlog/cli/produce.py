"""`kraftlog produce`: the flags of `kafka-console-producer`."""

from __future__ import annotations

import os
import sys

from kraftlog.cli.common import (
    UsageError,
    client_properties,
    new_parser,
    parse_pairs,
    require_true_or_false,
    run_with_client,
    usage_errors,
)
from kraftlog.cli.show import Progress, escaped, print_json
from kraftlog.client.properties import whole_number_property
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

    from kraftlog.client.client import Client
    from kraftlog.client.producer import Producer
    from kraftlog.records.record import Header

#: Properties of the line reader and their defaults.
READER_DEFAULTS = {
    "parse.key": "false",
    "parse.headers": "false",
    "ignore.error": "false",
    "key.separator": "\t",
    "headers.delimiter": "\t",
    "headers.separator": ",",
    "headers.key.separator": ":",
    "null.marker": "",
}
#: Kafka's name of the supported line reader.
LINE_READER = "org.apache.kafka.tools.LineMessageReader"
#: Supported producer properties.
KNOWN_PROPERTIES = {
    "acks",
    "batch.size",
    "client.id",
    "compression.type",
    "default.api.timeout.ms",
    "enable.idempotence",
    "linger.ms",
    "security.protocol",
}
#: Accepted for existing scripts; they have no effect.
_WITHOUT_EFFECT = (
    "max-memory-bytes",
    "message-send-max-retries",
    "metadata-expiry-ms",
    "request-timeout-ms",
    "retry-backoff-ms",
    "socket-buffer-size",
)
_READ_SIZE = 64 << 10


def _parser() -> argparse.ArgumentParser:
    import argparse

    from kraftlog.client.command_parser import whole_number

    parser = new_parser(
        "produce",
        "Write each line of standard input to a topic.",
        "--topic demo --reader-property parse.key=true --reader-property key.separator=:",
    )
    parser.add_argument("--topic", required=True, metavar="NAME")
    parser.add_argument(
        "--compression-codec",
        nargs="?",
        const="gzip",
        metavar="CODEC",
        help="none, gzip (if no codec is given), snappy, lz4, zstd",
    )
    parser.add_argument("--request-required-acks", metavar="ACKS", help="0, 1, all; default: all")
    parser.add_argument(
        "--sync", action="store_true", help="wait for each record's acknowledgement"
    )
    parser.add_argument(
        *("--batch-size", "--max-partition-memory-bytes"),
        type=whole_number(),
        metavar="BYTES",
        help="batch size; default: 131072",
    )
    parser.add_argument(
        "--timeout", type=whole_number(), metavar="MS", help="linger time of a batch; default: 1000"
    )
    parser.add_argument(
        "--max-block-ms", type=whole_number(), metavar="MS", help="longest time to block on send"
    )
    parser.add_argument(
        *("--reader-property", "--property"),
        dest="reader_property",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help=f"reader property: {', '.join(READER_DEFAULTS)}",
    )
    parser.add_argument("--reader-config", metavar="FILE", help="reader properties file")
    parser.add_argument(
        *("--command-property", "--producer-property"),
        dest="command_property",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="producer property: acks, compression.type, …",
    )
    parser.add_argument("--producer.config", dest="command_config", help=argparse.SUPPRESS)
    parser.add_argument("--line-reader", choices=(LINE_READER,), help=argparse.SUPPRESS)
    for name in _WITHOUT_EFFECT:
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    return parser


def run(arguments: Sequence[str]) -> int:
    return run_with_client("produce", _parser().parse_args(arguments), _produce)


def _produce(client: Client, options: argparse.Namespace) -> None:
    properties = client_properties(options.command_config, options.command_property)
    for key in sorted(set(properties) - KNOWN_PROPERTIES):
        print(f"kraftlog produce: {key} is not supported and has no effect", file=sys.stderr)
    reader = LineReader(READER_DEFAULTS | _reader_properties(options))
    if options.max_block_ms is not None:
        client.cluster.timeout_s = options.max_block_ms / 1000
    linger_ms = options.timeout
    progress = Progress("records written")
    with usage_errors():
        if linger_ms is None:
            linger_ms = whole_number_property(properties, "linger.ms", 1000)
        batch_size = whole_number_property(properties, "batch.size", 128 << 10)
        producer = client.producer(
            acks=options.request_required_acks or properties.get("acks", "all"),
            compression=options.compression_codec or properties.get("compression.type", "none"),
            idempotent=properties.get("enable.idempotence", "true") == "true",
            batch_size=options.batch_size or batch_size,
            acknowledged=progress.add,
        )
    try:
        client.cluster.topic(options.topic, may_create=True)
        _send_lines(producer, reader, options, linger_ms)
    finally:
        progress.end()
    if options.json:
        print_json({"records": progress.count})


def _send_lines(
    producer: Producer, reader: LineReader, options: argparse.Namespace, linger_ms: int
) -> None:
    """Send each line as a record; flush after a pause in the input."""
    has_unsent = False
    for number, line in enumerate(lines(sys.stdin.fileno(), linger_ms), 1):
        if line is None:
            if has_unsent:
                producer.flush()
            has_unsent = False
            continue
        try:
            key, value, headers = reader.read(line, number)
        except ValueError:
            producer.flush()  # earlier lines are valid
            raise
        producer.send(options.topic, value, key=key, headers=headers)
        has_unsent = True
        if options.sync:
            producer.flush()
    producer.flush()


def lines(descriptor: int, linger_ms: int) -> Iterator[bytes | None]:
    """Yield input lines without line ends, and None after each pause of at least `linger_ms`."""
    import select

    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    incomplete = b""
    while True:
        try:
            is_quiet = not poller.poll(linger_ms)
        except OSError:  # regular files cannot be polled, and need not be
            is_quiet = False
        if is_quiet:
            yield None
            poller.poll()
        chunk = os.read(descriptor, _READ_SIZE)
        if not chunk:
            break
        *complete, incomplete = (incomplete + chunk).split(b"\n")
        for line in complete:
            yield line.removesuffix(b"\r")
    if incomplete:
        yield incomplete


def _reader_properties(options: argparse.Namespace) -> dict[str, str]:
    from kraftlog.config.properties import parse

    properties: dict[str, str] = {}
    if options.reader_config:
        with open(options.reader_config, encoding="utf-8") as file:
            properties.update(parse(file.read()))
    # In a shell argument a tab is written as \t.
    properties.update(
        {k: v.replace("\\t", "\t") for k, v in parse_pairs(options.reader_property).items()}
    )
    require_true_or_false(properties, READER_DEFAULTS)
    unknown = sorted(set(properties) - set(READER_DEFAULTS))
    if unknown:
        raise UsageError(
            f"--reader-property {unknown[0]}: expected one of {', '.join(READER_DEFAULTS)}"
        )
    return properties


def _shown(data: bytes) -> str:
    """Bytes of the input in an error: as quoted text, with escapes for what is not printable."""
    return f'"{escaped(data)}"'


class LineReader:
    """Splits a line into headers, key and value, as configured."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._has_key = properties["parse.key"] == "true"
        self._has_headers = properties["parse.headers"] == "true"
        self._ignores_errors = properties["ignore.error"] == "true"
        self._key_separator = properties["key.separator"].encode()
        self._delimiter = properties["headers.delimiter"].encode()
        self._header_separator = properties["headers.separator"].encode()
        self._header_key_separator = properties["headers.key.separator"].encode()
        self._null = properties["null.marker"].encode()
        if self._has_key and self._key_separator == b"":
            raise UsageError("key.separator is empty")

    def read(self, line: bytes, number: int) -> tuple[bytes | None, bytes | None, Sequence[Header]]:
        """Key, value and headers."""
        headers: Sequence[Header] = ()
        key: bytes | None = None
        if self._has_headers:
            text, line = self._split(line, self._delimiter, number, "headers")
            if text is not None and text != self._null:
                headers = [self._header(each, number) for each in self._header_texts(text)]
        if self._has_key:
            key, line = self._split(line, self._key_separator, number, "key")
        return self._or_null(key), self._or_null(line), headers

    def _header_texts(self, text: bytes) -> list[bytes]:
        return [each for each in text.split(self._header_separator) if each]

    def _split(
        self, line: bytes, separator: bytes, number: int, part: str
    ) -> tuple[bytes | None, bytes]:
        before, separator_found, after = line.partition(separator)
        if not separator_found:
            if self._ignores_errors:
                return None, line
            raise ValueError(f"line {number} has no {part}: {_shown(separator)} not found")
        return before, after

    def _header(self, text: bytes, number: int) -> Header:
        name, separator_found, value = text.partition(self._header_key_separator)
        if not separator_found and not self._ignores_errors:
            raise ValueError(
                f"line {number}: header {_shown(text)} has no value: "
                f"{_shown(self._header_key_separator)} not found"
            )
        header_value = self._or_null(value) if separator_found else None
        return name.decode("utf-8", "surrogateescape"), header_value

    def _or_null(self, text: bytes | None) -> bytes | None:
        return None if self._null and text == self._null else text
