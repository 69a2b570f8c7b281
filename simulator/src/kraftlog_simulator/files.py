"""A file system in memory with page cache, lost and torn writes, and errors.

A file has two contents: what reads return (the page cache) and what the disk has. `sync` writes the
page cache to the disk; a power loss reverts it to what the disk has. The same holds for
directories: a name is on the disk after `sync_folder`. Some unsynced changes survive a power
loss, as a random generator decides: each write is kept, lost or torn, and name changes are kept up
to some point.

A run ends in three ways: `power_loss` (the disk survives, and some of the unsynced changes), `kill`
(the process ends, the page cache stays), and `stop_before`, which raises `PowerLost` before one
operation, so that a test can crash between any two.
"""

from __future__ import annotations

import errno
import os

from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from kraftlog.types import Buffer

#: Bytes; a torn write often ends at a multiple.
SECTOR = 512
#: The most buffers of one `pwritev`, as in Linux.
IOV_MAX = 1024
#: The reported capacity of a file system without a limit.
_UNLIMITED_BYTES = 1 << 50


class PowerLost(BaseException):
    """The machine stops here; a BaseException, so that no error handler catches it."""


class Fault(Value):
    """Makes an operation fail `times` times, after `skip` calls on paths that contain `path`.

    A failing `pwritev` writes `partial` bytes first; with `code` 0 it raises no error, but returns
    how many bytes it has written.
    """

    operation: str
    code: int = errno.EIO
    path: str = ""
    skip: int = 0
    times: int = 1
    partial: int = 0


class _Write(Value):
    position: int
    data: bytes


class _Truncation(Value):
    size: int


class MemoryFile:
    """A file: what reads return, what the disk has, and the changes in between."""

    def __init__(self, now_ms: int) -> None:
        self.content = bytearray()
        self.disk = bytearray()
        self.pending: list[_Write | _Truncation] = []
        self.modified_ms = now_ms
        #: Whether a sync failed: `content` may differ from `disk` without pending changes.
        self.lost_pages = False
        #: the end of its allocated blocks, whatever its content
        self.allocated = 0

    @property
    def durable_size(self) -> int:
        """The length of the prefix that is on the disk."""
        size = min(
            [
                change.position if isinstance(change, _Write) else change.size
                for change in self.pending
            ],
            default=len(self.content),
        )
        if self.lost_pages:  # pages whose write-back failed count as clean
            both = zip(self.content, self.disk, strict=False)
            size = min(size, next((i for i, (a, b) in enumerate(both) if a != b), len(self.disk)))
        return size

    def write_back(self) -> None:
        for change in self.pending:
            _apply(self.disk, change)
        self.pending.clear()

    def lose_pages(self) -> None:
        """A failed write-back, as in Linux: the pages stay readable and count as clean."""
        self.pending = [change for change in self.pending if isinstance(change, _Truncation)]
        self.lost_pages = True

    def lose_power(self, random: Random | None) -> None:
        """Revert to the disk after a power loss, with a random part of the pending changes."""
        if random is not None:
            for change in self.pending:
                kept = _surviving_part(change, random)
                if kept is not None:
                    _apply(self.disk, kept)
        self.pending.clear()
        self.content = bytearray(self.disk)
        self.lost_pages = False


def _apply(content: bytearray, change: _Write | _Truncation) -> None:
    if isinstance(change, _Truncation):
        if change.size < len(content):
            del content[change.size :]
        return
    gap = change.position - len(content)
    if gap > 0:
        content.extend(bytes(gap))
    content[change.position : change.position + len(change.data)] = change.data


def _surviving_part(change: _Write | _Truncation, random: Random) -> _Write | _Truncation | None:
    """A pending change may be kept, lost or, for a write, torn at some sector or byte."""
    choice = random.getrandbits(2)
    if choice == 0:
        return None
    if choice == 1 and isinstance(change, _Write) and change.data:
        size = random.getrandbits(32) % len(change.data)
        if random.getrandbits(1):
            size -= size % SECTOR
        return _Write(change.position, change.data[:size])
    return change


