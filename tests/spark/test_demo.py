"""`kraftlog demo`: a cluster, its clients and an archive, while a broker is killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kraftlog.cli import INTERRUPTED, demo, main
from tests.house_rules import ROOT
from tests.patience import LIMIT_S

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.xdist_group("jvm")]
#: What it says, a step in a line.
STEPS = r"""demo: starting 3 nodes on .*
demo: created topic orders with 3 partitions on 3 replicas
demo: a producer with acks=all and consumer group billing are at work
demo: archiving orders to .*: Spark starts
demo: [\d,]+ records are in the Delta table
demo: killed node \d \(kill -9\), leader of orders-0
demo: node \d leads orders-0 now; [\d,]+ more records are acknowledged
demo: started node \d again: it has caught up and is in every ISR
demo: the producer has stopped: ([\d,]+) records were acknowledged, and the log has them
demo: group billing has read all of them
demo: the archive has caught up: \1 records
demo: kraftlog pipeline verify .*
(?:.*\n)*demo: done in \d+ s: no record is lost, none is twice
"""


def started(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "kraftlog", "demo"],
        env={**os.environ, "TMPDIR": str(folder), "PYTHONPATH": ROOT},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def processes_of(folder: Path) -> list[str]:
    """The command lines of processes that name the directory."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it has ended
            continue
        if str(folder) in words:
            found.append(words)
    return found


@pytest.mark.long
def test_every_step_is_said_and_nothing_is_left(tmp_path: Path) -> None:
    with started(tmp_path) as process:
        printed, errors = process.communicate(timeout=5 * LIMIT_S)
    assert (process.returncode, errors) == (0, "")
    assert re.fullmatch(STEPS, printed), printed
    assert "kraftlog-demo-" not in " ".join(os.listdir(tmp_path))
    assert processes_of(tmp_path) == []


def test_an_interrupted_demo_leaves_nothing(tmp_path: Path) -> None:
    with started(tmp_path) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("demo: starting 3 nodes")
        assert process.stdout.readline().startswith("demo: created topic orders")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=2 * LIMIT_S)
    assert process.returncode == INTERRUPTED
    assert errors == "kraftlog demo: interrupted\n"
    assert os.listdir(tmp_path) == []
    assert processes_of(tmp_path) == []


def test_without_spark_one_line_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "not_installed", lambda: "not installed: pyspark")
    assert main(["demo"]) == 1
    assert capsys.readouterr().err == "kraftlog demo: not installed: pyspark\n"
