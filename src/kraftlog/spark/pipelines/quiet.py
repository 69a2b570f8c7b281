"""Starts Spark without the lines that its Java processes write to standard error."""

from __future__ import annotations

import os
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

#: Lines of Java's that are shown if Spark does not start.
_SHOWN = 5


class SparkStartError(KraftlogError):
    """Spark did not start."""


def started(name: str, master: str, settings: Mapping[str, str], is_verbose: bool) -> SparkSession:
    """A new session; unless verbose, what its processes write to standard error is discarded."""
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
            lines = log.read().decode(errors="replace").strip().splitlines()
            reason = [line.strip() for line in lines if not line.startswith(("\t", "WARNING:"))]
            shown = " / ".join(reason[-_SHOWN:]) or str(error).partition("\n")[0]
            raise SparkStartError(
                f"Spark did not start on {master}: {shown}; -v prints its whole log"
            ) from error


@contextmanager
def _stderr_to_file() -> Iterator[IO[bytes]]:
    """Processes that start meanwhile write to a file that has no name any more."""
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 2)
        try:
            yield log
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
