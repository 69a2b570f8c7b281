"""The speed of appending to, opening and recovering logs: `python -m bench.storage`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from typing import TYPE_CHECKING

from kraftlog.records.builder import build_batch
from kraftlog.records.header import stamp
from kraftlog.records.record import Record
from kraftlog.server.files import OsFiles
from kraftlog.storage.batches import Batches, describe
from kraftlog.storage.cleaning import clean
from kraftlog.storage.compaction import describe_task, log_to_clean
from kraftlog.storage.directory import LogDirectory
from kraftlog.storage.disk import Disk, HandleCache
from kraftlog.storage.manifest import CLEAN_MARKER, MANIFEST
from kraftlog.storage.recovery import open_log, run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kraftlog.storage.log import Log

NOW_MS = 1_700_000_000_000
MB = 1 << 20


def new_log(folder: str) -> Log:
    os.makedirs(folder)
    files = OsFiles()
    return run(open_log(Disk(files, HandleCache(files, 500)), folder))[0]


def one_record_batch(batch_bytes: int) -> bytearray:
    """A batch with one record, of about `batch_bytes`."""
    return bytearray(
        build_batch([Record(0, NOW_MS, None, bytes(batch_bytes - 80))], leader_epoch=0)
    )


def turns(
    batch: bytearray, turn_bytes: int, count: int
) -> Iterator[tuple[list[memoryview], Batches]]:
    """The appends of each of `count` turns: stamped batches in a buffer, and their description."""
    per_turn = max(turn_bytes // len(batch), 1)
    arena = bytearray(batch * per_turn)
    view = memoryview(arena)
    size = len(batch)
    positions = range(0, size * per_turn, size)
    offset = 0
    for _ in range(count):
        for position in positions:
            stamp(arena, position, offset, 0)
            offset += 1
        described = Batches(offset - per_turn, offset - 1, len(arena), NOW_MS, offset - 1, 0)
        yield [view[position : position + size] for position in positions], described


def append_seconds(folder: str, batch: bytearray, count: int) -> float:
    log = new_log(folder)
    spent = 0.0
    for buffers, described in turns(batch, MB, count):
        start = time.perf_counter()
        log.append(buffers, described, NOW_MS)
        spent += time.perf_counter() - start
    log.release()
    return spent


def bare_seconds(folder: str, batch: bytearray, count: int) -> float:
    os.makedirs(folder)
    fd = os.open(f"{folder}/bare", os.O_RDWR | os.O_CREAT)
    spent, position = 0.0, 0
    for buffers, _ in turns(batch, MB, count):
        start = time.perf_counter()
        for first in range(0, len(buffers), 1024):
            position += os.pwritev(fd, buffers[first : first + 1024], position)
        spent += time.perf_counter() - start
    os.close(fd)
    return spent


def best_seconds(measure: Callable[[str], float], runs: int) -> float:
    """The duration of the fastest of several runs, each in a new directory."""
    results = []
    for _ in range(runs):
        parent = tempfile.mkdtemp(dir=os.environ.get("BENCH_DIR"))
        try:
            results.append(measure(f"{parent}/t-0"))
        finally:
            shutil.rmtree(parent)
    return min(results)


def append_cases() -> Iterator[tuple[str, float, str]]:
    for size, name in ((200, "200 B"), (16 << 10, "16 KB"), (MB, "1 MB")):
        batch = one_record_batch(size)
        ours = bare = float("inf")
        for _ in range(5):  # alternating, as the disk's speed varies
            ours = min(ours, best_seconds(partial(append_seconds, batch=batch, count=64), 1))
            bare = min(bare, best_seconds(partial(bare_seconds, batch=batch, count=64), 1))
        yield f"append 1 MB at once in batches of {name}", 64 * MB / ours / 1e9, "GB/s"
        yield f"append in batches of {name}: throughput relative to pwritev alone", bare / ours, "x"


def compaction_cases() -> Iterator[tuple[str, float, str]]:
    """Compact a log of 64 MB to a tenth of its records, in this process."""
    for codec, name in ((0, "plain"), (3, "lz4")):

        def rewrite(folder: str, codec: int = codec) -> float:
            log = new_log(folder)
            log.config = log.config.replace(compacted=True, segment_bytes=16 * MB)
            while log.end_offset < 64 * MB // 280:
                records = [
                    Record(
                        log.end_offset + n,
                        NOW_MS,
                        b"key-%05d" % ((log.end_offset + n) % 23_000),
                        bytes(256),
                    )
                    for n in range(100)
                ]
                data = build_batch(records, leader_epoch=0, codec=codec)
                log.append([data], describe([data]), NOW_MS)
            log.roll(NOW_MS)
            log.flush()
            cleanable = log_to_clean(log, log.end_offset, NOW_MS)
            assert cleanable is not None
            task = describe_task(log, cleanable, NOW_MS, 1 << 20)
            start = time.perf_counter()
            clean(log.disk.files, task)
            spent = time.perf_counter() - start
            log.release()
            return spent

        yield (
            f"compaction rewrites a log of 64 MB (uncompressed size), {name}",
            64 / best_seconds(rewrite, 3),
            "MB/s",
        )


def small_append_cases() -> Iterator[tuple[str, float, str]]:
    """The cost of appending one small batch in a turn, and of finding an offset."""
    batch, count = one_record_batch(200), 50_000

    def one_by_one(folder: str) -> float:
        log = new_log(folder)
        work = next(turns(batch, 200, 1))[0]
        start = time.perf_counter()
        for offset in range(count):
            log.append(work, Batches(offset, offset, len(batch), NOW_MS, offset, 0), NOW_MS)
        spent = time.perf_counter() - start
        log.release()
        return spent

    def bare(folder: str) -> float:
        os.makedirs(folder)
        fd = os.open(f"{folder}/bare", os.O_RDWR | os.O_CREAT)
        start = time.perf_counter()
        for offset in range(count):
            os.pwritev(fd, [batch], offset * len(batch))
        spent = time.perf_counter() - start
        os.close(fd)
        return spent

    def locate(folder: str, step: int) -> float:
        log = new_log(folder)
        offset = 0
        for buffers, described in turns(batch, 64 << 10, 256):
            offset = log.end_offset
            log.append(buffers, described, NOW_MS)
        start = time.perf_counter()
        for number in range(20_000):
            log.locate(offset - number * step, 64 << 10, log.end_offset)
        spent = time.perf_counter() - start
        log.release()
        return spent

    yield "append one batch of 200 B", best_seconds(one_by_one, 3) / count * 1e6, "µs"
    yield "pwritev alone of a batch of 200 B", best_seconds(bare, 3) / count * 1e6, "µs"
    tail = best_seconds(lambda folder: locate(folder, 0), 3)
    yield "find the offset of the batches that were just appended", tail / 20_000 * 1e6, "µs"
    cold = best_seconds(lambda folder: locate(folder, 4), 3)
    yield "find any offset through the index, for a fetch of 64 KB", cold / 20_000 * 1e6, "µs"


def recovery_cases() -> Iterator[tuple[str, float, str]]:
    for size, name, total in ((16 << 10, "16 KB", 1000), (200, "200 B", 64)):
        batch = one_record_batch(size)

        def measure(folder: str, batch: bytearray = batch, total: int = total) -> float:
            append_seconds(folder, batch, total)
            files = OsFiles()
            start = time.perf_counter()
            log, report = run(open_log(Disk(files, HandleCache(files, 500)), folder))
            spent = time.perf_counter() - start
            assert report.scanned_bytes == log.size_bytes
            log.release()
            return spent

        rate = total * MB / best_seconds(measure, 3) / 1e9
        yield f"recovery of a segment after a kill, batches of {name}", rate, "GB/s"


def fill_directory(path: str, count: int) -> LogDirectory:
    """Create many logs with one batch each."""
    os.makedirs(path)
    files = OsFiles()
    logs = LogDirectory(files, path, HandleCache(files, 500))
    batch = one_record_batch(200)
    for number in range(count):
        log = logs.create(("topic", number), bytes(16))
        buffers, described = next(turns(batch, 200, 1))
        log.append(buffers, described, NOW_MS)
    return logs


def open_cases(count: int = 10_000) -> Iterator[tuple[str, float, str]]:
    """Time and memory to open all logs of a directory, after a clean stop and after a kill."""
    parent = tempfile.mkdtemp(dir=os.environ.get("BENCH_DIR"))
    try:
        start = time.perf_counter()
        logs = fill_directory(f"{parent}/logs", count)
        yield f"create {count:,} logs with a batch each", time.perf_counter() - start, "s"
        logs.release()
        for name in ("recovery after a kill", "opening after a clean stop"):
            seconds, growth_kb = [], []
            for _ in range(3):
                output = subprocess.run(
                    [sys.executable, "-m", "bench.storage", "open", f"{parent}/logs"],
                    check=True,
                    capture_output=True,
                    text=True,
                ).stdout.split()
                seconds.append(float(output[0]))
                growth_kb.append(float(output[1]))
            yield f"{name} of {count:,} logs", min(seconds), "s"
            yield f"{name} of {count:,} logs: memory", min(growth_kb) / 1024, "MB"
            if "kill" in name:
                files = OsFiles()
                logs = LogDirectory(files, f"{parent}/logs", HandleCache(files, 500))
                open_all(logs)
                start = time.perf_counter()
                logs.close()
                yield f"clean stop with {count:,} logs to flush", time.perf_counter() - start, "s"
    finally:
        shutil.rmtree(parent)


def open_all(logs: LogDirectory) -> None:
    for name in list(logs.unopened):
        run(logs.open_log(name))


def resident_kb() -> int:
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * 4


def open_and_print(path: str) -> None:
    """Open all logs and print seconds and kilobytes; runs in a process of its own."""
    import gc

    from kraftlog.storage import manifest, recovery  # noqa: F401 - loaded before measuring

    contents = {name: read_file(f"{path}/{name}") for name in (MANIFEST, CLEAN_MARKER)}
    gc.collect()
    gc.freeze()
    before = resident_kb()
    files = OsFiles()
    start = time.perf_counter()
    logs = LogDirectory(files, path, HandleCache(files, 500))
    open_all(logs)
    spent = time.perf_counter() - start
    sys.stdout.write(f"{spent} {resident_kb() - before}\n")
    for name, content in contents.items():  # for the next run, as opening changes these files
        if content is not None:
            with open(f"{path}/{name}", "wb") as file:
                file.write(content)


def read_file(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def cases() -> Iterator[tuple[str, float, str]]:
    """The name, value and unit of each figure."""
    yield from append_cases()
    yield from small_append_cases()
    yield from compaction_cases()
    yield from recovery_cases()
    yield from open_cases()


if __name__ == "__main__" and sys.argv[1:2] == ["open"]:
    open_and_print(sys.argv[2])
elif __name__ == "__main__":
    for name, value, unit in cases():
        sys.stdout.write(f"{name:65} {value:10.3f} {unit}\n")
