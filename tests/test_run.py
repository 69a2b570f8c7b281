"""`python -m tests.run`: its table of times, its exit code, and one worker for each group."""

from __future__ import annotations

import sys

import pytest

from tests import house_rules, run


def report(
    node_id: str, seconds: float, when: str = "call", outcome: str = "passed"
) -> pytest.TestReport:
    return pytest.TestReport(
        nodeid=node_id,
        location=(node_id, 0, ""),
        keywords={},
        outcome=outcome,  # type: ignore[arg-type]  # a literal that came through an argument
        longrepr=None,
        when=when,  # type: ignore[arg-type]  # the same
        duration=seconds,
    )


def test_a_test_belongs_to_the_group_of_its_folder() -> None:
    assert run.group_of("tests/raft/test_votes.py::test_q12[tests/cluster/x]") == "quorum"
    assert run.group_of("tests/interop/test_driver.py::test_a@jvm") == "node"
    assert run.group_of("tests/records/deep/test_a.py::test_a") == "basics"
    assert run.group_of("tests/test_house_rules.py::test_a") == "basics"


def test_every_group_has_a_budget() -> None:
    assert set(run.GROUPS.values()) <= set(run.BUDGETS)


def test_wall_time_is_divided_in_proportion_to_the_time_of_tests() -> None:
    times = run.GroupTimes()
    for test_report in (
        report("tests/raft/test_a.py::test_a", 2.0, when="setup"),
        report("tests/raft/test_a.py::test_a", 4.0),
        report("tests/spark/test_a.py::test_a", 2.0, outcome="skipped"),
    ):
        times.pytest_runtest_logreport(test_report)
    assert times.tests["quorum"] == 1
    assert times.tests["spark"] == 0
    lines = times.table(280.0).splitlines()
    quorum_s, spark_s = str(run.BUDGETS["quorum"]), str(run.BUDGETS["spark"])
    [quorum] = [line for line in lines if line.startswith("quorum")]
    [spark] = [line for line in lines if line.startswith("spark")]
    assert quorum.split() == ["quorum", "1", "210.0", "75%", quorum_s, "over", "its", "budget"]
    assert spark.split() == ["spark", "0", "70.0", "25%", spark_s]


@pytest.mark.parametrize(
    ("body", "code"), [("pass", 0), ("assert False", 1), ("pytest.skip('all')", 5)]
)
def test_a_run_fails_if_a_test_fails_or_none_runs(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, body: str, code: int
) -> None:
    monkeypatch.setenv("PYTHONPATH", house_rules.ROOT)
    pytester.makepyfile(f"import pytest\ndef test_a():\n    {body}\n")
    result = pytester.run(sys.executable, "-m", "tests.run", "-n", "0")  # workers start slowly
    assert result.ret == code
    result.stdout.fnmatch_lines(["basics *"])


def test_tests_of_an_xdist_group_run_in_one_worker(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pytest that pytest-xdist does not support ignores the groups, and two JVMs would start."""
    monkeypatch.setenv("PYTHONPATH", house_rules.ROOT)
    body = """
import os
import pytest

@pytest.mark.xdist_group("one")
@pytest.mark.parametrize("number", range(4))
def test_a(number):
    with open("workers.txt", "a") as file:
        print(os.environ["PYTEST_XDIST_WORKER"], file=file)
"""
    pytester.makepyfile(test_a=body, test_b=body)
    result = pytester.run(sys.executable, "-m", "tests.run", "-n", "2")
    assert result.ret == 0
    workers = (pytester.path / "workers.txt").read_text().split()
    assert len(workers) == 8
    assert len(set(workers)) == 1