class MemoryDirectory:
    """Names: the visible ones, those on the disk, and the changes in between."""

    def __init__(self, now_ms: int) -> None:
        self.modified_ms = now_ms
        self.names: dict[str, MemoryFile | MemoryDirectory] = {}
        self.disk: dict[str, MemoryFile | MemoryDirectory] = {}
        #: each change maps a name to its new target, or None
        self.pending: list[dict[str, MemoryFile | MemoryDirectory | None]] = []

    def change(self, change: dict[str, MemoryFile | MemoryDirectory | None], now_ms: int) -> None:
        self.modified_ms = now_ms
        _change_names(self.names, change)
        self.pending.append(change)

    def write_back(self) -> None:
        for change in self.pending:
            _change_names(self.disk, change)
        self.pending.clear()

    def lose_power(self, random: Random | None) -> None:
        kept = random.getrandbits(32) % (len(self.pending) + 1) if random is not None else 0
        for change in self.pending[:kept]:
            _change_names(self.disk, change)
        self.pending.clear()
        self.names = dict(self.disk)
        for node in self.names.values():
            node.lose_power(random)


def _change_names(
    names: dict[str, MemoryFile | MemoryDirectory],
    change: dict[str, MemoryFile | MemoryDirectory | None],
) -> None:
    for name, node in change.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


