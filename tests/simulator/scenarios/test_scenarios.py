"""What users of the simulator rely on: the command, the named scenarios, and shrinking."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING

import pytest

from kraftlog.cli import main
from kraftlog.raft import elections
from kraftlog_simulator.run import plan_of, simulate
from kraftlog_simulator.scenarios.catalog import KAFKA_MIX, SCENARIOS
from kraftlog_simulator.shrink import shrink

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_scenario_passes_by_its_name(scenario: str) -> None:
    """Q37: Kafka's own scenarios, and ours."""
    outcome = simulate(scenario, 1)
    assert not outcome.failed, str(outcome)
    assert outcome.steps > 10


def test_the_mix_for_comparing_speed_is_kafkas() -> None:
    assert KAFKA_MIX[0] == "initial-leader"
    assert KAFKA_MIX[-1] == "data-loss"


@cache
def failing_seed() -> int:
    """A seed whose run fails while `_grants` is patched: voters grant every vote."""
    # Seed 1 fails, too, and shrinks slowly.
    return next(seed for seed in range(2, 100) if simulate("mixture", seed).failed)


def test_a_failing_run_says_how_to_repeat_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With voters that grant every vote, the last line has the command that repeats the run."""
    monkeypatch.setattr(elections, "_grants", lambda *_: True)
    seed = failing_seed()
    assert main(["simulate", "--seed", str(seed), "--shrink"]) == 1
    printed = capsys.readouterr().out.splitlines()
    line = printed[-1]
    assert line.startswith(f"seed {seed} mixture step ")
    arguments = line.partition("again: kraftlog ")[2].split(" ")
    assert main(arguments) == 1
    assert capsys.readouterr().out.splitlines()[-1].partition(" | ")[0] == line.partition(" | ")[0]
    assert len(printed) - 1 < len(plan_of(seed)), "shrinking left fewer faults, one on each line"


def test_shrinking_keeps_the_kind_of_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elections, "_grants", lambda *_: True)
    failing = simulate("mixture", failing_seed())
    small = shrink(failing)
    assert small.violation.invariant == failing.violation.invariant
    assert len(small.plan) <= len(failing.plan)


def test_the_plan_is_limited_by_kind_and_by_number() -> None:
    plan = plan_of(3, ["loss", "pause"])
    assert {fault.kind for fault in plan} == {"loss", "pause"}
    kept = simulate("mixture", 3, kinds=["loss", "pause"], keep=[0]).plan
    assert kept == plan[:1]


def test_the_command_plays_one_or_many_runs_or_lists_scenarios(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace"
    assert main(["simulate", "--scenario", "initial-leader", "--trace", str(trace)]) == 0
    assert ": passed" in capsys.readouterr().out
    assert "starts" in trace.read_text().splitlines()[0]
    assert main(["simulate", "--scenario", "quiet", "--runs", "2"]) == 0
    assert capsys.readouterr().out == "2 runs, 0 failed\n"
    assert main(["simulate", "--list"]) == 0
    assert "mixture" in capsys.readouterr().out


def test_the_command_prints_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def printed(*words: str, code: int = 0) -> Any:
        assert main(["simulate", "--json", *words]) == code
        return json.loads(capsys.readouterr().out)

    one = printed("--scenario", "initial-leader", "--trace", str(tmp_path / "trace"))
    assert (one["runs"], one["failed"], len(one["outcomes"])) == (1, 0, 1)
    assert one["outcomes"][0]["command"] == "kraftlog simulate --scenario initial-leader --seed 1"
    assert printed("--scenario", "quiet", "--runs", "2") == {"runs": 2, "failed": 0, "outcomes": []}
    assert "mixture" in printed("--list")["scenarios"]
    counted = printed("--scenario", "quiet", "--coverage")
    assert isinstance(counted["coverage"], dict)
    assert counted["never_occurred"] == []
    assert main(["simulate", "--json", "--trace", "-"]) == 2
    assert main(["simulate", "--json", "--soak", str(tmp_path)]) == 2
    capsys.readouterr()
    monkeypatch.setattr(elections, "_grants", lambda *_: True)
    [failure] = printed("--seed", str(failing_seed()), "--shrink", code=1)["outcomes"]
    assert failure["failed"]
    assert failure["violation"]
    assert isinstance(failure["faults"], list)


@pytest.mark.parametrize("arguments", [["--scenario", "nonsense"], ["--faults", "loss,nonsense"]])
def test_an_unknown_scenario_or_fault_is_named_in_the_error(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", *arguments]) == 2
    assert "nonsense" in capsys.readouterr().err
