"""One partition's life on the broker that leads it.

Offsets are assigned when a batch is taken on, become real when the host has written it (`written`)
and visible to readers when the high watermark passes them. While a partition has a single replica
the high watermark is what is written.
"""

from __future__ import annotations

from collections import deque

from kraftlog.errors import ErrorCode
from kraftlog.records.header import stamp
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.records.header import BatchHeader
    from kraftlog.types import LogName, Uuid

#: What a producer waits for.
ACKS_NONE, ACKS_LEADER, ACKS_ALL = 0, 1, -1


class Append:
    """Batches that one turn adds to one partition: written by a single call."""

    __slots__ = ("buffers", "headers", "partition")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.buffers: list[memoryview] = []
        self.headers: list[BatchHeader] = []


class Partition:
    """The leader's side. Only the data door changes it: append, written, failed, lead."""

    __slots__ = (
        "acks",
        "end",
        "fetches",
        "high_watermark",
        "index",
        "is_open",
        "leader_epoch",
        "leads",
        "log",
        "online",
        "pending",
        "start",
        "topic",
        "topic_id",
        "written_end",
    )

    def __init__(self, topic: str, topic_id: Uuid, index: int, log: LogName) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.log = log
        self.leader_epoch = -1
        self.leads = False
        self.is_open = False
        #: Whether requests are served: this broker leads, and the log can be written.
        self.online = False
        self.start = 0
        #: The next offset to assign, and the one up to which the host has written.
        self.end = 0
        self.written_end = 0
        self.high_watermark = 0
        #: What this turn has taken on and the host has not been given yet.
        self.pending: Append | None = None
        #: Who waits for a write: (offset needed, slot, what the slot is told), oldest first.
        self.acks: deque[tuple[int, Any, Any]] = deque()
        #: Fetches that wait for the high watermark to move.
        self.fetches: dict[Any, None] = {}

    def opened(self, start: int, end: int) -> None:
        """The log is there, with these offsets."""
        self.start = start
        self.end = self.written_end = self.high_watermark = end
        self.is_open = True
        self.online = self.leads

    def lead(self, leader_epoch: int) -> None:
        """This broker leads; once the log is open, requests are served."""
        self.leader_epoch = leader_epoch
        self.leads = True
        self.online = self.is_open

    def resign(self, leader_epoch: int) -> None:
        """Another leads in this epoch, or nobody."""
        self.leader_epoch = leader_epoch
        self.leads = self.online = False

    def append(self, header: BatchHeader, batch: memoryview, turn: list[Append]) -> int:
        """Take on a valid batch: give it its offsets, in place. Returns its base offset."""
        base = self.end
        stamp(batch, 0, base, self.leader_epoch)
        header.base_offset = base
        header.leader_epoch = self.leader_epoch
        self.end = base + header.last_offset_delta + 1
        pending = self.pending
        if pending is None:
            pending = self.pending = Append(self)
            turn.append(pending)
        pending.buffers.append(batch)
        pending.headers.append(header)
        return base

    def written(self, end: int) -> list[tuple[int, Any, Any]]:
        """The host has written up to `end`; gives those whose wait is over."""
        self.written_end = self.high_watermark = end
        return self._released(end)

    def failed(self, *, stays_online: bool) -> None:
        """A write failed: nothing assigned since the last good one is real."""
        self.online = self.online and stays_online
        self.is_open = self.is_open and stays_online
        self.pending = None
        self.end = self.written_end

    def take_waiting(self) -> list[tuple[int, Any, Any]]:
        """All who wait for a write."""
        waiting = list(self.acks)
        self.acks.clear()
        return waiting

    def _released(self, end: int) -> list[tuple[int, Any, Any]]:
        acks = self.acks
        done = []
        while acks and acks[0][0] <= end:
            done.append(acks.popleft())
        return done

    def refusal(self, leader_epoch: int) -> int:
        """Why a request for this partition can't be served; `leader_epoch` -1: not said."""
        if not self.online:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if leader_epoch >= 0:
            if leader_epoch < self.leader_epoch:
                return ErrorCode.FENCED_LEADER_EPOCH
            if leader_epoch > self.leader_epoch:
                return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE
