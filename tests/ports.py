"""Ports for servers that have to be told theirs."""

from __future__ import annotations

import itertools
import os
import random
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Below those that the system gives to whoever asks for any, so that nobody is given one of them
#: between our finding it free and the server's taking it.
LOWEST, BEYOND = 11_000, 32_000


def _tens() -> Iterator[int]:
    """Beginnings of ten ports each, from somewhere on. Each worker of a run has its own."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    own = range(LOWEST + 10 * worker, BEYOND, 10 * workers)
    start = random.SystemRandom().randrange(len(own))  # others may run beside us
    return itertools.cycle([*own[start:], *own[:start]])


_beginnings = _tens()


def free_ports(count: int) -> list[int]:
    """Ports in a row that nobody has, the first of which ends in 1; nobody gets them twice."""
    assert count < 10
    while True:
        first = next(_beginnings) + 1
        ports = list(range(first, first + count))
        if all(_is_free(port) for port in ports):
            return ports


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
