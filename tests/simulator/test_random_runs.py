"""Random runs pass, repeat to the byte, and reach the rare situations."""

from __future__ import annotations

import os
import shutil
import sys
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import kraftlog
import kraftlog_simulator
from kraftlog_simulator.run import simulate
from kraftlog_simulator.scenarios.catalog import SCENARIOS
from tests.simulator import traces

if TYPE_CHECKING:
    from collections.abc import Iterator

MIXTURE_RUNS = 20
SEEDS_OF_EACH_SCENARIO = 2
#: The number of seeds whose traces are compared.
TRACED_SEEDS = 4

PINNED = Path(__file__).with_name("pinned_seeds.txt")


def pinned_runs() -> list[tuple[str, int, dict[str, list[str]]]]:
    """Runs that once found a bug: on each line a scenario, a seed and a description.

    Before the description, the kinds of faults and the numbers of those that are kept may be given.
    """
    lines = [line.partition("#")[0].split() for line in PINNED.read_text().splitlines()]
    return [(words[0], int(words[1]), chosen_faults(words[2:])) for words in lines if words]


def chosen_faults(words: list[str]) -> dict[str, list[str]]:
    """From `faults=KINDS` and `keep=NUMBERS`."""
    pairs = [word.partition("=") for word in words]
    chosen = {name: value.split(",") for name, _, value in pairs}
    assert chosen.keys() <= {"faults", "keep"}, words
    return chosen


@pytest.mark.slow
def test_random_runs_pass() -> None:
    """Q37: the invariants hold. `make simulate` plays 2,000 others, and requires full coverage."""
    failed = []
    runs = [("mixture", seed) for seed in range(1, MIXTURE_RUNS + 1)]
    # `test_every_scenario_passes_by_its_name` runs the first seed of each.
    runs += [(name, seed) for name in SCENARIOS for seed in range(2, SEEDS_OF_EACH_SCENARIO + 1)]
    for scenario, seed in runs:
        outcome = simulate(scenario, seed)
        if outcome.failed:
            failed.append(str(outcome))
    assert failed == []


@pytest.mark.parametrize(("scenario", "seed", "chosen"), pinned_runs())
def test_pinned_seeds_pass(scenario: str, seed: int, chosen: dict[str, list[str]]) -> None:
    """Q37: known bugs do not return."""
    keep = [int(number) for number in chosen["keep"]] if "keep" in chosen else None
    outcome = simulate(scenario, seed, kinds=chosen.get("faults"), keep=keep)
    assert not outcome.failed, str(outcome)


#: A pure Python `crc32c` module, for interpreters that lack the package of this name.
CHECKSUM = """
TABLE = []
for value in range(256):
    for _ in range(8):
        value = value >> 1 ^ (value & 1) * 0x82F63B78
    TABLE.append(value)


def crc32c(data, value=0):
    value ^= 0xFFFFFFFF
    for byte in bytes(data):
        value = value >> 8 ^ TABLE[(value ^ byte) & 255]
    return value ^ 0xFFFFFFFF
"""


@pytest.mark.slow
def test_a_seed_gives_the_same_bytes_under_any_hash_seed() -> None:
    traces.expect_same_under_any_hash_seed("mixture", TRACED_SEEDS)


@pytest.mark.slow
def test_a_seed_gives_the_same_bytes_under_any_python(tmp_path: Path) -> None:
    """The same seeds with each other minor version of Python on this machine, from 3.11 on."""
    others = list(other_pythons())
    if not others:
        pytest.skip("this machine has no other Python from 3.11 on")
    (tmp_path / "crc32c.py").write_text(CHECKSUM)
    files = (kraftlog.__file__, kraftlog_simulator.__file__)
    sources = [os.path.dirname(os.path.dirname(file)) for file in files]
    path = ":".join([*sources, str(tmp_path)])
    played = [traces.start("mixture", TRACED_SEEDS, hash_seed="1")]
    played += [
        traces.start("mixture", TRACED_SEEDS, hash_seed="7", python=python, path=path)
        for python in others
    ]
    ours, *theirs = traces.digests(played, TRACED_SEEDS)
    assert dict.fromkeys(others, ours) == dict(zip(others, theirs, strict=True))


def other_pythons() -> Iterator[str]:
    """An interpreter of each other minor version, from PATH or from pyenv."""
    pyenv = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    for minor in range(11, 20):
        name = f"python3.{minor}"
        candidates = [shutil.which(name), *sorted(glob(f"{pyenv}/versions/3.{minor}.*/bin/{name}"))]
        interpreter = candidates[-1]
        if interpreter is not None and minor != sys.version_info.minor:
            yield interpreter


def test_the_quorum_survives_an_old_election_state() -> None:
    """Q4, Q8: the mixture reaches this too rarely to require it there."""
    outcome = simulate("mixture", 5, kinds=["old-election", "kill"])
    assert not outcome.failed, str(outcome)
    assert "election state went back" in outcome.coverage
