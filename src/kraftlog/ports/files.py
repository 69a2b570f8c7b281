"""`Files`: the file system operations that logs use.

The server implements them with the operating system, the simulator with memory and faults. Open
files are small integers; in the server they are file descriptors, as `sendfile` needs. Failures are
`OSError` with the usual `errno` in both.

In both, the bytes of a file are durable after its `sync`, and the names in a folder (created,
renamed, removed) after its `sync_folder`; anything else may be lost in a power loss. After a
failed `sync`, the unsynced data counts as lost, even if a later `sync` succeeds.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    from kraftlog.types import Buffer

    class Files(Protocol):
        """The file system of one process; paths are absolute or relative strings with `/`."""

        def open(self, path: str, *, create: bool = False, write: bool = True) -> int:
            """Open a file; `create` creates a missing one."""
            ...

        def close(self, fd: int) -> None: ...

        def size(self, fd: int) -> int:
            """Bytes of an open file."""
            ...

        def pread(self, fd: int, size: int, position: int) -> bytes:
            """Up to `size` bytes; fewer only at the end of the file."""
            ...

        def preadv(self, fd: int, buffers: Sequence[bytearray | memoryview], position: int) -> int:
            """Fill the buffers; return the number of bytes read."""
            ...

        def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
            """Write at most 1,024 buffers in one call; return the number of bytes written."""
            ...

        def truncate(self, fd: int, size: int) -> None:
            """Truncate a file; never used to extend one."""
            ...

        def allocate(self, fd: int, position: int, size: int) -> None:
            """Preallocate blocks without changing the file size, if supported."""
            ...

        def sync(self, fd: int) -> None:
            """Make the bytes of a file durable; blocks, so run it on an I/O thread."""
            ...

        def forget_cached(self, fd: int) -> None:
            """Drop cached pages so that the next reads come from disk, after a failed `sync`."""
            ...

        def list(self, path: str) -> list[str]:
            """The names in a folder, sorted."""
            ...

        def exists(self, path: str) -> bool: ...

        def size_of(self, path: str) -> int:
            """Size of a file by its path."""
            ...

        def modified_ms(self, path: str) -> int:
            """Modification time of a file or folder, wall clock."""
            ...

        def space(self, path: str) -> tuple[int, int]:
            """Total and available bytes of the file system of a folder."""
            ...

        def boot_id(self) -> str:
            """Identifies the present run of the machine's kernel; empty if it is not known."""
            ...

        def make_folder(self, path: str) -> None: ...

        def remove_folder(self, path: str) -> None:
            """Remove an empty folder."""
            ...

        def rename(self, old: str, new: str) -> None:
            """Rename a file or folder within its folder, replacing an existing file."""
            ...

        def unlink(self, path: str) -> None: ...

        def sync_folder(self, path: str) -> None:
            """Make the names in a folder durable."""
            ...

        def sync_all(self, path: str) -> None:
            """Make everything on the file system of a folder durable."""
            ...

        def lock(self, path: str) -> int:
            """Lock `path` for this process or raise `BlockingIOError`; `close` unlocks it."""
            ...
