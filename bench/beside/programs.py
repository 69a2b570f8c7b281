"""Compiles the C programs of the benchmarks once, and runs those that are clients."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass

from tests.interop.cache import UnavailableError, digest, made_once, read, run

from bench.beside.figures import percentile

SOURCES = os.path.join(os.path.dirname(__file__), "c")
LIBRARIES = {"load": ["-lrdkafka"], "probe": [], "hold": [], "bare": [], "bare_follower": []}
RUN_TIMEOUT_S = 400


@dataclass(frozen=True)
class ProbeResult:
    """A run of the probe: its duration, and the latency of each response."""

    seconds: float
    times_ms: list[float]

    @property
    def p50(self) -> float:
        return percentile(self.times_ms, 50)

    @property
    def p99(self) -> float:
        return percentile(self.times_ms, 99)

    @property
    def rate(self) -> float:
        return len(self.times_ms) / self.seconds


def program(name: str) -> str:
    """The path of the compiled program; raises UnavailableError if it can't be compiled."""
    source = os.path.join(SOURCES, f"{name}.c")
    compiler = next((cc for cc in ("cc", "gcc", "clang") if shutil.which(cc)), None)
    if compiler is None:
        raise UnavailableError("no C compiler (Debian: apt-get install gcc libc6-dev)")
    complaint = f"{name}.c does not compile; it needs librdkafka (Debian: librdkafka-dev)"
    folder = made_once(
        f"bench-{name}-{digest(read(source))}",
        lambda folder: run(
            [compiler, "-O2", "-o", os.path.join(folder, name), source, *LIBRARIES[name]],
            60,
            complaint,
        ),
    )
    return os.path.join(folder, name)


def load(*arguments: object) -> tuple[int, float]:
    """Run load.c; return the number of records and the seconds."""
    count, seconds, *_ = output([program("load"), *map(str, arguments)]).split()
    return int(count), float(seconds)


def pace(*arguments: object) -> tuple[float, list[float]]:
    """Run load.c at a fixed rate; return the rate reached, and the latencies in ms.

    They are p50, p95, p99 and p99.9.
    """
    words = output([program("load"), "pace", *map(str, arguments)]).split()
    count, seconds, *microseconds = map(float, words)
    return count / seconds, [each / 1000 for each in microseconds]


def load_from_brokers(*arguments: object) -> tuple[int, float, set[int]]:
    """Run load.c as a consumer; return also the ids of the brokers that sent the records."""
    count, seconds, *brokers = output([program("load"), "consume", *map(str, arguments)]).split()
    return int(count), float(seconds), {int(each) for each in brokers}


def probe(
    port: int,
    frames: bytes,
    error_position: int,
    folder: str,
    *,
    connections: int,
    count: int,
    seconds: float = 60,
) -> ProbeResult:
    """Run probe.c: `count` requests in total on these connections, or fewer if `seconds` end."""
    path = os.path.join(folder, "frames")
    with open(path, "wb") as file:
        file.write(frames)
    numbers = [str(each) for each in (connections, count, seconds, error_position)]
    return parse_probe(output([program("probe"), str(port), path, *numbers]))


def parse_probe(text: str) -> ProbeResult:
    seconds, *microseconds = text.split()
    return ProbeResult(float(seconds), [float(each) / 1000 for each in microseconds])


def output(command: list[str]) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=RUN_TIMEOUT_S
    )
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-3:]
        shown = " ".join([os.path.basename(command[0]), *command[1:]])
        raise RuntimeError(f"{shown[:300]} failed: {' | '.join(last)}")
    return done.stdout
