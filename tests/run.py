"""Runs `make test`: every test on all cores, then a table of the time by group.

    python -m tests.run [arguments of pytest]

Tests marked `long` run only with `-m long` (`make long`).

Tests that need the JVM share one worker (`--dist loadgroup`), so that only one JVM runs. A run in
which no test passed or failed is a failure.
"""

from __future__ import annotations

import os
import sys
import time

import pytest

#: One more than the cores of CI's machine, as many tests wait for processes that they start.
WORKERS = 3

#: Wall seconds that a group of tests may take in a full run, on two quiet cores. A full run stays
#: under eight minutes; these leave each group some room.
BUDGETS = {"basics": 110, "quorum": 100, "node": 240, "spark": 110}
#: The group of each folder of tests; all others belong to `basics`.
GROUPS = {
    "raft": "quorum",
    "simulator": "quorum",
    "node": "node",
    "server": "node",
    "runner": "node",
    "controller": "node",
    "metadata": "node",
    "replication": "node",
    "groups": "node",
    "transactions": "node",
    "client": "node",
    "cli": "node",
    "interop": "node",
    "spark": "spark",
}


def group_of(node_id: str) -> str:
    """The group of a test, by the folder below `tests/` in its id."""
    parts = node_id.partition("::")[0].split("/")
    return GROUPS.get(parts[1], "basics") if len(parts) > 2 else "basics"


class GroupTimes:
    """Sums the time and number of tests of each group."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(BUDGETS, 0.0)
        self.tests = dict.fromkeys(BUDGETS, 0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        group = group_of(report.nodeid)
        self.seconds[group] += report.duration
        self.tests[group] += report.when == "call" and not report.skipped

    def table(self, wall_seconds: float) -> str:
        """Each group's share of the wall time; a group over its budget is marked."""
        busy = sum(self.seconds.values()) or 1.0
        lines = ["group     tests  wall s  share  budget s"]
        for group, seconds in self.seconds.items():
            wall = wall_seconds * seconds / busy
            warning = "  over its budget" if wall > BUDGETS[group] else ""
            lines.append(
                f"{group:<8} {self.tests[group]:>6} {wall:>7.1f} {seconds / busy:>6.0%} "
                f"{BUDGETS[group]:>9}{warning}"
            )
        return "\n".join(lines)


def main(arguments: list[str]) -> int:
    # Where Python writes no bytecode, each worker and each child compiles pytest and all tests.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    times = GroupTimes()
    start = time.perf_counter()
    options = ["-n", str(min(WORKERS, (os.cpu_count() or 1) + 1)), "--dist", "loadgroup"]
    if "-m" not in arguments:
        options += ["-m", "not long"]
    code = int(pytest.main([*options, *arguments], plugins=[times]))
    print(times.table(time.perf_counter() - start))
    if code == 0 and not any(times.tests.values()):
        print("no test ran")
        return int(pytest.ExitCode.NO_TESTS_COLLECTED)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
