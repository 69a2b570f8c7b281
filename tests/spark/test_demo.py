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
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.xdist_group("jvm")]
#: The lines that the demo prints, one per step.
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
(?:.*\n)*demo: done in \d+ s: no record is lost or duplicated
"""


def start_demo(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "kraftlog", "demo"],
        env={**os.environ, "TMPDIR": str(folder), "PYTHONPATH": ROOT},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def processes_of(folder: Path) -> list[str]:
    """The command lines of running processes that contain the path of this directory."""
    commands = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                command = file.read().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it has ended
            continue
        if str(folder) in command:
            commands.append(command)
    return commands


@pytest.mark.long
def test_every_step_is_printed_and_nothing_is_left_behind(tmp_path: Path) -> None:
    with start_demo(tmp_path) as process:
        printed, errors = process.communicate(timeout=5 * LIMIT_S)
    assert (process.returncode, errors) == (0, "")
    assert re.fullmatch(STEPS, printed), printed
    assert "kraftlog-demo-" not in " ".join(os.listdir(tmp_path))
    assert processes_of(tmp_path) == []


def test_an_interrupted_demo_leaves_nothing(tmp_path: Path) -> None:
    with start_demo(tmp_path) as process:
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
    monkeypatch.setattr(demo, "missing_packages", lambda: "not installed: pyspark")
    assert main(["demo"]) == 1
    assert capsys.readouterr().err == "kraftlog demo: not installed: pyspark\n"


def archive_of(code: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> demo.Archive:
    """An archive whose process runs this program."""
    monkeypatch.setattr(demo, "python_command", lambda *_: [sys.executable, "-c", code])
    return demo.Archive("a:1", str(folder / "lake"), str(folder / "archive.txt"))


def test_an_archive_that_ends_is_named_with_its_last_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "import sys; sys.stderr.write(''.join(f'line {n}\\n' for n in range(50))); sys.exit(1)"
    archive = archive_of(code, tmp_path, monkeypatch)
    try:
        archive._process.wait(LIMIT_S)
        with pytest.raises(demo.DemoError) as raised:
            archive.check()
    finally:
        archive.kill()
    first, second, *lines = demo._failure(raised.value, is_kept=False).splitlines()
    assert first == (
        "kraftlog demo: the archive has ended. On a busy machine, stop other programs; then run it "
        "again with --keep, which keeps all output, or report this"
    )
    assert second == "the last lines of archive.txt:"
    assert lines == [f"    line {number}" for number in range(50 - demo.SHOWN_LINES, 50)]


def test_a_slow_archive_is_awaited_until_the_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the timeout, which no slow machine should reach, the error shows the output."""
    step = '{"event": "step", "step": "starting Spark"}'
    code = f"import time; print({step!r}, flush=True); time.sleep(9e3)"
    slow_demo = demo.Demo(keep=False)
    slow_demo._archive = archive = archive_of(code, tmp_path, monkeypatch)
    try:
        slow_demo._wait_until("no output", lambda: os.path.getsize(archive.log) > 0)
        is_done = iter([False, False, True])
        slow_demo._wait_until("the archive did not begin", lambda: next(is_done), archive.log)
        monkeypatch.setattr(demo, "STEP_TIMEOUT_S", 0)
        with pytest.raises(demo.DemoError) as raised:
            slow_demo._wait_until("the archive did not begin", lambda: False, archive.log)
    finally:
        slow_demo.close()
    message = demo._failure(raised.value, is_kept=True)
    assert message.startswith(
        "kraftlog demo: the archive did not begin within 0 s. On a busy machine"
    )
    assert message.endswith(f"\n    {step}")
