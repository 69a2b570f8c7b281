"""The operator log on standard error."""

from __future__ import annotations

import contextlib
import sys

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TextIO


def log_line(line: str, to: TextIO | None = None) -> None:
    """Write a line to standard error, or to `to`; a closed pipe is ignored.

    The line is written in one call, because nodes may share a terminal.
    """
    stream = to or sys.stderr
    if stream is None:  # closed before Python started
        return
    with contextlib.suppress(OSError, ValueError):
        stream.write(f"{line}\n")
        stream.flush()
