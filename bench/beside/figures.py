"""The figures of a case: collected per round, stored in a file, reduced to medians."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import TYPE_CHECKING

from tests.interop.cache import CACHE

if TYPE_CHECKING:
    from collections.abc import Sequence

FOLDER = os.path.join(CACHE, "bench")


@dataclass
class Result:
    """The result of a case; `figures[row][peer]` has a figure for each round.

    `seconds`: how long it took. `finished`: the peers that were measured without a failure.
    """

    case: str
    began: str = ""
    ended: str = ""
    idle_before: float = 0.0
    is_full: bool = True
    seconds: float = 0.0
    finished: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    figures: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    def add(self, row: str, peer: str, figure: float) -> None:
        self.figures.setdefault(row, {}).setdefault(peer, []).append(figure)

    def medians(self, row: str) -> dict[str, float]:
        return {peer: median(each) for peer, each in self.figures.get(row, {}).items()}

    def save(self, folder: str = FOLDER) -> str:
        """Write the file atomically."""
        os.makedirs(folder, exist_ok=True)
        path = file_of(self.case, folder)
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            json.dump(asdict(self), file, indent=1)
        os.replace(f"{path}.new", path)
        return path


def file_of(case: str, folder: str) -> str:
    return os.path.join(folder, f"beside-{case}.json")


def stored_result(case: str, folder: str = FOLDER) -> Result | None:
    """The latest result of a case; None if it has not been measured."""
    try:
        with open(file_of(case, folder), encoding="utf-8") as file:
            return Result(**json.load(file))
    except FileNotFoundError:
        return None


def percentile(figures: Sequence[float], percent: float) -> float:
    """A percentile of the figures, which is always one of them: nothing is interpolated."""
    ordered = sorted(figures)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def parse_perf_test(output: str) -> tuple[int, float]:
    """Records and seconds by the last line that Kafka's producer-perf-test prints."""
    for line in reversed(output.splitlines()):
        words = line.replace(",", " ").split()
        if words[1:3] == ["records", "sent"] and words[4:5] == ["records/sec"]:
            count = int(words[0])
            return count, count / float(words[3])
    raise ValueError(f"producer-perf-test gave no figures: {output[-400:]!r}")
