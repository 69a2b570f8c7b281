"""Digests of the traces of runs, computed in other processes."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import hashlib
import sys
from kraftlog_simulator.run import simulate
for seed in range(1, int(sys.argv[2]) + 1):
    digest = hashlib.sha256()
    write = lambda line: digest.update(line.encode() + b"\\n")
    simulate(sys.argv[1], seed, nodes="nodes" in sys.argv[3:], trace=write)
    print(seed, digest.hexdigest())
"""
#: Two values that give sets of strings and of bytes different orders.
HASH_SEEDS = ("1", "20261")


def start(
    scenario: str,
    seeds: int,
    *flags: str,
    hash_seed: str,
    python: str = sys.executable,
    path: str = "",
) -> subprocess.Popen[str]:
    """Start a process that plays seeds 1 to `seeds` of a scenario; flag "nodes": on whole nodes."""
    variables = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": path}
    command = [python, "-c", PROGRAM, scenario, str(seeds), *flags]
    return subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True)


def digests(processes: list[subprocess.Popen[str]], seeds: int) -> list[str]:
    """The output of each process: a line with seed and digest for each seed; all digests differ."""
    outputs = [process.communicate()[0] for process in processes]
    assert all(len(set(output.split())) == 2 * seeds for output in outputs)
    return outputs


def expect_same_under_any_hash_seed(scenario: str, seeds: int, *flags: str) -> None:
    processes = [start(scenario, seeds, *flags, hash_seed=hash_seed) for hash_seed in HASH_SEEDS]
    first, second = digests(processes, seeds)
    assert first == second
