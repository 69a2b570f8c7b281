"""Consuming topics: an iterator of records, with or without a group.

A record counts as processed when the next one is requested. Offsets of processed records are
committed every few seconds, before a rebalance, and at the end; after an exception the current
record is not committed.
"""

from __future__ import annotations

from collections import deque

from kraftlog.client import groups, offsets
from kraftlog.client.deadline import Deadline
from kraftlog.client.fetched_batches import READ_COMMITTED, READ_UNCOMMITTED
from kraftlog.client.group_membership import GroupMembership
from kraftlog.client.reader import Reader
from kraftlog.errors import ClientError, ErrorCode, RefusedError
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import TracebackType
    from typing import Self

    from kraftlog.client.cluster import Cluster
    from kraftlog.client.model import ConsumedRecord, PartitionName
    from kraftlog.client.reader import FetchedBatch, OnReset

#: The interval of automatic commits.
AUTO_COMMIT_S = 5.0
#: Longest wait for one fetch; heartbeats are sent between fetches.
_POLL_S = 0.5
#: Errors of a commit after the generation has ended. The next owner reads the records again.
_GENERATION_ENDED = {
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.REBALANCE_IN_PROGRESS,
}


class StartPosition:
    """Where to start: at "beginning", "end", an offset, or a timestamp in milliseconds."""

    def __init__(
        self, start: str | int = "end", at_ms: int | None = None, reset: str | None = None
    ) -> None:
        if start not in {"beginning", "end"} and not (isinstance(start, int) and start >= 0):
            raise ValueError(f'start {start!r}: expected "beginning", "end" or an offset')
        if reset not in {"beginning", "end", None}:
            raise ValueError(f'reset {reset!r}: expected "beginning" or "end"')
        self.start = start
        self.at_ms = at_ms
        #: Where to continue if an offset is out of range: at the earliest or the latest.
        self.reset = offsets.EARLIEST if (reset or start) == "beginning" else offsets.LATEST

    def positions(
        self, cluster: Cluster, partitions: Sequence[PartitionName]
    ) -> dict[PartitionName, int]:
        if self.at_ms is None and isinstance(self.start, int):
            return dict.fromkeys(partitions, self.start)
        timestamp = offsets.EARLIEST if self.start == "beginning" else offsets.LATEST
        if self.at_ms is not None:
            timestamp = self.at_ms
        offsets_found = offsets.find(cluster, dict.fromkeys(partitions, timestamp))
        after_end = [name for name, result in offsets_found.items() if result.offset < 0]
        if after_end:  # no record at or after the timestamp
            offsets_found.update(offsets.find(cluster, dict.fromkeys(after_end, offsets.LATEST)))
        return {name: result.offset for name, result in offsets_found.items()}


