"""What pipelines print: progress for people and programs, and errors in one paragraph."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext

from kraftlog.cli import main
from kraftlog.cli import pipeline as command
from kraftlog.errors import ConfigError, ErrorCode, RefusedError, UnreachableError
from kraftlog.spark.brief_errors import CORRUPT_BATCH_ADVICE
from kraftlog.spark.pipelines import jvm
from kraftlog.spark.pipelines.errors import paragraph
from kraftlog.spark.pipelines.progress import Progress, duration_text
from kraftlog.spark.pipelines.quiet import failure_reason

if TYPE_CHECKING:
    from collections.abc import Iterator

_NS = 1_000_000_000

PLANNING_FAILED = """\
[PYTHON_DATA_SOURCE_ERROR] Failed to plan Python data source kraftlog in Python: Traceback (most \
recent call last):
  File "/site-packages/pyspark/worker.py", line 1, in main
    process()
  File "/site-packages/kraftlog/spark/positions.py", line 9, in selected
    raise ConfigError("topic orders does not exist")
kraftlog.errors.ConfigError: topic orders does not exist

JVM stacktrace:
org.apache.spark.sql.AnalysisException
\tat org.apache.spark.sql.errors.QueryCompilationErrors$.a(QueryCompilationErrors.scala:1)
"""
TASK_FAILED = """\
An error occurred while calling o57.collect.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 \
times, most recent failure: Lost task 0.0 in stage 0.0 (TID 0) (localhost executor driver): \
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/site-packages/kraftlog/client/connection.py", line 9, in read
kraftlog.errors.UnreachableError: 127.0.0.1:9092 did not respond: connection refused

\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:1)
\tat java.base/java.lang.Thread.run(Thread.java:840)

Driver stacktrace:
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:1)
"""
CORRUPT = TASK_FAILED.replace(
    "UnreachableError: 127.0.0.1:9092 did not respond: connection refused",
    "CorruptBatchError: orders-0, offsets 0 to 9: checksum 0x1, computed 0x2",
)
PYTHON_ERROR = """\
Traceback (most recent call last):
  File "a.py", line 1, in f
ZeroDivisionError: division by zero

\tat org.apache.spark.Foo(Foo.scala:1)
"""
SPARK_ERROR = """\
[PATH_ALREADY_EXISTS] Path file:/tmp/runs already exists. Set mode as "overwrite" to overwrite \
the existing path. SQLSTATE: 42K04

JVM stacktrace:
\tat org.apache.spark.Foo(Foo.scala:1)
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (PLANNING_FAILED, "topic orders does not exist"),
        (TASK_FAILED, "127.0.0.1:9092 did not respond: connection refused"),
        (
            CORRUPT,
            f"orders-0, offsets 0 to 9: checksum 0x1, computed 0x2. {CORRUPT_BATCH_ADVICE}",
        ),
        (PYTHON_ERROR, "division by zero (ZeroDivisionError); -v prints the stack trace"),
        (SPARK_ERROR, f"{' '.join(SPARK_ERROR.split()[:-4])}; -v prints the stack trace"),
    ],
)
def test_an_error_is_one_paragraph_without_stack_traces(text: str, expected: str) -> None:
    assert paragraph(RuntimeError(text)) == expected


def test_the_paragraph_of_a_kraftlog_error_is_its_message() -> None:
    assert paragraph(ConfigError("option a=b: expected c")) == "option a=b: expected c"


def test_durations_are_hours_minutes_and_seconds() -> None:
    assert [duration_text(s) for s in (0.4, 67, 3723)] == ["0:00", "1:07", "1:02:03"]


NOT_STARTED = """\
WARNING: Using incubator modules: jdk.incubator.vector
Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties
26/11/23 19:24:02 WARN Utils: Set SPARK_LOCAL_IP if you need to bind to another address
"""
WRONG_MASTER = f"""{NOT_STARTED}\
Exception in thread "main" org.apache.spark.SparkException: Master must start with spark or local
\tat org.apache.spark.deploy.SparkSubmit.error(SparkSubmit.scala:1)
"""
NO_MASTER = f"""{NOT_STARTED}\
26/11/23 19:25:18 ERROR StandaloneSchedulerBackend: Application has been killed. Reason: Giving up.
"""


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (WRONG_MASTER, "Master must start with spark or local"),
        (NO_MASTER, "Application has been killed. Reason: Giving up."),
        (f"{NOT_STARTED}env: bash: not found\n", "env: bash: not found"),
        (NOT_STARTED, ""),
    ],
)
def test_why_spark_did_not_start_is_one_line(log: str, reason: str) -> None:
    assert failure_reason(log) == reason


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def clock(*seconds: float) -> Iterator[int]:
    return (int(second * _NS) for second in seconds)


def test_progress_has_rows_a_second_lag_and_time_left() -> None:
    lines = io.StringIO()
    times = clock(0, 0, 2, 3)
    progress = Progress("archive", lines=lines, now_ns=lambda: next(times))
    progress.show(3000, lag=7500)
    progress.show(6000, lag=0)
    assert lines.getvalue().splitlines() == [
        "archive: 3,000 rows  1,500 rows/s  lag 7,500  0:05 left",
        "archive: 6,000 rows  2,000 rows/s  lag 0",
    ]


