"""The exit of commands after Ctrl-C, or when their output pipe is closed."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kraftlog import Client
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable

INTERRUPTED = 130


def start_command(*words: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "kraftlog", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.parametrize(
    "words",
    [["--help"], ["simulate", "--list"], ["storage", "version-mapping"]],
    ids=lambda words: words[0],
)
def test_a_closed_pipe_is_no_error(words: list[str]) -> None:
    process = start_command(*words)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    with process.stderr as errors:
        assert errors.read() == b""
    assert process.wait(LIMIT_S) == 0


def test_ctrl_c_ends_a_command_quietly() -> None:
    process = start_command("simulate", "--scenario", "quiet", "--trace", "-", "--runs", "1000000")
    assert process.stdout is not None
    try:
        assert process.stdout.readline(), "it has begun to write"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=LIMIT_S)
    finally:
        process.kill()
        process.communicate()
    assert errors == b""
    # If the signal comes while Python runs generated code, the process ends by the signal itself.
    # A shell reports both as 130.
    code = process.returncode
    assert (code if code >= 0 else 128 - code) == INTERRUPTED


def test_sigterm_makes_a_consumer_commit_and_leave_its_group(
    our_node: str, named: Callable[[str], str]
) -> None:
    """Kafka's console consumer does the same. `timeout 60 kraftlog consume` sends SIGTERM."""
    topic, group = named("topic"), named("group")
    with Client(our_node, timeout_s=LIMIT_S) as client:
        client.create_topic(topic, partitions=1)
        with client.producer() as producer:
            for value in (b"first", b"second"):
                producer.send(topic, value)
        words = ["--bootstrap-server", our_node, "--topic", topic, "--from-beginning"]
        process = start_command("consume", *words, "--group", group)
        assert process.stdout is not None
        try:
            lines = [process.stdout.readline(), process.stdout.readline()]
            process.terminate()
            process.communicate(timeout=LIMIT_S)
        finally:
            process.kill()
            process.communicate()
        assert lines == [b"first\n", b"second\n"]
        assert process.returncode == INTERRUPTED
        # The signal may come before the consumer has taken note that the last line is written.
        assert client.committed(group)[topic, 0].offset in {1, 2}
        assert client.describe_group(group).members == ()
