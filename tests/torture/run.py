"""A run: load and faults for a while, then all faults are undone and the result is checked."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

from kraftlog import Client
from kraftlog.value import Value
from tests.time_limit import LIMIT_S
from tests.torture import checks
from tests.torture.faults import Faults, caught_up, in_sync
from tests.torture.journal import Journal
from tests.torture.load import GROUP, REGISTERS, TOPICS, Load, read_all, value_of
from tests.torture.metadata_logs import MetadataLog, differences
from tests.torture.processes import CLUSTER, Nodes, memory_and_descriptors, seconds, until

if TYPE_CHECKING:
    from collections.abc import Callable

#: Limits of the memory and descriptors of a node, however long it runs.
MAX_BYTES = 500 << 20
MAX_DESCRIPTORS = 2000


class Outcome(Value):
    """The errors, and counts of what was done."""

    problems: tuple[str, ...]
    summary: str


class Run:
    """A run in a folder, with a seed for its faults."""

    def __init__(
        self, folder: str, seed: int, kind: str, *, pace_s: float = 0.05, members: int = 2
    ) -> None:
        os.makedirs(folder)
        self.journal = Journal()
        self.nodes = Nodes(folder, kind)
        self.load = Load(
            self.nodes.address, self.journal, seed, pace_s, members, self.nodes.replicas
        )
        self.faults = Faults(self.nodes, self.journal, random.Random(seed))
        self.folder = folder
        #: The most resident bytes and descriptors that each node has had.
        self.peaks: dict[int, tuple[int, int]] = {}

    def torture(self, is_over: Callable[[], bool]) -> Outcome:
        """Inject faults under load until `is_over`; then undo them, check the result, and stop."""
        try:
            self.nodes.start()
            self.nodes.revive()
            self.load.create_topics()
            self.load.start()
            try:
                while not is_over():
                    self.faults.step()
                    self.measure()
            except TimeoutError as error:
                self.journal.add_problem(f"timed out waiting: {error}")
            self._undo_faults_and_check()
        finally:
            self.load.stopping.set()
            self.nodes.kill_all()
            self.load.join()
            self._write_report()
        return Outcome(tuple(self.journal.problems), self.summary())

    def summary(self) -> str:
        journal = self.journal
        peaks = ", ".join(f"{i}: {rss >> 20} MiB {fds} fds" for i, (rss, fds) in self.peaks.items())
        return (
            f"{len(journal.acknowledged)} records and "
            f"{sum(c.is_done for c in journal.changes)} changes acknowledged "
            f"({journal.unknown} and {sum(not c.is_done for c in journal.changes)} unknown), "
            f"{len(journal.registers)} uses of registers, "
            f"{len(journal.recreated)} recreated topics, "
            f"{sum(map(len, journal.requested_commits.values()))} commits, "
            f"{len(journal.faults)} faults; {peaks}"
        )

    def measure(self) -> None:
        for process in self.nodes.all.values():
            usage = None if process.pid is None else memory_and_descriptors(process.pid)
            if usage is not None:
                before = self.peaks.get(process.id, (0, 0))
                self.peaks[process.id] = max(before[0], usage[0]), max(before[1], usage[1])

    def _undo_faults_and_check(self) -> None:
        report = self.journal.add_problem
        try:
            self.nodes.revive()
            self.load.stop()
            until("all nodes have caught up", lambda: caught_up(self.nodes))
            until("all replicas are in sync", lambda: in_sync(self.nodes))
        except TimeoutError as error:
            report(f"timed out waiting: {error}")
            self.load.stop()
            return
        self.measure()
        for problem in (*self._errors_in_responses(), *self._errors_in_processes_and_logs()):
            report(problem)

    def _errors_in_responses(self) -> list[str]:
        """Check what clients can see through the broker."""
        journal = self.journal
        errors: list[str] = []
        with Client(self.nodes.address, timeout_s=LIMIT_S) as client:
            client.create_topic("barrier", 1, 1)
            names = {topic.name for topic in client.topics()}
            final = {f"register-{n}": value_of(client, f"register-{n}") for n in range(REGISTERS)}
            committed = {
                name: position.offset for name, position in client.committed(GROUP).items()
            }
            remade_id = repr(client.describe_topic("remade").id) if "remade" in names else None
        records = read_all(
            self.nodes.address, {name: 1 for name in (*TOPICS, "remade") if name in names}
        )
        final_records = {
            topic: checks.by_offset(all_of_topic) for topic, all_of_topic in records.items()
        }
        errors += checks.wrong_records_of_recreated_topic(
            journal, remade_id, final_records.pop("remade", {})
        )
        errors += checks.lost_records(journal.acknowledged, final_records)
        errors += checks.unexpected_records(journal.sent_values, final_records)
        errors += checks.changed_records(journal.consumed, final_records)
        errors += checks.wrong_deletions(journal, final_records)
        errors += checks.lost_commits(journal, committed)
        errors += checks.impossible_registers(journal.registers, final, journal.now())
        return errors

    def _errors_in_processes_and_logs(self) -> list[str]:
        """Check the processes, and their directories after they have stopped."""
        errors = []
        for number, (size, descriptors) in self.peaks.items():
            if size > MAX_BYTES or descriptors > MAX_DESCRIPTORS:
                errors.append(f"node {number} took {size} bytes and {descriptors} descriptors")
        committed = None
        if self.nodes.kind == CLUSTER:
            with Client(self.nodes.address, timeout_s=LIMIT_S) as client:
                committed = client.describe_quorum().high_watermark
        for process in self.nodes.all.values():
            process.terminate()
        for process in self.nodes.all.values():
            process.wait()
            if any(process.exit_codes):
                errors.append(f"node {process.id} ended with {process.exit_codes}")
            errors += [f"node {process.id} logged: {line}" for line in process.logged_errors()]
        logs = {f"node {i}": MetadataLog(process.data) for i, process in self.nodes.all.items()}
        errors += differences(logs, committed)
        log = next(iter(logs.values()))
        errors += checks.lost_changes(
            self.journal,
            log.image(log.end if committed is None else max(committed, log.snapshot_end)),
        )
        return errors

    def _write_report(self) -> None:
        with open(f"{self.folder}/report.txt", "w") as file:
            lines = (*self.journal.faults, "", *self.journal.problems, "", self.summary(), "")
            file.write("\n".join(lines))


def for_seconds(limit_s: float) -> Callable[[], bool]:
    """A function that returns whether this time is over."""
    end = seconds() + limit_s
    return lambda: seconds() > end
