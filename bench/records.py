"""The cost of record batches on one core: `python -m bench.records`."""

from __future__ import annotations

import os
import tempfile
from time import perf_counter

from kraftlog.records.arrow import to_arrow
from kraftlog.records.builder import BatchBuilder
from kraftlog.records.columns import decode_batches
from kraftlog.records.compression import CODEC_NAMES, compress, decompress
from kraftlog.records.crc import crc32c
from kraftlog.records.header import read_header
from kraftlog.records.reader import read_records
from kraftlog.records.repack import repack
from kraftlog.records.validate import ProduceRules, check_produced, check_records
from kraftlog.records.walk import walk, walk_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RUNS = 7
NOW_MS = 1_760_000_000_000


def seconds(run: Callable[[], object]) -> float:
    """The duration of the fastest of several runs, which is the least disturbed one."""
    best = float("inf")
    for _ in range(RUNS):
        start = perf_counter()
        run()
        best = min(best, perf_counter() - start)
    return best


def batch_of(base_offset: int, count: int, headers: int = 0) -> bytes:
    builder = BatchBuilder(base_offset=base_offset)
    pairs = [("trace", b"0123456789abcdef")] * headers
    for number in range(count):
        builder.append(NOW_MS + number, None, VALUE, pairs)
    return builder.build()


def build_log(batches: int, count: int, headers: int = 0) -> bytes:
    return b"".join([batch_of(number * count, count, headers) for number in range(batches)])


VALUE = bytes(range(100))


def cases() -> Iterator[tuple[str, float, str]]:
    """(name, value, unit) of each measurement."""
    yield from _walks()
    for count in (1, 150):
        yield from _one_batch(count)
    for codec in range(len(CODEC_NAMES)):
        yield from _validation(codec)
    for size in (200, 16 << 10, 1 << 20):
        yield from _checksum(size)
    for headers in (0, 2):
        yield from _decoders(headers)
    for codec in range(1, len(CODEC_NAMES)):
        yield from _codec(codec)


def _walks() -> Iterator[tuple[str, float, str]]:
    batches = 100_000
    log = build_log(batches, 1)
    name = f"walk in memory, {len(log) // batches} B batches"
    yield name, batches / seconds(lambda: sum(1 for _ in walk(log))) / 1e6, "M batches/s"
    with tempfile.TemporaryFile() as file:
        file.write(log)
        file.flush()
        descriptor = file.fileno()

        def walk_in_file() -> int:
            def pread(size: int, offset: int) -> bytes:
                return os.pread(descriptor, size, offset)

            return sum(1 for _ in walk_file(pread, 0, len(log)))

        yield "walk in a cached file", batches / seconds(walk_in_file) / 1e6, "M batches/s"


def _one_batch(count: int) -> Iterator[tuple[str, float, str]]:
    rules = ProduceRules()
    batch = batch_of(0, count)
    what = f"batch of {count} x 100 B"
    repeats = 20_000 // count
    took = seconds(lambda: [batch_of(0, count) for _ in range(repeats)])
    yield f"build, {what}", took / repeats * 1e6, "µs"
    took = seconds(lambda: [check_produced(batch, rules, NOW_MS) for _ in range(repeats)])
    yield f"check as produced, {what}", took / repeats * 1e6, "µs"


def _validation(codec: int) -> Iterator[tuple[str, float, str]]:
    """The cost of a batch by `batch.validation`: with `records`, every record is checked too."""
    count = 150
    batch = repack(batch_of(0, count), read_header(batch_of(0, count)), codec)
    what = f"{count} x 100 B, {CODEC_NAMES[codec]}"
    header_rules = ProduceRules()
    record_rules = header_rules.replace(checks_every_record=True)
    repeats = 200

    def check_every_record() -> None:
        for _ in range(repeats):
            header = check_produced(batch, record_rules, NOW_MS)
            check_records(batch, header, record_rules, NOW_MS)

    took = seconds(lambda: [check_produced(batch, header_rules, NOW_MS) for _ in range(repeats)])
    yield f"batch.validation=header, {what}", took / repeats * 1e6, "µs"
    yield f"batch.validation=records, {what}", seconds(check_every_record) / repeats * 1e6, "µs"


def _checksum(size: int) -> Iterator[tuple[str, float, str]]:
    data = memoryview(bytearray(size))
    repeats = (64 << 20) // size
    took = seconds(lambda: [crc32c(data) for _ in range(repeats)])
    yield f"CRC-32C, {size} B", repeats * size / took / 1e9, "GB/s"


def _decoders(headers: int) -> Iterator[tuple[str, float, str]]:
    what = f"100 B values, {headers} headers"
    batches, per_batch = 700, 150
    records = batches * per_batch / 1e6
    log = build_log(batches, per_batch, headers)
    took = seconds(
        lambda: [sum(1 for _ in read_records(log, position)) for position, _ in walk(log)]
    )
    yield f"decode to objects with CRC, {what}", records / took, "M records/s"
    took = seconds(lambda: decode_batches(log))
    yield f"decode to columns with CRC, {what}", records / took, "M records/s"
    columns = decode_batches(log)
    took = seconds(lambda: to_arrow(columns))
    yield f"columns to Arrow, {what}", records / took, "M records/s"
    took = seconds(lambda: to_arrow(decode_batches(log)))
    yield f"bytes to Arrow with CRC, {what}", records / took, "M records/s"


def _codec(codec: int) -> Iterator[tuple[str, float, str]]:
    name = CODEC_NAMES[codec]
    data = b"".join([b"{'user': %d, 'page': %d}" % (n * 7919, n % 97) for n in range(40_000)])
    packed = compress(codec, data)
    megabytes = len(data) / 1e6
    took = seconds(lambda: compress(codec, data))
    yield f"{name} pack, to {100 * len(packed) // len(data)} %", megabytes / took, "MB/s"
    took = seconds(lambda: decompress(codec, packed, len(data)))
    yield f"{name} unpack", megabytes / took, "MB/s"


if __name__ == "__main__":
    for name, value, unit in cases():
        print(f"{name:55} {value:10.2f} {unit}")
