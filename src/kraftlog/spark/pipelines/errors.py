"""Describes errors in one paragraph: the cause, without Spark's stack traces around it."""

from __future__ import annotations

import re

from kraftlog.errors import (
    CorruptBatchError,
    ErrorCode,
    KraftlogError,
    RefusedError,
    UnreachableError,
    message_of,
    shortened,
)
from kraftlog.spark.brief_errors import CORRUPT_BATCH_ADVICE

#: kraftlog's exception in the text of Spark's, up to the next line of a stack trace.
_OWN_EXCEPTION = re.compile(
    r"\bkraftlog\.errors\.(\w+): (.+?)"
    r"\s*(?=\n\s*(?:at |Caused by|\.\.\. )|\n\n|\n[A-Z]\w+ stack|\Z)",
    re.DOTALL,
)
#: The last line of a Python stack trace: the exception and its message.
_PYTHON_EXCEPTION = re.compile(
    r"^(?:\w+\.)*(\w+(?:Error|Exception|Interrupt)): (.+)$", re.MULTILINE
)
#: Where a stack trace begins.
_TRACE = re.compile(r"\n\s*at |\n\s*JVM stacktrace|\nDriver stacktrace|\n\s*Traceback |\n\n|\n==")
_JOB_ABORTED = re.compile(r"Job aborted due to stage failure: (?:.*?\): )?", re.DOTALL)


class UsageError(Exception):
    """An invalid command line."""


def paragraph(error: BaseException) -> str:
    """What failed and what to do, in one paragraph."""
    if isinstance(error, UnreachableError):
        return f"{error}; check --bootstrap-server, and that the brokers run"
    if isinstance(error, RefusedError) and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return f"{error.subject} does not exist; kraftlog topics --list prints the topics"
    if isinstance(error, RefusedError) and error.code == ErrorCode.INVALID_TOPIC_EXCEPTION:
        return (
            f"{error.subject} can't be the name of a topic, and patterns are not accepted; "
            "kraftlog topics --list prints the topics"
        )
    if isinstance(error, KraftlogError | OSError):
        return message_of(error)
    text = str(error)
    if own := _OWN_EXCEPTION.findall(text):
        kind, message = own[-1]
        advice = f". {CORRUPT_BATCH_ADVICE}" if kind == CorruptBatchError.__name__ else ""
        return _one_line(message) + advice
    if "Traceback (most recent call last)" in text and (raised := _PYTHON_EXCEPTION.findall(text)):
        kind, message = raised[-1]
        return f"{_one_line(message)} ({kind}); -v prints the stack trace"
    first = _TRACE.split(_JOB_ABORTED.sub("", text), maxsplit=1)[0]
    return f"{_one_line(first) or type(error).__name__}; -v prints the stack trace"


def _one_line(text: str) -> str:
    return shortened(" ".join(text.split()))
