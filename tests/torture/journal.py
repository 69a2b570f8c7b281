"""What clients were told, written down as they are told it; threads share one journal."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import TYPE_CHECKING

from kraftlog.simulator.checkers.linearizability import Operation
from kraftlog.value import Value
from tests.torture.processes import seconds

if TYPE_CHECKING:
    from collections.abc import Hashable

    #: Topic and index.
    Name = tuple[str, int]


class Sent(Value):
    """A record that was acknowledged: where it must lie."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes


class Change(Value):
    """What was done to a topic, and what is known of it: "done", or None: nobody knows."""

    topic: str
    #: "create", "grow" or "delete"
    kind: str
    partitions: int
    is_done: bool


class Journal:
    """Facts in the order in which they became known."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.invoked: set[bytes] = set()
        self.sent: list[Sent] = []
        self.unknown = 0
        self.changes: list[Change] = []
        self.registers: list[Operation] = []
        #: The highest offset that a group was told is committed; and every one it asked for.
        self.committed: dict[Name, int] = {}
        self.commits_asked: dict[Name, set[int]] = defaultdict(set)
        #: What consumers saw: partition and offset to the value.
        self.seen: dict[tuple[str, int, int], bytes] = {}
        #: Where a log began after records before it were deleted; how far they were asked to go.
        self.trimmed_to = 0
        self.trims_asked = 0
        #: Topics by the id under which they were seen, and what lies in that one.
        self.ids: dict[str, str] = {}
        self.lives: dict[str, dict[int, bytes]] = {}
        self.faults: list[str] = []
        self.problems: list[str] = []
        self.began_s = seconds()

    def now(self) -> int:
        """Microseconds since the beginning."""
        return int((seconds() - self.began_s) * 1e6)

    def problem(self, what: str) -> None:
        with self.lock:
            self.problems.append(f"at {self.now() / 1e6:.2f} s: {what}")

    def fault(self, what: str) -> None:
        with self.lock:
            self.faults.append(f"{self.now() / 1e6:7.2f} {what}")

    def wrote(
        self, process: str, call: Hashable, invoked: int, returned: int | None, result: Hashable
    ) -> None:
        with self.lock:
            self.registers.append(Operation(process, call, invoked, returned, result))

    def was_committed(self, name: Name, offset: int) -> None:
        with self.lock:
            self.committed[name] = max(offset, self.committed.get(name, 0))

    def saw(self, name: Name, offset: int, value: bytes) -> None:
        """Whatever a consumer was shown stays as it was shown."""
        with self.lock:
            before = self.seen.setdefault((*name, offset), value)
        if before != value:
            self.problem(f"{name} offset {offset} was {before[:40]!r}, then {value[:40]!r}")
