"""`kraftlog pipeline`: runs a pipeline on Apache Spark; its module is imported on use."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec

from kraftlog.cli.simulate import missing_simulator
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: The pipelines and their help; each is a module of `kraftlog.spark.pipelines`.
PIPELINES = {
    "archive": "archive topics as Delta tables, exactly once",
    "metadata": "print the cluster at an earlier time, from the metadata log",
    "replay": "write the records of a table back into a topic",
    "simulate": "simulate many seeds, on all cores or on a cluster",
    "verify": "compare the Delta tables of topics with the log",
}
#: The packages that pipelines need.
PACKAGES = ("pyspark", "pyarrow", "pandas", "deltalake")


def run(arguments: Sequence[str]) -> int:
    if not arguments or arguments[0] in {"-h", "--help", "help"}:
        print(usage())
        return 0 if arguments else 2
    name = arguments[0]
    if name not in PIPELINES:
        print(f"kraftlog pipeline: unknown pipeline {name!r}\n\n{usage()}", file=sys.stderr)
        return 2
    if missing := missing_packages() or (missing_simulator() if name == "simulate" else ""):
        print(f"kraftlog pipeline: {missing}", file=sys.stderr)
        return 1
    run_pipeline: Callable[[Sequence[str]], int] = import_module(
        f"kraftlog.spark.pipelines.{name}"
    ).run
    return run_pipeline(arguments[1:])


def missing_packages() -> str:
    """Which packages are missing and how to install them; empty if all are installed."""
    missing = [package for package in PACKAGES if find_spec(package) is None]
    if not missing:
        return ""
    names = ", ".join(missing)
    return f"not installed: {names}; install kraftlog from its clone with pip install '.[spark]'"


def usage() -> str:
    lines = [f"  {name:<16}{pipeline_help}" for name, pipeline_help in PIPELINES.items()]
    return "\n".join(["usage: kraftlog pipeline PIPELINE [options]", "", *lines])
