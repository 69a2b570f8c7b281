"""Processes that run seeds for a command."""

from __future__ import annotations

import signal


def ignore_signals() -> None:
    """Ignore Ctrl-C and SIGTERM in a worker process; the command's own process handles them."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
