"""Errors of one paragraph, although Spark's workers send whole tracebacks to Java."""

from __future__ import annotations

import os
from contextlib import contextmanager

from kraftlog.errors import (
    ConfigError,
    CorruptBatchError,
    ErrorCode,
    KraftlogError,
    RefusedError,
    UnreachableError,
)
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

#: PySpark's own switch: a worker reads it when it reports an exception, after which it ends.
_HIDE_TRACEBACK = "SPARK_HIDE_TRACEBACK"

#: What to do about a corrupt batch.
DAMAGED = (
    "The records that the broker sent are damaged; kraftlog dump-log shows the batches of a log"
)


class KraftlogSparkError(Exception):
    """What went wrong, for the user of a query: what, where, and what to do."""


@contextmanager
def brief_errors(servers: str) -> Iterator[None]:
    """Turn kraftlog's exceptions into one with a message for people, without a traceback."""
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
        return f"{error}. {DAMAGED}"
    if isinstance(error, ConfigError):
        return str(error)
    return str(error)
