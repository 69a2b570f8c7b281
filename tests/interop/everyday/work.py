"""What every client does with a node, and the facts that it must report.

A client is a program or a module that does each piece of work with an empty node, and reports its
facts under the keys of EXPECTED. Which of its own calls it uses is up to the client.
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
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Facts = dict[str, Any]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
#: How many records a client writes with each codec, and reads back.
COUNT = 40
#: The values of these records. Each becomes smaller if it is compressed alone: the timing decides
#: how many records a batch has, and some clients do not compress a batch that would not become
#: smaller.
COMPRESSIBLE = [b"the same again and again %d " % n * 9 for n in range(COUNT)]
RETENTION_MS = "3600000"

EXPECTED: dict[str, Facts] = {
    "cluster": {"brokers": 1, "has_controller": True},
    # Created with 3 partitions, created again, increased to 5 partitions, deleted.
    "topics": {"created": 3, "again": "exists", "grown": 5, "removed": True},
    # retention.ms of a topic: the default, after it is set, after it is reset.
    "configs": {"before": "604800000", "set": RETENTION_MS, "after": "604800000"},
    # The number of records written with each codec that are read with the same value, key, header
    # and timestamp.
    "codecs": dict.fromkeys(CODECS, COUNT),
    "idempotent": {"count": COUNT, "is_in_order": True},
    # Read by assignment, from an offset in the middle.
    "assignment": {"first": 30, "count": 10},
    # Offsets by timestamp, of three records with timestamps 1000, 2000 and 3000.
    "times": {"earliest": 0, "latest": 3, "at_1500": 1, "at_9000": -1},
    # The first records of a partition are deleted: its first offset, and the first record read.
    "deletion": {"begins_at": 5, "first": 5},
    # Partitions of each member: of one alone, after a second has joined, after that one has left.
    "rebalance": {"alone": [4], "together": [2, 2], "alone_again": [4]},
    # A member reads some records, commits and leaves; the next member continues there.
    "resume": {"committed": 20, "resumed_at": 20},
    # An admin client lists a group without members, resets its offset, and deletes it.
    "groups": {"listed": True, "state": "Empty", "committed": 20, "reset_to": 5, "removed": True},
}


def until(get: Callable[[], list[int]], wanted: list[int]) -> list[int]:
    """Call `get` until it returns `wanted` or the time is up; return its last result."""
    deadline = Deadline(LIMIT_S)
    while (result := get()) != wanted and not deadline.is_over:
        deadline.pause(0.01)
    return result


def main(pieces: Mapping[str, Callable[[str], Facts]]) -> None:
    """The main program of a Python client; if a piece raises, the error is its fact."""
    for name, do in pieces.items():
        try:
            facts = do(sys.argv[1])
        except Exception as error:
            facts = {"error": repr(error)}
        print(json.dumps([name, facts]), flush=True)


def run_program(command: Sequence[str], what: str, seconds: int = 2 * LIMIT_S) -> dict[str, Any]:
    """Run a client in its own process; when this ends, all that the client left open is closed.

    Its arguments are what it works with, such as the node's address, and the number of seconds that
    a piece of work may take. It writes a line of JSON for each piece: name and facts.
    """
    done = subprocess.run(
        [*command, what, str(LIMIT_S)],
        capture_output=True,
        text=True,
        timeout=seconds,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return outcomes_in(done.stdout)


def outcomes_in(lines: str) -> dict[str, Any]:
    """What a client has written about each piece of work."""
    return dict(json.loads(line) for line in lines.splitlines())


def batches(data: str, partition: str) -> list[BatchHeader]:
    """The headers of the batches in a partition's segments on disk."""
    folder = os.path.join(data, partition)
    headers: list[BatchHeader] = []
    for name in sorted(os.listdir(folder)):
        if name.endswith(".log"):
            with open(os.path.join(folder, name), "rb") as file:
                headers += [BatchHeader(*fields) for _, fields in walk(file.read())]
    return headers
