"""Lines for whoever looks after the node."""

from __future__ import annotations

import contextlib
import sys

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TextIO


def log_line(what: str, to: TextIO | None = None) -> None:
    """A line for whoever looks after the node; that nobody reads it stops nothing.

    It is written in one go, as nodes may share a terminal.
    """
    stream = to or sys.stderr
    if stream is None:  # it was closed before Python began
        return
    with contextlib.suppress(OSError, ValueError):
        stream.write(f"{what}\n")
        stream.flush()
