"""`kraftlog simulate --jobs`: the same runs in several processes."""

from __future__ import annotations

import json
import pickle

import pytest

from kraftlog_simulator.command import run
from kraftlog_simulator.violation import Violation


def test_a_violation_survives_the_way_between_processes() -> None:
    """Runs in other processes, also those of a soak, report what they found."""
    copy = pickle.loads(pickle.dumps(Violation("one leader", "there are two")))
    assert (copy.invariant, copy.detail) == ("one leader", "there are two")
    assert str(copy) == "one leader: there are two"


@pytest.mark.slow
def test_jobs_play_the_same_runs_in_the_same_order(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--scenario", "quiet", "--runs", "9", "--seed", "5", "--coverage", "--json"]
    shown = []
    for jobs in ("1", "2"):
        code = run([*arguments, "--jobs", jobs])
        shown.append((code, json.loads(capsys.readouterr().out)))
    assert shown[0] == shown[1]
    assert shown[0][1]["runs"] == 9


@pytest.mark.parametrize("option", [["--trace", "-"], ["--html", "page"], ["--soak", "directory"]])
def test_jobs_do_not_work_with_one_output(
    option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*option, "--jobs", "2"]) == 2
    assert "--jobs does not work with" in capsys.readouterr().err
