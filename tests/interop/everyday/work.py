"""What every client does against a node, and the facts that it must come back with.

A client is a program or a module that does each piece of work, on an empty node, and tells what it
saw in the words of EXPECTED. How it asks is its own affair.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from kraftlog.client.deadline import Deadline
from kraftlog.records.header import BatchHeader
from kraftlog.records.walk import walk
from tests.interop.cache import ROOT
from tests.patience import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Facts = dict[str, Any]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
#: How many records a client writes with each codec, and reads back.
COUNT = 40
#: What they hold. Even one alone is smaller when it is packed, or some clients would leave it as it
#: is: how many records a batch has depends on how quickly they come.
PACKABLE = [b"the same again and again %d " % n * 9 for n in range(COUNT)]
KEPT_MS = "3600000"

EXPECTED: dict[str, Facts] = {
    "cluster": {"brokers": 1, "has_controller": True},
    # Made with 3 partitions, made again, given 5, removed.
    "topics": {"created": 3, "again": "exists", "grown": 5, "removed": True},
    # retention.ms of a topic as it comes, set, and taken back.
    "configs": {"before": "604800000", "set": KEPT_MS, "after": "604800000"},
    # Records written with each codec that come back with value, key, header and time.
    "codecs": dict.fromkeys(CODECS, COUNT),
    "idempotent": {"count": COUNT, "is_in_order": True},
    # Read by assignment, from an offset in the middle.
    "assignment": {"first": 30, "count": 10},
    # Three records at the times 1000, 2000 and 3000.
    "times": {"earliest": 0, "latest": 3, "at_1500": 1, "at_9000": -1},
    # The first records of a partition are deleted: where it begins, and what is read first.
    "deletion": {"begins_at": 5, "first": 5},
    # Partitions of each member: alone, after another came, after that one left.
    "rebalance": {"alone": [4], "together": [2, 2], "alone_again": [4]},
    # A member reads some, commits and leaves; the next goes on behind it.
    "resume": {"committed": 20, "went_on_at": 20},
    # A group without members, by its administrator.
    "groups": {"listed": True, "state": "Empty", "committed": 20, "reset_to": 5, "removed": True},
}


def until(ask: Callable[[], list[int]], wanted: list[int]) -> list[int]:
    """The answer once it is what is waited for, or the last one when the time is up."""
    deadline = Deadline(LIMIT_S)
    while (found := ask()) != wanted and not deadline.is_over:
        deadline.pause(0.01)
    return found


def main(pieces: Mapping[str, Callable[[str], Facts]]) -> None:
    """The program of a client for Python; what a piece raised stands for its facts."""
    for name, do in pieces.items():
        try:
            facts = do(sys.argv[1])
        except Exception as error:
            facts = {"error": repr(error)}
        print(json.dumps([name, facts]), flush=True)


def run_program(command: Sequence[str], address: str) -> dict[str, Facts]:
    """Each piece of work by a program of its own, so that what a client leaves open ends with it.

    It is told where, and how many seconds a piece may take, and writes a line of JSON for each:
    name and facts.
    """
    done = subprocess.run(
        [*command, address, str(LIMIT_S)],
        capture_output=True,
        text=True,
        timeout=2 * LIMIT_S,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return dict(json.loads(line) for line in done.stdout.splitlines())


def batches(data: str, partition: str) -> list[BatchHeader]:
    """The headers of the batches that a node has on its disk."""
    folder = os.path.join(data, partition)
    found: list[BatchHeader] = []
    for name in sorted(os.listdir(folder)):
        if name.endswith(".log"):
            with open(os.path.join(folder, name), "rb") as file:
                found += [BatchHeader(*fields) for _, fields in walk(file.read())]
    return found
