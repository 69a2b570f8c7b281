"""A client that connects and logs in again and again, one connection at a time.

    python -m bench.beside.logins PORT CERTIFICATES COUNT

It derives the key from the user's password once, as what is measured is the broker. Prints the
seconds that all logins took.
"""

from __future__ import annotations

import sys
import time
from functools import lru_cache

from bench.beside.frame_client import LOOPBACK, deadline
from bench.beside.secured_nodes import login
from kraftlog.client.connection import Connection
from kraftlog.sasl import scram


def log_in(port: int, certificates: str, count: int) -> float:
    scram.salted_password = lru_cache(scram.salted_password)
    security = login(certificates)
    start = time.perf_counter()
    for _ in range(count):
        Connection(LOOPBACK, port, "bench", deadline(), security=security).close()
    return time.perf_counter() - start


if __name__ == "__main__":
    _, port, certificates, count = sys.argv
    print(log_in(int(port), certificates, int(count)))
