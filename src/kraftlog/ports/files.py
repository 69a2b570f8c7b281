"""`Files`: everything a log may ask of a file system, and nothing more.

The server answers with the operating system, the simulator with memory and faults. Open files
are small integers, so that the server's are real descriptors that `sendfile` takes. Failures
are `OSError` with the usual `errno`, in both.

What is durable, in both: the bytes of a file after `sync` of it, the names in a directory
(created, renamed, removed) after `sync_directory` of it; everything else may or may not be
there after a power loss. A `sync` that has failed stays failed: what it was to write counts as
lost, whatever a later `sync` says.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    from kraftlog.types import Buffer

    class Files(Protocol):
        """A file system below one process. Paths are absolute or relative strings with `/`."""

        def open(self, path: str, *, create: bool = False, write: bool = True) -> int:
            """A handle on a file; with `create` it is made when it is not there."""
            ...

        def close(self, fd: int) -> None: ...

        def size(self, fd: int) -> int:
            """Bytes of an open file."""
            ...

        def pread(self, fd: int, size: int, position: int) -> bytes:
            """Up to `size` bytes; fewer only at the end of the file."""
            ...

        def preadv(self, fd: int, buffers: Sequence[bytearray | memoryview], position: int) -> int:
            """Fill the buffers; how many bytes there were."""
            ...

        def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
            """Write at most 1,024 buffers in one call; how many bytes were taken."""
            ...

        def truncate(self, fd: int, size: int) -> None:
            """Cut a file (never used to make one longer)."""
            ...

        def allocate(self, fd: int, position: int, size: int) -> None:
            """Reserve blocks ahead without changing the file's size, where that is possible."""
            ...

        def sync(self, fd: int) -> None:
            """Make a file's bytes durable. Blocks; run it in a lane."""
            ...

        def forget_cached(self, fd: int) -> None:
            """Let the next reads come from the disk: for files whose `sync` has failed."""
            ...

        def list(self, path: str) -> list[str]:
            """The names in a directory, sorted."""
            ...

        def exists(self, path: str) -> bool: ...

        def size_of(self, path: str) -> int:
            """Bytes of a file by its name."""
            ...

        def modified_ms(self, path: str) -> int:
            """When a file was last written, wall clock."""
            ...

        def space(self, path: str) -> tuple[int, int]:
            """Bytes of the file system of a directory, and how many of them can be used still."""
            ...

        def make_directory(self, path: str) -> None: ...

        def remove_directory(self, path: str) -> None:
            """Remove an empty directory."""
            ...

        def rename(self, old: str, new: str) -> None:
            """Give a file or directory another name in the same directory, replacing a file."""
            ...

        def unlink(self, path: str) -> None: ...

        def sync_directory(self, path: str) -> None:
            """Make the names in a directory durable."""
            ...

        def sync_all(self, path: str) -> None:
            """Make everything durable that was written to the file system of a directory."""
            ...

        def lock(self, path: str) -> int:
            """Hold `path` for this process alone, or raise `BlockingIOError`; `close` lets go."""
            ...
