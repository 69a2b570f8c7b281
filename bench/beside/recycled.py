"""Makes memory equally expensive for both brokers.

A virtual machine may get a page from its host only on first use, which takes ten times as long as
using the page again, and may lose idle pages. So helper processes hold most of the memory, and the
rest is filled with clean page cache, which the brokers' writes then replace.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from bench.beside.machine import MB, free_mb
from bench.beside.programs import program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: The memory left for the brokers, the clients and the page cache.
ROOM_MB = 6000
#: Written in excess of free memory, so that the kernel starts to recycle pages.
BEYOND_MB = 300
#: The number of processes that hold memory, to touch it on all cores.
HOLDERS = 2


@contextmanager
def recycled_memory(folder: str) -> Iterator[Callable[[], None]]:
    """Hold memory; yield a function that fills the rest with page cache.

    Call it repeatedly, as idle page cache may be lost.
    """
    with ExitStack() as stack:
        holders = [stack.enter_context(memory_holder(free_mb() - ROOM_MB)) for _ in range(HOLDERS)]
        for holder in holders:
            assert holder.stdout
            holder.stdout.readline()
        yield lambda: fill_page_cache(os.path.join(folder, "page-cache"))


@contextmanager
def memory_holder(total_mb: int) -> Iterator[subprocess.Popen[bytes]]:
    """A process that holds its share of the memory."""
    command = [program("hold"), str(max(1, total_mb // HOLDERS))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        yield holder  # it ends when its standard input is closed


def fill_page_cache(path: str) -> None:
    """Fill free memory with clean page cache of a file."""
    block = bytes(4 * MB)
    with open(path, "wb", buffering=0) as file:
        for number in range((free_mb() + BEYOND_MB) // 4):
            file.write(block)
            if number % 64 == 63:
                os.fdatasync(file.fileno())
        os.fsync(file.fileno())