class MemoryFiles:
    """The file system of one machine; its owner sets `now_ms`."""

    def __init__(self, capacity_bytes: int | None = None) -> None:
        self.now_ms = 0
        self.capacity_bytes = capacity_bytes
        self.faults: list[Fault] = []
        #: The directories on failed disks: every operation there fails.
        self.broken: set[str] = set()
        self.operations = 0
        #: How many nodes were started on it.
        self.starts = 0
        #: The number of the operation before which power is lost.
        self.stop_before: int | None = None
        #: The operations and their paths, if a test sets a list.
        self.journal: list[str] | None = None
        self._root = MemoryDirectory(self.now_ms)
        #: By descriptor: the file, its path, and whether it may be written.
        self._open: dict[int, tuple[MemoryFile, str, bool]] = {}
        self._locks: dict[str, int] = {}
        self._next_fd = 3
        self._boots = 1

    # -- for tests ---------------------------------------------------------------------------

    def kill(self) -> None:
        """The process ends: no handles, no locks; every written byte stays readable."""
        self._open.clear()
        self._locks.clear()
        self.stop_before = None

    def power_loss(self, random: Random | None = None) -> None:
        """The machine loses power: synced data survives, and a random part of the rest."""
        self.kill()
        self._boots += 1
        self._root.lose_power(random)

    def write_back(self) -> None:
        """Write everything to the disk, as the kernel does after a while."""
        nodes: list[MemoryFile | MemoryDirectory] = [self._root]
        while nodes:
            node = nodes.pop()
            node.write_back()
            if isinstance(node, MemoryDirectory):
                nodes.extend(node.names.values())

    def corrupt(self, path: str, position: int, data: bytes) -> None:
        """Change bytes unnoticed, in the cache and on the disk."""
        file = self._file(path)
        for content in (file.content, file.disk):
            _apply(content, _Write(position, data))

    def make_file(self, path: str, data: bytes) -> None:
        """Create or replace a file, with content and name on the disk at once."""
        directory, name = self._parent(path)
        file = MemoryFile(self.now_ms)
        file.content, file.disk = bytearray(data), bytearray(data)
        directory.change({name: file}, self.now_ms)
        directory.write_back()

    def bytes_of(self, path: str) -> bytes:
        return bytes(self._file(path).content)

    def file(self, path: str) -> MemoryFile:
        """The file at a path."""
        return self._file(path)

    def names(self, path: str) -> list[str]:
        """The names in a directory; not counted as an operation."""
        return list(self._directory(path).names)

    def on_disk(self, path: str) -> MemoryFile | None:
        """The file that has this path on the disk, by the synced names alone."""
        node: MemoryFile | MemoryDirectory | None = self._root
        for name in path.split("/"):
            if not isinstance(node, MemoryDirectory):
                return None
            node = node.disk.get(name)
        return node if isinstance(node, MemoryFile) else None

    def open_handles(self) -> int:
        return len(self._open)

    # -- the port ----------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False, write: bool = True) -> int:
        self._operation("open", path)
        directory, name = self._parent(path)
        node = directory.names.get(name)
        if node is None:
            if not create:
                raise _error(errno.ENOENT, path)
            node = MemoryFile(self.now_ms)
            directory.change({name: node}, self.now_ms)
        if isinstance(node, MemoryDirectory):
            raise _error(errno.EISDIR, path)
        return self._handle(node, path, write)

    def close(self, fd: int) -> None:
        _, path, _ = self._opened(fd)
        del self._open[fd]
        if self._locks.get(path) == fd:
            del self._locks[path]

    def size(self, fd: int) -> int:
        return len(self._opened(fd)[0].content)

    def pread(self, fd: int, size: int, position: int) -> bytes:
        file, path, _ = self._opened(fd)
        self._operation("pread", path)
        return bytes(file.content[position : position + size])

    def preadv(self, fd: int, buffers: Sequence[bytearray | memoryview], position: int) -> int:
        file, path, _ = self._opened(fd)
        self._operation("pread", path)
        start = position
        for buffer in buffers:
            data = file.content[position : position + len(buffer)]
            buffer[: len(data)] = data
            position += len(data)
        return position - start

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        file, path, writable = self._opened(fd)
        if not writable:
            raise _error(errno.EBADF, path)
        if len(buffers) > IOV_MAX:
            raise _error(errno.EINVAL, path)
        data = b"".join(buffers)
        fault = self._take_fault("pwritev", path)
        self._count("pwritev", path)
        if fault is None:
            return self._write(file, path, data, position)
        if fault.partial:
            self._write(file, path, data[: fault.partial], position)
        if fault.code:
            raise _error(fault.code, path)
        return min(fault.partial, len(data))

    def truncate(self, fd: int, size: int) -> None:
        file, path, _ = self._opened(fd)
        self._operation("truncate", path)
        assert size <= len(file.content), "the port never makes a file longer"
        cut = _Truncation(size)
        file.allocated = 0
        _apply(file.content, cut)
        file.pending.append(cut)
        file.modified_ms = self.now_ms

    def allocate(self, fd: int, position: int, size: int) -> None:
        file, path, _ = self._opened(fd)
        self._operation("allocate", path)
        missing = position + size - _used_bytes(file)
        if self.capacity_bytes is not None and missing > self.capacity_bytes - self.used_bytes():
            raise _error(errno.ENOSPC, path)
        file.allocated = max(file.allocated, position + size)

    def sync(self, fd: int) -> None:
        file, path, _ = self._opened(fd)
        fault = self._take_fault("sync", path)
        self._count("sync", path)
        if fault is not None:
            file.lose_pages()
            raise _error(fault.code, path)
        file.write_back()

    def forget_cached(self, fd: int) -> None:
        file, path, _ = self._opened(fd)
        self._operation("forget_cached", path)
        if file.lost_pages:
            file.write_back()
            file.content = bytearray(file.disk)
            file.lost_pages = False

    def list(self, path: str) -> list[str]:
        self._operation("list", path)
        return sorted(self._directory(path).names)

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def size_of(self, path: str) -> int:
        return len(self._file(path).content)

    def modified_ms(self, path: str) -> int:
        node = self._find(path)
        if node is None:
            raise _error(errno.ENOENT, path)
        return node.modified_ms

    def make_folder(self, path: str) -> None:
        self._operation("make_folder", path)
        directory, name = self._parent(path)
        if name in directory.names:
            raise _error(errno.EEXIST, path)
        directory.change({name: MemoryDirectory(self.now_ms)}, self.now_ms)

    def remove_folder(self, path: str) -> None:
        self._operation("remove_folder", path)
        directory, name = self._parent(path)
        if self._directory(path).names:
            raise _error(errno.ENOTEMPTY, path)
        directory.change({name: None}, self.now_ms)

    def rename(self, old: str, new: str) -> None:
        self._operation("rename", old)
        directory, name = self._parent(old)
        target, new_name = self._parent(new)
        assert target is directory, "the port renames within a directory"
        node = directory.names.get(name)
        if node is None:
            raise _error(errno.ENOENT, old)
        if isinstance(directory.names.get(new_name), MemoryDirectory):
            raise _error(errno.ENOTEMPTY, new)
        directory.change({name: None, new_name: node}, self.now_ms)

    def unlink(self, path: str) -> None:
        self._operation("unlink", path)
        self._file(path)
        directory, name = self._parent(path)
        directory.change({name: None}, self.now_ms)

    def sync_folder(self, path: str) -> None:
        self._operation("sync_folder", path)
        self._directory(path).write_back()

    def sync_all(self, path: str) -> None:
        self._operation("sync_all", path)
        self.write_back()

    def lock(self, path: str) -> int:
        if path in self._locks:
            raise BlockingIOError(
                errno.EAGAIN,
                "locked by another process; only one node can use a data directory",
                path,
            )
        fd = self.open(path, create=True)
        self._locks[path] = fd
        return fd

    def boot_id(self) -> str:
        return f"boot-{self._boots}"

    def space(self, path: str) -> tuple[int, int]:  # noqa: ARG002 - there is one file system
        total = _UNLIMITED_BYTES if self.capacity_bytes is None else self.capacity_bytes
        return total, max(0, total - self.used_bytes())

    def used_bytes(self) -> int:
        total, nodes = 0, [*self._root.names.values()]
        while nodes:
            node = nodes.pop()
            if isinstance(node, MemoryDirectory):
                nodes.extend(node.names.values())
            else:
                total += _used_bytes(node)
        return total

    # -- internals ---------------------------------------------------------------------------

    def _write(self, file: MemoryFile, path: str, data: bytes, position: int) -> int:
        if self.capacity_bytes is not None:
            growth = max(0, position + len(data) - _used_bytes(file))
            missing = growth - max(0, self.capacity_bytes - self.used_bytes())
            if missing > 0:
                data = data[:-missing]
                if not data:
                    raise _error(errno.ENOSPC, path)
        write = _Write(position, data)
        _apply(file.content, write)
        file.pending.append(write)
        file.modified_ms = self.now_ms
        return len(data)

    def _operation(self, name: str, path: str) -> None:
        """Count the operation, then fail as planned; a crash may come before reads, too."""
        fault = self._take_fault(name, path)
        self._count(name, path)
        if fault is not None:
            raise _error(fault.code, path)

    def _count(self, name: str, path: str) -> None:
        if self.stop_before is not None and self.operations >= self.stop_before:
            raise PowerLost(f"before operation {self.operations}: {name} {path}")
        self.operations += 1
        if self.journal is not None:
            self.journal.append(f"{name} {path}")

    def _take_fault(self, name: str, path: str) -> Fault | None:
        if self.broken and any(path.startswith(directory) for directory in self.broken):
            return Fault(name)
        for fault in self.faults:
            if fault.operation == name and fault.path in path and fault.times:
                if fault.skip:
                    fault.skip -= 1
                    continue
                fault.times -= 1
                return fault
        return None

    def _handle(self, file: MemoryFile, path: str, write: bool) -> int:
        fd = self._next_fd
        self._next_fd += 1
        self._open[fd] = (file, path, write)
        return fd

    def _opened(self, fd: int) -> tuple[MemoryFile, str, bool]:
        entry = self._open.get(fd)
        if entry is None:
            raise _error(errno.EBADF, f"handle {fd}")
        return entry

    def _find(self, path: str) -> MemoryFile | MemoryDirectory | None:
        node: MemoryFile | MemoryDirectory | None = self._root
        for name in path.split("/"):
            if name in {"", "."}:
                continue
            if not isinstance(node, MemoryDirectory):
                return None
            node = node.names.get(name)
        return node

    def _parent(self, path: str) -> tuple[MemoryDirectory, str]:
        head, _, name = path.rstrip("/").rpartition("/")
        return self._directory(head), name

    def _directory(self, path: str) -> MemoryDirectory:
        node = self._find(path)
        if node is None:
            raise _error(errno.ENOENT, path)
        if not isinstance(node, MemoryDirectory):
            raise _error(errno.ENOTDIR, path)
        return node

    def _file(self, path: str) -> MemoryFile:
        node = self._find(path)
        if node is None:
            raise _error(errno.ENOENT, path)
        if not isinstance(node, MemoryFile):
            raise _error(errno.EISDIR, path)
        return node


def _used_bytes(file: MemoryFile) -> int:
    """How many bytes of the disk the file uses."""
    return max(len(file.content), file.allocated)


def _error(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)
