"""Short errors for the users of a query, without the tracebacks of Spark's Python workers."""

from __future__ import annotations

import os
from contextlib import contextmanager

from kraftlog.errors import (
    CorruptBatchError,
    ErrorCode,
    KraftlogError,
    RefusedError,
    UnreachableError,
)
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

#: PySpark's own setting: a worker that reports an exception reads it, and ends afterwards.
_HIDE_TRACEBACK = "SPARK_HIDE_TRACEBACK"

#: What to do about a corrupt batch.
CORRUPT_BATCH_ADVICE = (
    "The records that the broker sent are damaged; kraftlog dump-log shows the batches of a log"
)


class KraftlogSparkError(Exception):
    """An error for the user of a query: what failed, where, and what to do."""


@contextmanager
def brief_errors(servers: str) -> Iterator[None]:
    """Replace kraftlog's own exceptions by a KraftlogSparkError without a traceback."""
    try:
        yield
    except KraftlogError as error:
        os.environ[_HIDE_TRACEBACK] = "1"
        raise KraftlogSparkError(_explained(error, servers)) from None


def _explained(error: KraftlogError, servers: str) -> str:
    if isinstance(error, UnreachableError):
        return (
            f"{error}. Check the option kafka.bootstrap.servers={servers} and that the brokers run"
        )
    if isinstance(error, RefusedError) and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return (
            f"{error.subject} does not exist on {servers}. Create it, or check the options "
            "subscribe, subscribePattern and assign"
        )
    if isinstance(error, RefusedError) and error.code == ErrorCode.INVALID_TOPIC_EXCEPTION:
        return (
            f"{error.subject} can't be the name of a topic. The option subscribePattern takes a "
            "pattern, subscribe names with commas between them"
        )
    if isinstance(error, CorruptBatchError):
        return f"{error}. {CORRUPT_BATCH_ADVICE}"
    return str(error)
