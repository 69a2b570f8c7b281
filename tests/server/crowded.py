"""A machine that has no room for another thread."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

#: No address space is as large: the system refuses, as it does where there are too many threads.
TOO_LARGE = 1 << 50


@contextmanager
def no_room_for_threads() -> Iterator[None]:
    """What is started here gets "can't start new thread"."""
    threading.stack_size(TOO_LARGE)
    try:
        yield
    finally:
        threading.stack_size(0)
