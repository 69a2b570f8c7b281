"""Random runs go well, repeat to the byte, and still reach the rare situations."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from kraftlog.simulator.run import simulate
from kraftlog.simulator.scenarios import SCENARIOS
from kraftlog.simulator.sights import missing

MIXTURES = 200
OF_EACH_NAMED = 5

PINNED = Path(__file__).with_name("pinned_seeds.txt")


def pinned() -> list[tuple[str, int]]:
    """Runs that once found something: a scenario and a seed on each line, and why."""
    lines = [line.partition("#")[0].split() for line in PINNED.read_text().splitlines()]
    return [(words[0], int(words[1])) for words in lines if words]


@pytest.mark.slow
def test_random_runs_go_well_and_see_everything_rare() -> None:
    """Q37: the invariants hold over many seeds, and these seeds reach what is to be tested."""
    sights: Counter[str] = Counter()
    failed = []
    runs = [("mixture", seed) for seed in range(1, MIXTURES + 1)]
    # The first of each is played under its own name (`test_scenarios`).
    runs += [(name, seed) for name in SCENARIOS for seed in range(2, OF_EACH_NAMED + 1)]
    for scenario, seed in runs:
        outcome = simulate(scenario, seed)
        sights.update(outcome.sights)
        if outcome.failed:
            failed.append(str(outcome))
    assert failed == []
    assert missing(sights) == []


@pytest.mark.parametrize(("scenario", "seed"), pinned())
def test_pinned_seeds(scenario: str, seed: int) -> None:
    """Q37: what was found once is not found again."""
    outcome = simulate(scenario, seed)
    assert not outcome.failed, str(outcome)


HASHES = """
import hashlib
from kraftlog.simulator.run import simulate
for seed in range(1, 21):
    digest = hashlib.sha256()
    simulate("mixture", seed, trace=lambda line: digest.update(line.encode() + b"\\n"))
    print(seed, digest.hexdigest())
"""


@pytest.mark.slow
def test_a_seed_gives_the_same_bytes_under_any_hash_seed() -> None:
    """Twenty seeds, played by two processes whose sets and dictionaries hash differently."""
    played = [
        subprocess.Popen(
            [sys.executable, "-c", HASHES],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for hash_seed in ("1", "20261")
    ]
    first, second = [process.communicate()[0] for process in played]
    assert first == second
    assert len(set(first.split())) == 40


def test_an_election_state_that_went_back_is_survived() -> None:
    """Q4, Q8: too rare in the mixture to be demanded of it."""
    outcome = simulate("mixture", 3, kinds=["old-election", "kill"])
    assert not outcome.failed, str(outcome)
    assert "election state went back" in outcome.sights
