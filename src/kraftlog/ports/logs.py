"""`LogReader`: what a node may ask of its logs, with answers from memory alone."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Protocol

    from kraftlog.types import LogName

    class Slice(Protocol):
        """Bytes of whole batches that lie in a file; the host knows how to move them."""

        def __len__(self) -> int: ...

    class LogReader(Protocol):
        """Each raises StorageError where the disk does not give what it should."""

        def locate(
            self, log: LogName, offset: int, limit: int, max_bytes: int, at_least_one: bool
        ) -> Slice | None:
            """Batches from the one with `offset` to before `limit`, or None where there are none.

            At most `max_bytes` of them, but for one batch that is larger by itself when
            `at_least_one` is wanted.
            """
            ...

        def offset_for_timestamp(
            self, log: LogName, timestamp: int, limit: int
        ) -> tuple[int, int] | None:
            """Offset and timestamp of the first record below `limit` that is not older."""
            ...

        def newest_timestamp(self, log: LogName, limit: int) -> tuple[int, int] | None:
            """Offset and timestamp of the first record with the largest timestamp."""
            ...
