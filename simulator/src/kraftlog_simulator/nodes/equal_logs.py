"""Compares replicas' logs as their files have them, when nothing is on its way between them.

The other invariants see a log as it was when it was written; these read all of it again.
"""

from __future__ import annotations

from itertools import zip_longest

from kraftlog.errors import CorruptBatchError
from kraftlog.records.header import LENGTH_OVERHEAD
from kraftlog.records.walk import walk
from kraftlog.types import METADATA_TOPIC
from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.invariants.invariant import Invariant

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from kraftlog.raft.core import RaftCore
    from kraftlog.storage.log import Log
    from kraftlog_simulator.files import MemoryFiles
    from kraftlog_simulator.process import Replica
    from kraftlog_simulator.world import World

METADATA_LOG = METADATA_TOPIC, 0


def stored_bytes(files: MemoryFiles, log: Log) -> bytes:
    """All batches of a log, from its files."""
    return b"".join(
        [
            memoryview(files.file(f"{log.folder}/{segment.base_offset:020d}.log").content)[
                : segment.size
            ]
            for segment in log.segments
        ]
    )


def without_deleted(log: bytes, start: int) -> bytes:
    """The bytes of a log without the batches that are wholly below a log start.

    A replica that was cut off may have other records there: its leader has deleted its own, and can
    no longer tell. Nobody reads them.
    """
    if not start:
        return log
    try:
        for position, fields in walk(log, 0, len(log)):
            base, _, _, _, _, _, last_offset_delta, *_ = fields
            if base + last_offset_delta >= start:
                return log[position:]
    except CorruptBatchError:
        return log
    return b""


def first_difference(logs: Sequence[tuple[Any, bytes]]) -> str | None:
    """How the logs of these owners differ, all with the same end; None if they do not.

    They may start at different offsets: one log may have deleted more than another.
    """
    owner, first = logs[0]
    for other_owner, other in logs[1:]:
        size = min(len(first), len(other))
        if memoryview(first)[len(first) - size :] != memoryview(other)[len(other) - size :]:
            return _describe(owner, first, other_owner, other)
    return None


def _describe(owner: Any, log: bytes, other_owner: Any, other: bytes) -> str:
    try:
        batches, other_batches = list(_batches(log)), list(_batches(other))
    except CorruptBatchError as error:
        return f"the log of {owner} or {other_owner} is damaged: {error}"
    for batch, other_batch in zip_longest(reversed(batches), reversed(other_batches)):
        if batch != other_batch:
            return f"{owner} has {_name(batch)}, {other_owner} has {_name(other_batch)}"
    return f"the bytes of {owner} and {other_owner} differ outside of their batches"


def _batches(log: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """Base offset, offset after the last record, epoch, and bytes of each batch."""
    for position, fields in walk(log, 0, len(log)):
        base, length, epoch, _, _, _, last_offset_delta, *_ = fields
        end = position + LENGTH_OVERHEAD + length
        yield base, base + last_offset_delta + 1, epoch, log[position:end]


def _name(batch: tuple[int, int, int, bytes] | None) -> str:
    if batch is None:
        return "no batch there"
    base, end, epoch, data = batch
    return f"the batch {base} to {end} of epoch {epoch} with the bytes {data.hex()}"


class MetadataLogsAreEqual(Invariant):
    """I7: running nodes whose metadata logs end with the same record have the same log."""

    name = "logs are equal"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        #: Ends and processes at the last comparison, which is not repeated.
        self._compared: object = None

    def on_commit(self, replica: Replica, core: RaftCore, high_watermark: int) -> None:  # noqa: ARG002 - interface of invariants
        self._compare_if_quiet()

    def on_end(self) -> None:
        self._compared = None
        self._compare_if_quiet()

    def _compare_if_quiet(self) -> None:
        """Compare all logs, if all running nodes have the same last record."""
        nodes: list[Any] = list(self.world.running)  # they are whole nodes
        ends = {(node.disk.end, node.disk.batches[-1].epoch) for node in nodes if node.disk.batches}
        if len(ends) != 1 or len(nodes) < 2:
            return
        now = ends, [(node.id, node.incarnation) for node in nodes]
        if now == self._compared:
            return
        self._compared = now
        logs = [(node.runner.directory.logs[METADATA_LOG], node) for node in nodes]
        if any(log.end_offset != node.disk.end for log, node in logs):
            return  # a node is in the middle of a turn
        difference = first_difference([(node, stored_bytes(node.files, log)) for log, node in logs])
        if difference is not None:
            self.fail(f"metadata: {difference}")