class Consumer:
    """An iterator of records; use it in a `with` block."""

    def __init__(
        self,
        cluster: Cluster,
        topics: Sequence[str],
        *,
        start: StartPosition,
        partitions: Iterable[int] | None = None,
        group: str | None = None,
        timeout_s: float | None = None,
        until_end: bool = False,
        isolation: str = "read_uncommitted",
        auto_commit: bool = True,
        on_reset: OnReset | None = None,
    ) -> None:
        if isolation not in {"read_uncommitted", "read_committed"}:
            raise ValueError(f"isolation {isolation!r}: expected read_uncommitted, read_committed")
        if group is not None and partitions is not None:
            raise ValueError("the group assigns partitions; give either a group or partitions")
        self._cluster = cluster
        self._topics = topics
        self._start = start
        self._group = group
        self._timeout_s = timeout_s
        self._auto_commit = auto_commit and group is not None
        level = READ_COMMITTED if isolation == "read_committed" else READ_UNCOMMITTED
        self._reader = Reader(cluster, isolation_level=level, reset=start.reset, on_reset=on_reset)
        self._group_membership: GroupMembership | None = None
        #: Fetched batches, and the records of the last one that was decoded.
        self._fetched: deque[FetchedBatch] = deque()
        self._ready: deque[ConsumedRecord] = deque()
        self._current: ConsumedRecord | None = None
        #: The offset after the last processed record of each partition, and the committed offset.
        self._processed: dict[PartitionName, int] = {}
        self._committed: dict[PartitionName, int] = {}
        self._next_commit = Deadline(AUTO_COMMIT_S)
        #: With `until_end`: the log end offsets when the consumer was created.
        self._ends: dict[PartitionName, int] | None = None
        if group is not None:
            for topic in topics:
                cluster.topic(topic)
            self._group_membership = GroupMembership(cluster, group, topics)
            self._rejoin()
        else:
            self._assign_all(partitions)
        if until_end:
            names = list(self._reader.positions)
            ends = offsets.find(cluster, dict.fromkeys(names, offsets.LATEST), level)
            self._ends = {name: result.offset for name, result in ends.items()}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self._current = None
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ConsumedRecord:
        self._finish_current()
        deadline = None if self._timeout_s is None else Deadline(self._timeout_s)
        self._keep_membership()
        while not self.has_more:
            if self._is_at_end() or (deadline is not None and deadline.is_over):
                raise StopIteration
            self._keep_membership()
            wait = _POLL_S if deadline is None else min(_POLL_S, deadline.left_s())
            self._fetched += self._reader.poll(wait)
        self._current = self._ready.popleft()
        return self._current

    @property
    def has_more(self) -> bool:
        """Whether the next record is available without waiting."""
        while not self._ready and self._fetched:
            self._ready += self._fetched.popleft().records()
        return bool(self._ready)

    @property
    def assignment(self) -> list[PartitionName]:
        """The assigned partitions."""
        return sorted(self._reader.positions)

    def commit(self) -> None:
        """Commit all returned records, including the current one."""
        if self._group is None:
            raise ValueError("offsets are committed for a group, and this consumer has none")
        self._finish_current()
        self._commit_processed()

    def close(self) -> None:
        """Commit if `auto_commit`, leave the group, and close the connections for reading."""
        try:
            if self._group_membership is not None:
                self._finish_current()
                if self._auto_commit:
                    self._commit_processed()
                self._group_membership.leave()
        finally:
            self._group_membership = None
            self._reader.close()

    def _finish_current(self) -> None:
        record = self._current
        if record is not None:
            self._processed[record.topic, record.partition] = record.offset + 1
            self._current = None

    def _is_at_end(self) -> bool:
        if self._ends is None:
            return False
        positions = self._reader.positions
        return all(positions.get(name, end) >= end for name, end in self._ends.items())

    def _assign_all(self, partitions: Iterable[int] | None) -> None:
        names = []
        for topic in self._topics:
            existing = [each.index for each in self._cluster.topic(topic).partitions]
            chosen = existing if partitions is None else list(partitions)
            for index in chosen:
                if index not in existing:
                    raise ClientError(f"topic {topic} has no partition {index}")
            names += [(topic, index) for index in chosen]
        self._reader.assign(self._start.positions(self._cluster, names))

    def _keep_membership(self) -> None:
        if self._group_membership is None:
            return
        if not self._group_membership.heartbeat():
            if self._auto_commit:
                self._commit_processed()
            self._rejoin()
        elif self._auto_commit and self._next_commit.is_over:
            self._commit_processed()

    def _rejoin(self) -> None:
        assert self._group_membership is not None
        assert self._group is not None
        assigned = self._group_membership.join()
        self._ready.clear()
        self._fetched.clear()
        self._processed.clear()
        committed = groups.committed(self._cluster, self._group, assigned) if assigned else {}
        self._committed = {name: result.offset for name, result in committed.items()}
        uncommitted = [name for name in assigned if name not in committed]
        positions = self._committed | self._start.positions(self._cluster, uncommitted)
        self._reader.assign(positions)

    def _commit_processed(self) -> None:
        self._next_commit = Deadline(AUTO_COMMIT_S)
        assert self._group is not None
        assert self._group_membership is not None
        changed = {
            name: offset
            for name, offset in self._processed.items()
            if self._committed.get(name) != offset
        }
        try:
            groups.commit(
                self._cluster,
                self._group,
                changed,
                member_id=self._group_membership.member_id,
                generation=self._group_membership.generation,
            )
        except RefusedError as error:
            if error.code not in _GENERATION_ENDED:
                raise
        else:
            self._committed.update(changed)
