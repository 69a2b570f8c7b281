"""Free ports for servers whose port must be configured."""

from __future__ import annotations

import itertools
import os
import random
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Below the ephemeral ports, so that the system assigns none of them to another process before the
#: server binds it.
LOWEST, LIMIT = 11_000, 32_000


def _block_starts() -> Iterator[int]:
    """First ports of blocks of ten, from a random block on; each test worker has its own blocks."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    own = range(LOWEST + 10 * worker, LIMIT, 10 * workers)
    start = random.SystemRandom().randrange(len(own))  # other test runs may be active
    return itertools.cycle([*own[start:], *own[:start]])


_next_blocks = _block_starts()


def free_ports(count: int) -> list[int]:
    """Consecutive free ports, of which the first ends in 1; no port is returned twice."""
    assert count < 10
    while True:
        first = next(_next_blocks) + 1
        ports = list(range(first, first + count))
        if all(_is_free(port) for port in ports):
            return ports


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
