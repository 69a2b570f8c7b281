"""The speed of encoding and decoding messages, compared with kio and kafka-python in the same run.

python -m bench.wire            every row
python -m bench.wire metadata   rows with that word in their name
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from functools import partial
from importlib import import_module
from io import BytesIO
from random import Random
from typing import TYPE_CHECKING, Any

from kio.serial import entity_reader, entity_writer
from tests.wire.samples import Sampler

from bench.messages import SAMPLES, Sample, metadata_response_of_pieces
from kraftlog.wire.apis import APIS
from kraftlog.wire.codec import encode, reader
from kraftlog.wire.messages.headers import RequestHeader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROUNDS = 9
ROUND_SECONDS = 0.02


def best_us(
    call: Callable[[], object], rounds: int = ROUNDS, round_seconds: float = ROUND_SECONDS
) -> float:
    """Microseconds per call in the fastest of several rounds."""
    count, took = 1, 0.0
    while took < round_seconds / 4:
        count *= 2
        took = seconds_of(call, count)
    count = max(1, int(count * round_seconds / took))
    return min([seconds_of(call, count) for _ in range(rounds)]) / count * 1e6


def seconds_of(call: Callable[[], object], count: int) -> float:
    repeat = [None] * count
    begin = time.perf_counter()
    for _ in repeat:
        call()
    return time.perf_counter() - begin


def kio_class(sample: Sample) -> Any:
    name = type(sample.message).__name__
    kind = "request" if name.endswith("Request") else "response"
    package = type(sample.message).__module__.rsplit(".", 1)[1]
    return getattr(import_module(f"kio.schema.{package}.v{sample.version}.{kind}"), name)


def kafka_python_class(sample: Sample) -> Any:
    for package in ("producer", "consumer", "metadata"):
        cls = getattr(
            import_module(f"kafka.protocol.{package}"), type(sample.message).__name__, None
        )
        if cls is not None:
            return cls
    raise LookupError(f"kafka-python has no {type(sample.message).__name__}")


def decoders(sample: Sample, raw: bytes) -> Iterator[tuple[str, Callable[[], object]]]:
    read = reader(type(sample.message), sample.version)
    yield "kraftlog", lambda: read(raw, 0, len(raw))
    kio_read = entity_reader(kio_class(sample))
    yield "kio", lambda: kio_read(raw, 0)
    theirs = kafka_python_class(sample)
    yield "kafka-python", lambda: theirs.decode(raw, version=sample.version)


def encoders(sample: Sample, raw: bytes) -> Iterator[tuple[str, Callable[[], object]]]:
    yield "kraftlog", lambda: encode(sample.message, sample.version)
    cls = kio_class(sample)
    kio_write, (kio_message, _) = entity_writer(cls), entity_reader(cls)(raw, 0)

    def write_with_kio() -> bytes:
        out = BytesIO()
        kio_write(out, kio_message)
        return out.getvalue()

    assert write_with_kio() == raw
    yield "kio", write_with_kio
    theirs = kafka_python_class(sample).decode(raw, version=sample.version)
    theirs._header = None  # kafka-python does not set it when it decodes without a header
    yield "kafka-python", lambda: theirs.encode(version=sample.version)


def message_cases() -> Iterator[tuple[str, float, str]]:
    for sample in SAMPLES:
        raw = encode(sample.message, sample.version)
        if sample.decoded:
            for library, call in decoders(sample, raw):
                yield f"decode {sample.name}, {library}", best_us(call), "µs"
        if sample.encoded:
            for library, call in encoders(sample, raw):
                yield f"encode {sample.name}, {library}", best_us(call), "µs"


def request_cases() -> Iterator[tuple[str, float, str]]:
    """A Produce request, decoded with its header."""
    sample = SAMPLES[0]
    header = RequestHeader(
        request_api_key=0, request_api_version=9, correlation_id=7, client_id="rdkafka"
    )
    raw = encode(header, 2) + encode(sample.message, 9)
    read_header, read = reader(RequestHeader, 2), reader(type(sample.message), 9)

    def ours() -> object:
        _, pos = read_header(raw, 0, len(raw))
        return read(raw, pos, len(raw))

    kio_header = entity_reader(import_module("kio.schema.request_header.v2.header").RequestHeader)
    kio_body = entity_reader(kio_class(sample))

    def kio() -> object:
        _, size = kio_header(raw, 0)
        return kio_body(raw, size)

    theirs = kafka_python_class(sample)
    name = f"decode {sample.name} with header"
    yield f"{name}, kraftlog", best_us(ours), "µs"
    yield f"{name}, kio", best_us(kio), "µs"
    yield f"{name}, kafka-python", best_us(lambda: theirs.decode(raw, 9, header=True)), "µs"


def piece_cases() -> Iterator[tuple[str, float, str]]:
    message, version = metadata_response_of_pieces()
    name = "encode Metadata v12 response, 1000 partitions, topics kept as pieces"
    yield f"{name}, kraftlog", best_us(lambda: encode(message, version)), "µs"


def breadth_cases() -> Iterator[tuple[str, float, str]]:
    """Every API in its newest version with random values, compared with kio."""
    worst, slowest = 0.0, ""
    for api in APIS.values():
        for cls in (api.request(), api.response()) if api.key < 1000 else ():
            message = Sampler(Random(5), kio_ranges=True).message(cls, api.last)
            sample = Sample(cls.__name__, message, api.last)
            raw = encode(message, api.last)
            read, theirs = reader(cls, api.last), entity_reader(kio_class(sample))
            ours = best_us(partial(read, raw, 0, len(raw)), 9, 0.004)
            ratio = ours / best_us(partial(theirs, raw, 0), 9, 0.004)
            worst, slowest = max((worst, slowest), (ratio, sample.name))
    yield f"decode any API, the time of kio, at worst ({slowest})", worst, "x"


DEFINE_ALL = """
import sys, time
from pkgutil import iter_modules
from importlib import import_module
import kraftlog.wire.schema
from kraftlog.wire import messages
names = [f"{messages.__name__}.{m.name}" for m in iter_modules(messages.__path__)]
begin = time.perf_counter()
for name in names:
    import_module(name)
print(time.perf_counter() - begin)
"""
PRODUCE_ONLY = """
import time
begin = time.perf_counter()
import kraftlog.wire.codec
from kraftlog.wire.apis import APIS
for key in (18, 3, 22, 0):
    APIS[key].request(), APIS[key].response()
import kraftlog.wire.messages.headers
print(time.perf_counter() - begin)
"""


def fresh_process_ms(program: str) -> float:
    """The time that a program measures in a new interpreter, with cached bytecode."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", program]
    return 1000 * min(
        [float(subprocess.check_output(command, env=environment)) for _ in range(ROUNDS + 1)]
    )


def start_cases() -> Iterator[tuple[str, float, str]]:
    yield "define every message class", fresh_process_ms(DEFINE_ALL), "ms"
    yield "import what a producer's connection uses", fresh_process_ms(PRODUCE_ONLY), "ms"


def cases() -> Iterator[tuple[str, float, str]]:
    yield from request_cases()
    yield from message_cases()
    yield from piece_cases()
    yield from breadth_cases()
    yield from start_cases()


def main() -> None:
    words = sys.argv[1:]
    for name, value, unit in cases():
        if all(word.lower() in name.lower() for word in words):
            print(f"{value:10.2f} {unit}  {name}", flush=True)


if __name__ == "__main__":
    main()
