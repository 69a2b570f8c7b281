"""`kraftlog simulate --jobs`: the same runs in several processes."""

from __future__ import annotations

import json
import os
import pickle
import signal
from multiprocessing import Pipe, get_context
from typing import TYPE_CHECKING

import pytest

from kraftlog_simulator.command import run
from kraftlog_simulator.violation import Violation
from kraftlog_simulator.workers import begin_worker
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


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


def test_workers_end_with_a_command_that_is_killed() -> None:
    """They ignore signals, so that nothing else would end them."""
    ours, theirs = Pipe()
    context = get_context("spawn")
    command = context.Process(target=command_with_a_worker, args=(theirs,))
    command.start()
    theirs.close()
    assert ours.poll(LIMIT_S)
    assert ours.recv() == "works"
    assert command.pid is not None
    os.kill(command.pid, signal.SIGKILL)
    command.join(LIMIT_S)
    assert ours.poll(LIMIT_S), "the worker still has its end of the pipe"
    with pytest.raises(EOFError):
        ours.recv()
    ours.close()


def command_with_a_worker(pipe: Connection) -> None:
    get_context("spawn").Process(target=work, args=(pipe,)).start()
    signal.pause()


def work(pipe: Connection) -> None:
    begin_worker()
    pipe.send("works")
    while True:
        signal.pause()


@pytest.mark.parametrize("option", [["--trace", "-"], ["--html", "page"], ["--soak", "directory"]])
def test_jobs_do_not_work_with_one_output(
    option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*option, "--jobs", "2"]) == 2
    assert "--jobs does not work with" in capsys.readouterr().err
