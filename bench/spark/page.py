"""The section of the page: a row for each task, the connector's figures beside kraftlog's."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

from bench.page import figure_text
from bench.spark.tasks import CONNECTOR, OURS, TASKS

if TYPE_CHECKING:
    from collections.abc import Mapping

TITLE = "On Apache Spark"
_NOTE = (
    "Spark `local[2]`, in a session of `spark_session`, 100-byte records in four partitions of one "
    "kraftlog node on the same machine. The connector is Spark's own for Kafka, in the same "
    "session, and takes turns with kraftlog's; medians. CPU seconds are those of Spark's whole "
    "process tree per million rows."
)


@dataclass
class Figure:
    """Rows per second, and CPU seconds of Spark per million rows, of each round by format.

    Or the seconds that a task takes (`Task.is_time`).
    """

    rates: dict[str, list[float]] = field(default_factory=dict)
    cpu: dict[str, list[float]] = field(default_factory=dict)


def section_text(figures: Mapping[str, Figure]) -> str:
    lines = [
        f"## {TITLE} (`python -m bench spark`)",
        "",
        _NOTE,
        "",
        "| | connector, rows/s | CPU s/M | kraftlog, rows/s | CPU s/M | ratio | required | aim | |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---|",
        *(row(task, figure) for task, figure in figures.items()),
        "",
    ]
    return "\n".join(lines)


def row(task: str, figure: Figure) -> str:
    cells = [TASKS[task].what]
    for source in (CONNECTOR, OURS):
        kinds = (figure.rates, figure.cpu)
        cells += [figure_text(median(kind[source])) if source in kind else "" for kind in kinds]
    ratio = None
    if CONNECTOR in figure.rates and OURS in figure.rates:
        ratio = median(figure.rates[OURS]) / median(figure.rates[CONNECTOR])
        ratio = 1 / ratio if TASKS[task].is_time else ratio
    cells += [
        "" if each is None else f"{each:.1f}×"
        for each in (ratio, TASKS[task].required, TASKS[task].aim)
    ]
    cells.append(reached(ratio, TASKS[task].required, TASKS[task].aim))
    return f"| {' | '.join(cells)} |"


def reached(ratio: float | None, required: float | None, aim: float | None) -> str:
    """Whether a ratio is as required, and as aimed for; nothing without a ratio or a goal."""
    if ratio is None or (required is None and aim is None):
        return ""
    if required is not None and ratio < required:
        return f"**missing {required / ratio:.2g}×**"
    if aim is not None and ratio < aim:
        return f"aim: missing {aim / ratio:.2g}×"
    return "reached"
