"""Simulates a machine that cannot start another thread."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

#: A stack size beyond any address space: starting a thread fails, as with too many threads.
TOO_LARGE = 1 << 50


@contextmanager
def threads_cannot_start() -> Iterator[None]:
    """Starting a thread in this context fails with "can't start new thread"."""
    threading.stack_size(TOO_LARGE)
    try:
        yield
    finally:
        threading.stack_size(0)
