"""`LogReader`: the read interface of a node to its logs.

The runner fulfils it with `storage`, which a node does not import.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from typing import Any, Protocol

    from kraftlog.types import LogName, Uuid

    class Slice(Protocol):
        """A slice of a log file with whole batches, which the host can send without copying."""

        def __len__(self) -> int: ...

        def pin(self) -> None:
            """Keep the file open until `release`, as its name may be reused; raises OSError."""
            ...

        def release(self) -> None: ...

        def read(self) -> bytes:
            """The bytes, while pinned; fewer if the file has been truncated in the meantime."""
            ...

    class Directory(Protocol):
        """One of `log.dirs`."""

        @property
        def id(self) -> Uuid: ...

        @property
        def path(self) -> str: ...

        @property
        def is_offline(self) -> bool:
            """Whether its disk has failed; until the next start, it stays offline."""
            ...

        def space(self) -> tuple[int, int]:
            """Total and available bytes of the disk; -1 if unknown."""
            ...

    class LogReader(Protocol):
        """Reads logs. Every method raises StorageError if the disk fails.

        Those that decode records raise CorruptBatchError for a batch whose records are invalid.
        """

        def locate(
            self, log: LogName, offset: int, limit: int, max_bytes: int, at_least_one: bool
        ) -> Slice | None:
            """Whole batches from the one with `offset` up to `limit`; None if there are none.

            At most `max_bytes`, except that `at_least_one` allows a single larger batch.
            """
            ...

        def find_timestamp_in_steps(
            self, log: LogName, timestamp: int, limit: int
        ) -> Generator[int, None, tuple[int, int] | None]:
            """Offset and timestamp of the first record below `limit` not older than `timestamp`.

            Each step yields its cost in microseconds. A log that is deleted meanwhile has no such
            record.
            """
            ...

        def max_timestamp(self, log: LogName) -> int:
            """The largest timestamp of a record; -1 if there is none."""
            ...

        def end_of_epoch(self, log: LogName, epoch: int) -> tuple[int, int]:
            """The largest epoch <= `epoch` with records, and its end offset; (-1, -1) if unknown.

            An epoch older than all records ends where they begin.
            """
            ...

        def epoch_at(self, log: LogName, offset: int) -> int:
            """The leader epoch of a record; -1 if unknown."""
            ...

        def latest_epoch(self, log: LogName) -> int:
            """The leader epoch of the last record; -1 if unknown."""
            ...

        def producers(self, log: LogName) -> Any:
            """A copy of the `ProducerState` at the end of the log; None if there are none."""
            ...

        def size_bytes(self, log: LogName) -> int:
            """Size of the log on disk; 0 while it is not open."""
            ...

        @property
        def directories(self) -> Sequence[Directory]:
            """`log.dirs`; those that could not be opened come last, without an id, as offline."""
            ...

        def futures(self) -> Sequence[FutureLog]:
            """The logs that are being moved to another directory."""
            ...

        def directory_of(self, log: LogName) -> Directory | None:
            """The directory of an open log."""
            ...

        def unwritable(self) -> tuple[Uuid, ...]:
            """The ids of the online directories that cannot be written at present."""
            ...

        @property
        def has_only_reserve(self) -> bool:
            """Whether only the space reserved for the metadata log is left on its disk."""
            ...

        @property
        def is_offline(self) -> bool:
            """Whether all log directories are offline."""
            ...


class FutureLog(Value):
    """The copy of a log that is being moved to a directory, and how many offsets it lacks."""

    log: LogName
    directory: Directory
    size_bytes: int
    lag: int
