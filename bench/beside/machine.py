"""Measures the machine: CPU time and memory of process trees, idle share, disk."""

from __future__ import annotations

import os
import resource
import shutil
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

MB = 1 << 20


def cpu_seconds(pid: int) -> float:
    """The CPU time of a process and its descendants, in nanosecond resolution."""
    return sum(_cpu_of(each) for each in process_tree(pid))


def ended_cpu_seconds() -> float:
    """The CPU time of all child processes that have ended; clients are such processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextmanager
def pinned(pid: int, *, apart: bool) -> Iterator[None]:
    """Pin a process and the clients started meanwhile to one processor, or `apart` to two."""
    everywhere = os.sched_getaffinity(0)
    one, *others = sorted(everywhere)
    threads = [int(each) for each in os.listdir(f"/proc/{pid}/task")]
    try:
        for thread in threads:
            os.sched_setaffinity(thread, {others[0]} if apart and others else {one})
        os.sched_setaffinity(0, {one})
        yield
    finally:
        for thread in (0, *threads):
            with suppress(ProcessLookupError):  # a thread that has ended
                os.sched_setaffinity(thread, everywhere)


def rss_mb(pid: int) -> float:
    return sum(_rss_of(each) for each in process_tree(pid))


def process_tree(pid: int) -> list[int]:
    """The process and its running descendants."""
    pids = [pid]
    for each in pids:
        try:
            for thread in os.listdir(f"/proc/{each}/task"):
                with open(f"/proc/{each}/task/{thread}/children") as file:
                    pids += [int(child) for child in file.read().split()]
        except OSError:
            continue  # it has ended
    return pids


def _cpu_of(pid: int) -> float:
    try:
        return time.clock_gettime((~pid << 3) | 2)  # the id that clock_getcpuclockid(3) returns
    except OSError:
        return 0.0


def _rss_of(pid: int) -> float:
    try:
        with open(f"/proc/{pid}/status") as status:
            sizes = [int(line.split()[1]) for line in status if line.startswith("VmRSS")]
    except OSError:
        return 0.0
    return sum(sizes) / 1024


def idle_percent(seconds: float = 1.0) -> float:
    """The idle share of all processors."""
    before = _ticks()
    time.sleep(seconds)
    idle, everything = (b - a for a, b in zip(before, _ticks(), strict=True))
    return 100 * idle / max(1, everything)


def _ticks() -> tuple[int, int]:
    with open("/proc/stat") as stat:
        fields = [int(each) for each in stat.readline().split()[1:9]]
    return fields[3] + fields[4], sum(fields)


def free_mb() -> int:
    with open("/proc/meminfo") as info:
        for line in info:
            if line.startswith("MemFree"):
                return int(line.split()[1]) // 1024
    return 0


def free_bytes(folder: str) -> int:
    """The free space on the disk of a folder."""
    return shutil.disk_usage(folder).free


def sync_p50_ms(folder: str, count: int = 200) -> float:
    """The median time of the smallest durable write to the disk."""
    took = []
    with open(os.path.join(folder, "sync"), "wb", buffering=0) as file:
        for _ in range(count):
            file.write(b"x" * 200)
            start = time.perf_counter()
            os.fdatasync(file.fileno())
            took.append(time.perf_counter() - start)
    return sorted(took)[count // 2] * 1000
