"""The journal of responses to clients, shared by their threads."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import TYPE_CHECKING

from kraftlog.value import Value
from kraftlog_simulator.checkers.linearizability import Operation
from tests.torture.processes import seconds

if TYPE_CHECKING:
    from collections.abc import Hashable

    #: Topic and partition.
    PartitionName = tuple[str, int]


class AcknowledgedRecord(Value):
    """A record that a node has acknowledged, and its position."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes


class Change(Value):
    """A requested change of a topic; if it is not known to be done, it may be done or not."""

    topic: str
    #: "create", "grow" or "delete"
    kind: str
    partitions: int
    is_done: bool


class Journal:
    """The requests of the clients, the responses that they got, and the injected faults."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        #: The values of all records that producers have tried to send.
        self.sent_values: set[bytes] = set()
        self.acknowledged: list[AcknowledgedRecord] = []
        #: The number of records whose producer got an error: they may have been written.
        self.unknown = 0
        self.changes: list[Change] = []
        self.registers: list[Operation] = []
        #: The highest acknowledged commit of each partition, and every requested one.
        self.committed: dict[PartitionName, int] = {}
        self.requested_commits: dict[PartitionName, set[int]] = defaultdict(set)
        #: Consumed values by topic, partition and offset.
        self.consumed: dict[tuple[str, int, int], bytes] = {}
        #: The highest log start that DeleteRecords has returned, and the highest one requested.
        self.trimmed_to = 0
        self.trim_requested = 0
        self.topic_ids: dict[str, str] = {}
        #: The records of each recreated topic, by topic id and offset.
        self.recreated: dict[str, dict[int, bytes]] = {}
        self.faults: list[str] = []
        self.problems: list[str] = []
        self.began_s = seconds()

    def now(self) -> int:
        """Microseconds since the start."""
        return int((seconds() - self.began_s) * 1e6)

    def add_problem(self, what: str) -> None:
        with self.lock:
            self.problems.append(f"at {self.now() / 1e6:.2f} s: {what}")

    def add_fault(self, what: str) -> None:
        with self.lock:
            self.faults.append(f"{self.now() / 1e6:7.2f} {what}")

    def record_call(
        self, process: str, call: Hashable, invoked: int, returned: int | None, result: Hashable
    ) -> None:
        with self.lock:
            self.registers.append(Operation(process, call, invoked, returned, result))

    def record_commit(self, name: PartitionName, offset: int) -> None:
        with self.lock:
            self.committed[name] = max(offset, self.committed.get(name, 0))

    def record_consumed(self, name: PartitionName, offset: int, value: bytes) -> None:
        """A consumed record must never change."""
        with self.lock:
            before = self.consumed.setdefault((*name, offset), value)
        if before != value:
            self.add_problem(f"{name} offset {offset} was {before[:40]!r}, then {value[:40]!r}")
