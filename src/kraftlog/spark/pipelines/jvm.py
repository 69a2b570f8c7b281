"""The Java process of Spark's driver: hides stack traces about it, and says how it ended."""

from __future__ import annotations

import logging
import signal
import subprocess
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext

if TYPE_CHECKING:
    from typing import Any

    from pyspark.sql import SparkSession

#: How long a process that has closed its connections may take to end.
_END_TIMEOUT_S = 5


def silence(spark: SparkSession) -> None:
    """Let nothing print a stack trace when a connection to the JVM breaks, or a task still runs.

    Py4J logs each call that fails, and the server of accumulators prints. `run_pipeline` prints
    the error, and enables logging again.
    """
    logging.disable()
    server: Any = getattr(spark.sparkContext, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda *_: None


def how_it_ended(error: BaseException) -> str | None:
    """How the JVM ended, if that is why this error was raised; None if it still runs."""
    process: Any = getattr(SparkContext._gateway, "proc", None)
    is_broken = isinstance(error, Py4JError | ConnectionError | EOFError) and not isinstance(
        error, Py4JJavaError
    )
    if process is None:
        return None
    try:
        code = process.wait(_END_TIMEOUT_S) if is_broken else process.poll()
    except subprocess.TimeoutExpired:
        return None
    return None if code is None else _text(code)


def _text(code: int) -> str:
    """Describe the end of a JVM with this exit code, which is negative for a signal."""
    if code == -signal.SIGKILL:
        how = "was killed (SIGKILL), by someone or because the machine ran out of memory"
    elif code < 0:
        how = f"was ended by {signal.Signals(-code).name}"
    else:
        how = f"ended with exit code {code}"
    return f"Spark's Java process {how}. Start the pipeline again; -v prints Spark's log"
