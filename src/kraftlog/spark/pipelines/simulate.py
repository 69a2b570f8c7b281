"""`kraftlog pipeline simulate`: runs many seeds of the simulator in the tasks of a Spark job."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import kraftlog
from kraftlog.spark.pipelines.common import DONE, FINDINGS, parser, run_pipeline
from kraftlog.spark.pipelines.errors import UsageError
from kraftlog.spark.pipelines.simulation_runs import RunsTable
from kraftlog.value import Value
from kraftlog.version import VERSION
from kraftlog_simulator.cluster.faults import ALL_KINDS
from kraftlog_simulator.coverage import missing
from kraftlog_simulator.digest import simulate_with_digest
from kraftlog_simulator.run import CLUSTER, scenario_of, scenarios

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import DataFrame

    from kraftlog.spark.pipelines.common import Pipeline

SCHEMA = (
    "seed LONG, scenario STRING, verdict STRING, violation STRING, steps LONG, "
    "events LONG, time_ms LONG, situations MAP<STRING, LONG>, digest STRING, command STRING, "
    "version STRING, commit STRING"
)
ARROW = pa.schema(
    [
        ("seed", pa.int64()),
        ("scenario", pa.string()),
        ("verdict", pa.string()),
        ("violation", pa.string()),
        ("steps", pa.int64()),
        ("events", pa.int64()),
        ("time_ms", pa.int64()),
        ("situations", pa.map_(pa.string(), pa.int64())),
        ("digest", pa.string()),
        ("command", pa.string()),
        ("version", pa.string()),
        ("commit", pa.string()),
    ]
)
#: A task costs some 0.1 s of overhead, but with more tasks, progress is reported more often.
MAX_SEEDS_PER_TASK, TASKS_PER_CORE = 100, 4


class RunSettings(Value):
    """The settings of all runs: a scenario, or `any`, and the kinds of faults (None: all)."""

    scenario: str
    #: whether whole nodes run, instead of cores alone
    nodes: bool
    kinds: tuple[str, ...] | None
    #: the commit of kraftlog's sources; None if they are not in a Git repository
    commit: str | None = None


def run(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    return run_pipeline("simulate", options, _simulate)


def _parser() -> argparse.ArgumentParser:
    command_line = parser(
        "simulate",
        "Run seeds of the simulator (kraftlog simulate) in the tasks of a Spark job.",
        "--seeds 1:1001 --scenario any",
        connects=False,
    )
    command_line.add_argument(
        "--seeds", required=True, metavar="A:B", help="the seeds from A up to, not including, B"
    )
    command_line.add_argument(
        "--scenario",
        default="mixture",
        metavar="NAME",
        help="default: mixture; any: each seed picks one; kraftlog simulate --list prints all",
    )
    command_line.add_argument(
        "--nodes",
        action="store_true",
        help="whole nodes, with storage and connections, instead of cores alone",
    )
    command_line.add_argument(
        "--faults", metavar="KINDS", help="only these faults, such as loss,pause"
    )
    command_line.add_argument(
        "--to",
        metavar="DIR",
        help="append a row for each run to the Delta table in DIR",
    )
    return command_line


def _simulate(pipeline: Pipeline) -> int:
    options = pipeline.options
    first, end = _seeds(options.seeds)
    settings = _run_settings(options)
    count = end - first
    table = None if options.to is None else RunsTable(options.to, ARROW)
    if options.dry_run:
        text = f"{count:,} seeds, {first} to {end - 1}, of scenario {settings.scenario}"
        pipeline.progress.result(
            {"seeds": count, "scenario": settings.scenario}, f"{text}; nothing was run"
        )
        return DONE
    spark = pipeline.spark
    cores = spark.sparkContext.defaultParallelism
    seeds_per_task = max(1, min(MAX_SEEDS_PER_TASK, count // (TASKS_PER_CORE * cores)))
    seeds = spark.range(first, end, 1, -(-count // seeds_per_task))
    runs = seeds.mapInArrow(player(settings), SCHEMA)
    if table is None:
        runs = runs.persist()
        pipeline.run_job(runs.count, items=count, unit="seeds")
    else:
        pipeline.run_job(lambda: runs.write.parquet(table.files), items=count, unit="seeds")
        table.commit()
        runs = spark.read.parquet(table.files)
    return _report(pipeline, runs, settings)


def _seeds(text: str) -> tuple[int, int]:
    first, colon, end = text.partition(":")
    if not (colon and first.isdecimal() and end.isdecimal() and int(first) < int(end)):
        raise UsageError(f"--seeds {text}: expected A:B, two numbers with A below B")
    return int(first), int(end)


def _run_settings(options: argparse.Namespace) -> RunSettings:
    if options.scenario not in {*scenarios(nodes=options.nodes), "any", CLUSTER}:
        raise UsageError(
            f"--scenario {options.scenario}: unknown; kraftlog simulate --list prints the scenarios"
        )
    if options.scenario == CLUSTER and options.nodes:
        raise UsageError("--scenario cluster always has whole nodes; remove --nodes")
    kinds = None if options.faults is None else tuple(options.faults.split(","))
    if unknown := [kind for kind in kinds or () if kind not in ALL_KINDS]:
        raise UsageError(
            f"--faults {unknown[0]}: unknown; kraftlog simulate --list prints the faults"
        )
    return RunSettings(options.scenario, options.nodes, kinds, _commit())


def _commit() -> str | None:
    """The Git commit of the sources, with `-dirty` if they differ from it."""
    folder = os.path.dirname(os.path.abspath(kraftlog.__file__))
    command = ["git", "-C", folder, "describe", "--always", "--dirty", "--exclude=*"]
    with suppress(OSError):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        is_ours = done.returncode == 0 and os.path.basename(os.path.dirname(folder)) == "src"
        return done.stdout.strip() if is_ours else None
    return None


def player(settings: RunSettings) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for `mapInArrow`, which runs the seeds of a task and yields a row for each."""

    def play(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = [row_of(settings, seed) for seed in batch.column(0).to_pylist()]
            yield pa.RecordBatch.from_pylist(rows, schema=ARROW)

    return play


def row_of(settings: RunSettings, seed: int) -> dict[str, Any]:
    """Run a seed; the row depends only on seed and settings, so a retried task gives the same."""
    nodes = settings.nodes
    scenario = scenario_of(seed, nodes=nodes) if settings.scenario == "any" else settings.scenario
    outcome, digest = simulate_with_digest(scenario, seed, kinds=settings.kinds, nodes=nodes)
    return {
        "seed": seed,
        "scenario": scenario,
        "verdict": "failed" if outcome.failed else "passed",
        "violation": str(outcome.violation) if outcome.failed else None,
        "steps": outcome.steps,
        "events": outcome.events,
        "time_ms": outcome.time_ms,
        "situations": sorted(outcome.coverage.items()),
        "digest": digest,
        "command": outcome.command,
        "version": VERSION,
        "commit": settings.commit,
    }


def _report(pipeline: Pipeline, runs: DataFrame, settings: RunSettings) -> int:
    """Print the failed seeds and a summary."""
    [totals] = runs.selectExpr(
        "count(*) AS seeds",
        "count_if(verdict = 'failed') AS failed",
        "sum(steps) AS steps",
        "lower(hex(bit_xor(xxhash64(seed, digest)))) AS digest",
    ).collect()
    reached = {
        row.situation: row.times
        for row in runs.selectExpr("explode(situations) AS (situation, times)")
        .groupBy("situation")
        .agg({"times": "sum"})
        .toDF("situation", "times")
        .collect()
    }
    if pipeline.options.json:
        for row in runs.orderBy("seed").toLocalIterator():
            pipeline.progress.row(row.asDict())
    failures = [row.asDict() for row in runs.where("verdict = 'failed'").orderBy("seed").collect()]
    simulated = "nodes" if settings.nodes else settings.scenario
    never = [] if settings.kinds is not None else missing(reached, simulated)
    lines = [f"seed {row['seed']}: {row['violation']}\n  {row['command']}" for row in failures]
    lines.append(
        f"{totals.seeds:,} seeds, {totals.failed:,} failed, {totals.steps:,} steps, "
        f"{len(reached)} situations reached, digest {totals.digest}"
    )
    if never:
        lines.append(f"never reached: {', '.join(never)}")
    result = {**totals.asDict(), "situations": dict(sorted(reached.items())), "never": never}
    pipeline.progress.result(result, "\n".join(lines))
    return FINDINGS if failures else DONE
