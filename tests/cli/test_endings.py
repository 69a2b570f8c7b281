"""How commands end after Ctrl-C or with a closed pipe."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

ENDED_BY_CTRL_C = 130


def started(*words: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "kraftlog", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.parametrize(
    "words",
    [["--help"], ["simulate", "--list"], ["storage", "version-mapping"]],
    ids=lambda words: words[0],
)
def test_a_closed_pipe_is_no_error(words: list[str]) -> None:
    process = started(*words)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    with process.stderr as errors:
        assert errors.read() == b""
    assert process.wait() == 0


def test_ctrl_c_ends_a_command_quietly() -> None:
    process = started("simulate", "--scenario", "quiet", "--trace", "-", "--runs", "1000000")
    assert process.stdout is not None
    assert process.stderr is not None
    with process.stdout as output, process.stderr as errors:
        assert output.readline(), "it is at work"
        process.send_signal(signal.SIGINT)
        output.read()
        assert errors.read() == b""
    code = process.wait()
    # Python itself ends by the signal where that came in the midst of code made at run time. A
    # shell shows both as the same.
    assert (code if code >= 0 else 128 - code) == ENDED_BY_CTRL_C
