"""Starts Spark without the lines that its Java processes write to standard error."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kraftlog.errors import KraftlogError
from kraftlog.spark.session import spark_session

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import IO

    from pyspark.sql import SparkSession

#: The beginning of lines that say why Spark did not start: an exception, or an error in the log.
_REASON = re.compile(r"^(?:Exception in thread .*?: |Caused by: \S+: |\S+ \S+ ERROR \w+: )")
#: Stack traces, log lines of other levels, and lines that Spark prints on every start.
_NOISE = re.compile(
    r"^(?:\s+at |WARNING: |\S+ \S+ (?:WARN|INFO) |Using Spark's default |Setting .*log level "
    r"|To adjust logging |\s*$)"
)


class SparkStartError(KraftlogError):
    """Spark did not start."""


def start_spark(
    name: str, master: str, settings: Mapping[str, str], is_verbose: bool
) -> SparkSession:
    """Start a session; unless verbose, discard what Spark's processes write to standard error."""
    if is_verbose:
        session = spark_session(name, master=master, settings=settings)
        session.sparkContext.setLogLevel("WARN")
        return session
    with _stderr_to_file() as log:
        try:
            return spark_session(name, master=master, settings=settings)
        except KraftlogError:
            raise
        except Exception as error:
            log.seek(0)
            reason = (
                failure_reason(log.read().decode(errors="replace")) or str(error).partition("\n")[0]
            )
            raise SparkStartError(
                f"Spark did not start on {master}: {reason}; -v prints its whole log"
            ) from error


def failure_reason(log: str) -> str:
    """The line of Spark's output that says why Spark did not start."""
    lines = [line for line in log.splitlines() if not _NOISE.search(line)]
    reasons = [line for line in lines if _REASON.search(line)]
    last = (reasons or lines or [""])[-1]
    return _REASON.sub("", last).strip()


@contextmanager
def _stderr_to_file() -> Iterator[IO[bytes]]:
    """Redirect standard error, also of processes started meanwhile, to a temporary file."""
    sys.stderr.flush()
    saved_stderr = os.dup(2)
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 2)
        try:
            yield log
        finally:
            sys.stderr.flush()
            os.dup2(saved_stderr, 2)
            os.close(saved_stderr)
