"""Processes that run seeds for a command."""

from __future__ import annotations

import os
import signal
from multiprocessing import parent_process
from threading import Thread


def begin_worker() -> None:
    """Ignore Ctrl-C and SIGTERM, which the command's own process handles; end when that ends."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    Thread(target=_end_with_command, daemon=True).start()


def _end_with_command() -> None:
    """A command that is killed takes its workers with it: nobody waits for their runs any more."""
    command = parent_process()
    if command is not None:
        command.join()
        os._exit(1)
