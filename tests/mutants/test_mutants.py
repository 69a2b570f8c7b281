"""Every mutant is killed by its pinned run in the simulator, or by its test."""

from __future__ import annotations

import ast
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kraftlog_simulator.run import CLUSTER, CLUSTERS, simulate
from tests.index import RULES
from tests.mutants import MUTANTS, Mutant
from tests.mutants.score import pinned
from tests.mutants.warm import NOT_IN_PLACE, WarmProcess
from tests.simulator.cluster.test_cluster import RUNS as CLUSTER_RUNS
from tests.simulator.test_random_runs import MIXTURE_RUNS, SEEDS_OF_EACH_SCENARIO
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The time limit for all the seeds that are run for a mutant in clusters.
SEARCH_LIMIT_S = 10 * LIMIT_S
KILLABLE = [name for name, mutant in MUTANTS.items() if not mutant.equivalent]
TESTED = [name for name in KILLABLE if MUTANTS[name].test]


def test_the_statement_of_each_mutant_is_in_its_function_once() -> None:
    """The mutants' runs would show this too, but only after minutes."""
    for mutant in MUTANTS.values():
        ast.parse(mutant.change.altered_file())


def test_every_mutant_has_a_run_or_a_test_and_breaks_known_rules() -> None:
    for name, mutant in MUTANTS.items():
        killed_by = mutant.run or mutant.test
        assert bool(killed_by) != bool(mutant.equivalent), name
        assert not set(mutant.rules) - set(RULES), name


@pytest.fixture(scope="module")
def runs() -> Iterator[WarmProcess]:
    with WarmProcess() as process:
        yield process


@pytest.fixture(scope="module")
def tests() -> Iterator[WarmProcess]:
    with WarmProcess(*sorted({MUTANTS[name].test for name in TESTED})) as process:
        yield process


@pytest.mark.parametrize(
    "name",
    [
        # Their tests are collected once.
        pytest.param(name, marks=pytest.mark.xdist_group("mutants") if name in TESTED else ())
        for name in KILLABLE
    ],
)
def test_mutant_is_killed(name: str, request: pytest.FixtureRequest) -> None:
    """Q37: by its pinned run, or by its test.

    After a change of the simulator, `python -m tests.mutants.score --pin NAME` finds another run.
    For a mutant in clusters whose pinned run passes, other seeds are tried: see `mutant.by_runs`.
    """
    mutant = MUTANTS[name]
    in_cluster = mutant.scenario in CLUSTERS and not mutant.test
    limit_s = SEARCH_LIMIT_S if in_cluster else LIMIT_S
    warm: WarmProcess = request.getfixturevalue("tests" if mutant.test else "runs")
    code, output = warm.run(name, limit_s)
    if code == NOT_IN_PLACE:
        code, output = in_process_of_its_own(name, limit_s)
    assert code == 0, output


@pytest.mark.parametrize(
    "process", ["runs", pytest.param("tests", marks=pytest.mark.xdist_group("mutants"))]
)
def test_nothing_fails_in_a_fork_without_a_mutant(
    process: str, request: pytest.FixtureRequest
) -> None:
    warm: WarmProcess = request.getfixturevalue(process)
    assert warm.run("", SEARCH_LIMIT_S) == (1, "1 runs\n")


def in_process_of_its_own(name: str, limit_s: float) -> tuple[int, str]:
    process = subprocess.run(
        [sys.executable, "-m", "tests.mutants.mutant", name],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=limit_s,
    )
    return process.returncode, process.stdout


def has_unchanged_run(mutant: Mutant) -> bool:
    """Whether another test already runs the unchanged core with this scenario and seed."""
    if mutant.faults:
        return False
    if mutant.nodes:
        return mutant.seed == 1
    runs = {CLUSTER: CLUSTER_RUNS, "mixture": MIXTURE_RUNS}
    return mutant.seed <= runs.get(mutant.scenario, SEEDS_OF_EACH_SCENARIO)


@pytest.mark.parametrize(
    "run",
    sorted(
        {
            (mutant.scenario, mutant.seed, mutant.nodes, mutant.faults, mutant.keep)
            for mutant in [MUTANTS[name] for name in KILLABLE]
            if not mutant.test and not has_unchanged_run(mutant)
        }
    ),
    ids=str,
)
def test_the_unchanged_core_passes_the_same_run(
    run: tuple[str, int, bool, str, tuple[int, ...]],
) -> None:
    scenario, seed, nodes, faults, keep = run
    kinds = faults.split(",") if faults else None
    outcome = simulate(scenario, seed, kinds=kinds, keep=keep or None, nodes=nodes)
    assert not outcome.failed, str(outcome)


@pytest.mark.parametrize("name", sorted(set(MUTANTS) - set(KILLABLE)))
def test_an_equivalent_mutant_has_an_argument(name: str) -> None:
    assert len(MUTANTS[name].equivalent.split()) > 20


def test_a_pinned_run_replaces_that_of_its_mutant_alone() -> None:
    entry = '[{}]\nsays = "a"\nrun = "{}"\n'
    texts = [entry.format(name, "mixture 1") for name in ("one", "one_more", "last")]
    texts_after = [texts[0], entry.format("one_more", "back-to-back 20"), texts[2]]
    assert pinned("\n".join(texts), "one_more", "back-to-back 20") == "\n".join(texts_after)


def test_no_mutant_was_lost() -> None:
    assert len(KILLABLE) >= 165
    assert len([name for name in KILLABLE if MUTANTS[name].scenario == CLUSTER]) >= 37
