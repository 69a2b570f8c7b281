"""`PendingWrites`: batches that are not committed yet, in order, and their callbacks.

The records of a batch have no effect before they are committed. Changes that a request has made in
memory in the meantime are undone if its batch fails. A callback runs once, at the latest at the
time limit; the batch may still be committed later.
"""

from __future__ import annotations

from collections import deque

from kraftlog.errors import ErrorCode, UnwritableError
from kraftlog.groups.messages import WriteRecords
from kraftlog.groups.timers import Timer
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.group_records import OffsetCommitKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from kraftlog.groups.records import GroupRecord
    from kraftlog.groups.timers import Timers
    from kraftlog.types import Now

    #: Callback with the error code of a batch, NONE when it is committed.
    OnDone = Callable[[int, Now], None]
    #: Records as (key, value).
    Encoded = tuple[tuple[bytes, bytes | None], ...]


#: Records that need not be atomic are split into batches of at most this many records and bytes,
#: less than the usual max.message.bytes.
MAX_BATCH_RECORDS = 1_000
MAX_BATCH_BYTES = 512 << 10
#: The largest size of a tombstone, in bytes, without the names in its key.
TOMBSTONE_OVERHEAD = 64
NAMES_IN_KEYS = ("group", "topic", "group_id", "member_id", "regular_expression")


class PendingWrite:
    """A pending batch."""

    __slots__ = ("deadline_ms", "group_ids", "on_done", "records", "token", "undo")

    def __init__(
        self,
        token: int,
        records: list[GroupRecord],
        deadline_ms: int,
        group_ids: tuple[str, ...] = (),
    ) -> None:
        self.token = token
        self.records = records
        #: The consumer groups that the batch has changed already.
        self.group_ids = group_ids
        self.deadline_ms = deadline_ms
        self.on_done: list[OnDone] = []
        self.undo: OnDone | None = None


