"""Memory that costs both brokers the same.

A virtual machine may get memory from its host only when it is first touched, at ten times the
ordinary price, and lose again what lies idle. So most of it is held by a process of ours, and what
is left is filled with clean page cache: what a broker writes then takes the place of that.
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

#: What is left for the brokers, the clients and the page cache.
ROOM_MB = 6000
#: Written beyond what is free, so that the kernel has begun to recycle.
BEYOND_MB = 300
#: Hold it in parts: each touches its own, on all cores.
HOLDERS = 2


@contextmanager
def recycled_memory(folder: str) -> Iterator[Callable[[], None]]:
    """Holds memory meanwhile; call what is given to fill the rest with page cache, again and
    again, as page cache that lies idle may be lost."""
    with ExitStack() as ends:
        holders = [ends.enter_context(held(free_mb() - ROOM_MB)) for _ in range(HOLDERS)]
        for holder in holders:
            assert holder.stdout
            holder.stdout.readline()
        yield lambda: fill(os.path.join(folder, "page-cache"))


@contextmanager
def held(size_mb: int) -> Iterator[subprocess.Popen[bytes]]:
    command = [program("hold"), str(max(1, size_mb // HOLDERS))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        yield holder  # it ends when its standard input is closed


def fill(path: str) -> None:
    """Free memory becomes page cache of a file that has been written out."""
    block = bytes(4 * MB)
    with open(path, "wb", buffering=0) as file:
        for number in range((free_mb() + BEYOND_MB) // 4):
            file.write(block)
            if number % 64 == 63:
                os.fdatasync(file.fileno())
        os.fsync(file.fileno())
