"""Pipelines and the source on a cluster of Spark: a standalone master and two workers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kraftlog.cli import main
from kraftlog.client.client import Client
from kraftlog_simulator.digest import simulate_with_digest
from tests.house_rules import ROOT
from tests.spark import cluster_program
from tests.spark.archives import all_positions, record_positions, values
from tests.spark.standalone import StandaloneCluster
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: A `sitecustomize` module, which every Python process loads: it plants the bug that a node forgets
#: its vote when it restarts.
PLANT_BUG = """\
import sys
from tests.altered import AlteredFinder
from tests.mutants import MUTANTS
change = MUTANTS["vote_not_persisted"].change
sys.meta_path.insert(0, AlteredFinder(change.module, change.altered))
"""
pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.xdist_group("jvm")]


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    """The environment of the cluster's processes."""
    return {**os.environ, "PYTHONPATH": ROOT, "SPARK_LOCAL_IP": "127.0.0.1"}


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]
) -> Iterator[StandaloneCluster]:
    folder = str(tmp_path_factory.mktemp("cluster"))
    with StandaloneCluster(folder, workers=2, environment=environment) as started:
        yield started


def python(words: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        env=environment,
        capture_output=True,
        text=True,
        timeout=3 * LIMIT_S,
        check=False,
    )


@pytest.mark.long
def test_sources_pipelines_and_retried_tasks_run_on_workers(
    cluster: StandaloneCluster, environment: dict[str, str], our_node: str, tmp_path: Path
) -> None:
    topic, replay_topic = "of-a-cluster", cluster_program.replay_topic("of-a-cluster")
    with Client(our_node, timeout_s=LIMIT_S) as client:
        client.create_topic(topic, partitions=2)
        client.create_topic(replay_topic, partitions=2)
        with client.producer() as producer:
            for number in range(300):
                producer.send(topic, str(number), partition=number % 2)
    arguments = ["-m", "tests.spark.cluster_program", cluster.url, our_node, topic, str(tmp_path)]
    program = python(arguments, environment)
    assert program.returncode == 0, program.stderr
    results = json.loads(program.stdout.splitlines()[-1])
    assert results["row_counts"] == [[0, 150, 150, 149], [1, 150, 150, 149]]
    expected_digests = {
        str(seed): simulate_with_digest(cluster_program.SCENARIO, seed)[1]
        for seed in cluster_program.SEEDS
    }
    assert results["digests"] == expected_digests
    assert results["exit_codes"] == [0, 0, 0], program.stderr
    assert "equal: 300 records compared" in program.stdout
    assert record_positions(tmp_path, topic) == all_positions(150)
    with Client(our_node, timeout_s=LIMIT_S) as client:
        assert values(client, replay_topic) == values(client, topic)


@pytest.mark.long
def test_a_planted_bug_is_found_and_its_command_repeats_it(
    cluster: StandaloneCluster, environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(PLANT_BUG)
    with_bug = {**environment, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    settings = [f"--conf={key}={value}" for key, value in cluster_program.SETTINGS.items()]
    settings.append(f"--conf=spark.executorEnv.PYTHONPATH={with_bug['PYTHONPATH']}")
    arguments = ["--seeds", "3:5", "--scenario", "leader-partitioned", "--master", cluster.url]
    pipeline = python(["-m", "kraftlog", "pipeline", "simulate", *arguments, *settings], with_bug)
    assert pipeline.returncode == 3, pipeline.stderr
    *failures, summary = pipeline.stdout.splitlines()
    commands = [f"kraftlog simulate --scenario leader-partitioned --seed {seed}" for seed in (3, 4)]
    assert [line.strip() for line in failures[1::2]] == commands
    assert failures[0].startswith("seed 3: epochs grow: replica ")
    assert "2 seeds, 2 failed" in summary

    repeated = python(["-m", *commands[0].split()], with_bug)
    assert repeated.returncode == 1
    assert failures[0].removeprefix("seed 3: ") in repeated.stdout
    assert main(commands[0].split()[1:]) == 0, "without the bug the run passes"
