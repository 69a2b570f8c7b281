"""`kraftlog simulate --soak`: runs until stopped, stores failures, resumes."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kraftlog_simulator.run import Outcome
from kraftlog_simulator.soak import SEEDS_PER_TASK, Soak
from kraftlog_simulator.violation import Violation

if TYPE_CHECKING:
    from pathlib import Path


def outcome(seed: int, violation: Violation | None = None) -> Outcome:
    return Outcome("quiet", seed, violation, 1, 1, 1, {"truncation": 2}, ())


def record_ten_seeds(soak: Soak, first: int) -> None:
    soak.record_task(first, [outcome(seed) for seed in range(first, first + SEEDS_PER_TASK)])


@pytest.mark.slow
@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
def test_a_soak_stops_cleanly_and_resumes(tmp_path: Path, signal_number: signal.Signals) -> None:
    """Q37: the tasks in progress are completed, and the next soak begins after their seeds."""
    command = [sys.executable, "-m", "kraftlog", "simulate", "--soak", str(tmp_path / "soak")]
    first = 2
    for arguments in ([*command, "--seed", "2"], command):
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline().startswith(f"from seed {first} on, ")
            process.send_signal(signal_number)
            last = process.stdout.read().splitlines()[-1]
        assert process.returncode == 0, last
        first = int((tmp_path / "soak" / "next-seed").read_text())
        assert last.endswith(f" 0 failed; the next seed is {first}")


def test_failures_are_stored_with_the_command_that_repeats_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    soak = Soak(str(tmp_path))
    soak.record_task(1, [outcome(1), outcome(2, Violation("one leader", "there are two"))])
    soak.record_task(11, [outcome(11, Violation("one vote", "two votes"))])
    stored = (tmp_path / "failures.txt").read_text()
    assert capsys.readouterr().out == stored
    assert (
        "one leader: there are two | again: kraftlog simulate --scenario quiet --seed 2" in stored
    )
    assert stored.splitlines()[1].endswith("--scenario quiet --seed 11")
    assert str(soak) == "3 runs, 2 failed; the next seed is 21"
    assert soak.coverage == {"truncation": 6}


def test_next_seed_does_not_skip_unfinished_seeds(tmp_path: Path) -> None:
    soak = Soak(str(tmp_path))
    record_ten_seeds(soak, 11)
    assert Soak(str(tmp_path)).first == 1
    record_ten_seeds(soak, 1)
    assert Soak(str(tmp_path)).first == 21
    assert Soak(str(tmp_path), first=7).first == 7