class PendingWrites:
    """The queue of a shard; `replay` applies committed records."""

    __slots__ = (
        "_effects",
        "_queue",
        "_replay",
        "_time_limit",
        "_timeout_ms",
        "_timers",
        "_tokens",
        "offsets",
    )

    def __init__(
        self,
        effects: list[Any],
        timers: Timers,
        timeout_ms: int,
        replay: Callable[[int, GroupRecord, Now], None],
    ) -> None:
        self._effects = effects
        self._timers = timers
        self._timeout_ms = timeout_ms
        self._replay = replay
        self._queue: deque[PendingWrite] = deque()
        self._tokens = 0
        self._time_limit = Timer(self._on_time_limit)
        #: Number of pending batches per offset: group -> (topic, partition).
        self.offsets: dict[str, dict[tuple[str, int], int]] = {}

    def __len__(self) -> int:
        return len(self._queue)

    def submit(
        self,
        records: list[GroupRecord],
        now: Now,
        on_done: OnDone | None = None,
        undo: OnDone | None = None,
        *,
        group_ids: tuple[str, ...] = (),
        encoded: Encoded | None = None,
    ) -> None:
        """Write a batch; `undo` is called, before `on_done`, if it will never be in the log.

        A batch that cannot be encoded, or decodes to other values, fails as soon as its request
        has been processed. `encoded`: the records, if they are encoded already. `group_ids`: the
        consumer groups that they have changed.
        """
        self._tokens += 1
        deadline_ms = now.monotonic_ms + self._timeout_ms
        write = PendingWrite(self._tokens, records, deadline_ms, group_ids)
        if on_done is not None:
            write.on_done.append(on_done)
        write.undo = undo
        self._queue.append(write)
        self._count(records, 1)
        try:
            encoded = encoded or encode(records)
        except UnwritableError:
            refuse = Timer(
                lambda later: self.on_failed(write.token, ErrorCode.INVALID_REQUEST, later)
            )
            self._timers.set(refuse, now.monotonic_ms)
        else:
            self._effects.append(WriteRecords(write.token, encoded))
        if self._time_limit.at is None:
            self._timers.set(self._time_limit, write.deadline_ms)

    def submit_parts(
        self,
        records: list[GroupRecord],
        now: Now,
        undo: OnDone | None = None,
        *,
        group_ids: tuple[str, ...] = (),
    ) -> None:
        """Write records that need not be atomic, in batches of limited size."""
        parts = list(_parts(records))
        for part in parts:
            undo_part = undo if part is parts[-1] else None
            self.submit(part, now, undo=undo_part, group_ids=group_ids)

    def after_pending(self, on_done: OnDone) -> None:
        """Call back once all batches that are pending now have an outcome."""
        self._queue[-1].on_done.append(on_done)

    def after_group(self, group_id: str, on_done: OnDone) -> bool:
        """Call back once the batches of a consumer group have an outcome; False if it has none."""
        for write in reversed(self._queue):
            if group_id in write.group_ids:
                write.on_done.append(on_done)
                return True
        return False

    def has_records_of_group(self, group_id: str) -> bool:
        return any(group_id in write.group_ids for write in self._queue)

    def records_of_group(self, group_id: str) -> list[GroupRecord]:
        """The records of a consumer group's pending batches, in their order."""
        return [
            record
            for write in self._queue
            if group_id in write.group_ids
            for record in write.records
        ]

    def on_written(self, token: int, offset: int, now: Now) -> None:
        write = self._take(token)
        for position, record in enumerate(write.records):
            self._replay(offset + position, record, now)
        _notify(write, ErrorCode.NONE, now)

    def on_failed(self, token: int, error: int, now: Now) -> None:
        """Fail a batch; only one that cannot be encoded fails before older pending ones."""
        write = next(write for write in self._queue if write.token == token)
        self._queue.remove(write)
        self._queue.appendleft(write)
        self._take(token)
        if write.undo is not None:
            write.undo(error, now)
        _notify(write, error, now)

    def abandon(self, now: Now) -> None:
        """Drop all pending batches, because the partition has another leader."""
        while self._queue:
            write = self._queue.popleft()
            self._count(write.records, -1)
            _notify(write, ErrorCode.NOT_COORDINATOR, now)
        self._timers.cancel(self._time_limit)

    def _take(self, token: int) -> PendingWrite:
        write = self._queue.popleft()
        assert write.token == token, "batches complete in the order in which they were written"
        self._count(write.records, -1)
        if not self._queue:
            self._timers.cancel(self._time_limit)
        return write

    def _on_time_limit(self, now: Now) -> None:
        for write in list(self._queue):
            if write.deadline_ms <= now.monotonic_ms:
                _notify(write, ErrorCode.REQUEST_TIMED_OUT, now)
        waiting = [write.deadline_ms for write in self._queue if write.on_done]
        if waiting:
            self._timers.set(self._time_limit, waiting[0])

    def _count(self, records: list[GroupRecord], by: int) -> None:
        for record in records:
            key = record.key
            if isinstance(key, OffsetCommitKey):
                counts = self.offsets.setdefault(key.group, {})
                name = key.topic, key.partition
                counts[name] = counts.get(name, 0) + by
                if not counts[name]:
                    del counts[name]
                    if not counts:
                        del self.offsets[key.group]


def encode(records: Iterable[GroupRecord]) -> Encoded:
    """Encode and verify records; raises UnwritableError."""
    return tuple([record.encoded() for record in records])


def _parts(records: list[GroupRecord]) -> Iterator[list[GroupRecord]]:
    """Split tombstones into batches by size, because group ids may be long."""
    part: list[GroupRecord] = []
    size = 0
    for record in records:
        key = record.key
        names_size = sum(len(getattr(key, name, "").encode()) for name in NAMES_IN_KEYS)
        if part and (
            len(part) == MAX_BATCH_RECORDS
            or size + names_size + TOMBSTONE_OVERHEAD > MAX_BATCH_BYTES
        ):
            yield part
            part, size = [], 0
        part.append(record)
        size += names_size + TOMBSTONE_OVERHEAD
    if part:
        yield part


def _notify(write: PendingWrite, code: int, now: Now) -> None:
    on_done, write.on_done = write.on_done, []
    for notify in on_done:
        notify(code, now)


def coordinator_error(code: int) -> int:
    """The error code for clients after a failed append, as in Kafka."""
    return _CLIENT_ERRORS.get(code, code)


_CLIENT_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}