def test_rates_leave_out_the_start_of_spark() -> None:
    lines = io.StringIO()
    times = clock(0, 0, 30, 32)
    progress = Progress("verify", lines=lines, now_ns=lambda: next(times))
    progress.begin()
    progress.show(3000, total=6000)
    assert lines.getvalue() == "verify: 3,000 of 6,000 rows  1,500 rows/s  0:02 left\n"


def test_a_file_gets_at_most_one_line_a_second() -> None:
    """Except for the last line, when nothing is left to do."""
    lines = io.StringIO()
    times = clock(0, 0, 1, 1.2, 1.4, 1.5)
    progress = Progress("simulate", lines=lines, now_ns=lambda: next(times))
    for rows in (1, 2, 3, 4):
        progress.show(rows, total=4, unit="seeds")
    shown = [line.partition("  ")[0] for line in lines.getvalue().splitlines()]
    assert shown == ["simulate: 1 of 4 seeds", "simulate: 4 of 4 seeds"]


def test_a_terminal_has_one_line_that_is_redrawn() -> None:
    lines = Terminal()
    times = clock(0, 0, 1, 2)
    progress = Progress("archive", lines=lines, now_ns=lambda: next(times))
    progress.show(1)
    progress.show(4)
    progress.say("done")
    assert lines.getvalue() == (
        "\r\x1b[Karchive: 1 rows  1.0 rows/s\r\x1b[Karchive: 4 rows  2.0 rows/s\narchive: done\n"
    )


def test_json_has_an_object_per_line() -> None:
    lines = io.StringIO()
    times = clock(0, 0, 2)
    progress = Progress("archive", is_json=True, lines=lines, now_ns=lambda: next(times))
    progress.say("starting")
    progress.show(3000, lag=7500, batch=4)
    progress.row({"seed": 1})
    progress.result({"rows": 3000}, "3,000 rows")
    assert [json.loads(line) for line in lines.getvalue().splitlines()] == [
        {"event": "step", "step": "starting"},
        {
            "event": "progress",
            "rows": 3000,
            "rows_per_s": 1500.0,
            "left_s": 5.0,
            "lag": 7500,
            "batch": 4,
        },
        {"event": "row", "seed": 1},
        {"event": "result", "rows": 3000},
    ]


def test_without_spark_one_line_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "find_spec", lambda name: None if name == "pyspark" else name)
    assert main(["pipeline", "simulate", "--seeds", "1:2"]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line == (
        "kraftlog pipeline: not installed: pyspark; "
        "install kraftlog from its clone with pip install '.[spark]'"
    )


def test_an_unknown_pipeline_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "dance"]) == 2
    assert "unknown pipeline 'dance'" in capsys.readouterr().err
    assert main(["pipeline"]) == 2
    assert main(["pipeline", "--help"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in command.PIPELINES)


def test_every_pipeline_has_its_module() -> None:
    folder = os.path.dirname(sys.modules[Progress.__module__].__file__ or "")
    assert {f"{name}.py" for name in command.PIPELINES} <= {*os.listdir(folder)}


def test_errors_of_topics_and_brokers_come_with_advice() -> None:
    unknown = RefusedError(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, api="Metadata", broker="a:1", subject="topic t"
    )
    assert paragraph(unknown).startswith("topic t does not exist; kraftlog topics --list")
    invalid = RefusedError(
        ErrorCode.INVALID_TOPIC_EXCEPTION, api="Metadata", broker="a:1", subject="topic ord*"
    )
    assert paragraph(invalid).startswith(
        "topic ord* can't be the name of a topic, and patterns are"
    )
    unreachable = paragraph(UnreachableError("no broker responds: a:1: Connection refused"))
    assert unreachable.startswith(
        "no broker responds: a:1: Connection refused; check --bootstrap-server"
    )


@pytest.mark.parametrize(
    ("ended_by", "expected"),
    [
        ("kill -9 $$", "was killed (SIGKILL), by someone or because the machine ran out of memory"),
        ("kill $$", "was ended by SIGTERM"),
        ("exit 3", "ended with exit code 3"),
    ],
)
def test_the_end_of_the_jvm_is_explained(
    monkeypatch: pytest.MonkeyPatch, ended_by: str, expected: str
) -> None:
    process = subprocess.Popen(["sh", "-c", ended_by])
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))
    end = jvm.how_it_ended(Py4JNetworkError("Error while sending or receiving"))
    assert end is not None
    assert end.startswith(f"Spark's Java process {expected}. Start the pipeline again")


def test_an_error_is_not_explained_by_a_running_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=None))
    assert jvm.how_it_ended(ConnectionRefusedError()) is None
    with subprocess.Popen(["sleep", "60"]) as process:
        monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))
        assert jvm.how_it_ended(ValueError("of the pipeline")) is None
        process.kill()
