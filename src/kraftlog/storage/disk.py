"""The disk of a log directory: a cache of open files, and whether the disk has failed.

Logs have thousands of files and use few at a time. A `Handle` names a file and opens it on use; the
cache closes handles that were not used recently. A descriptor that is used beyond a turn of the
loop (by a response sent in parts, or a flush in an I/O thread) must be pinned: the number of a
closed descriptor is soon reused for another file.
"""

from __future__ import annotations

import errno
from collections import deque
from itertools import islice

from kraftlog.errors import DiskFullError, StorageError
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kraftlog.ports.files import Files
    from kraftlog.types import Buffer

#: The most buffers that one pwritev takes.
IOV_MAX = 1024
NOT_OPEN = -1
#: Errors if the process or the system has no file descriptor left.
NO_DESCRIPTOR = {errno.EMFILE, errno.ENFILE}
#: Errors that leave the disk online.
_RETRYABLE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, *NO_DESCRIPTOR}


class Handle:
    """A file, open or closed; only its cache opens and closes it."""

    __slots__ = ("_cache", "fd", "is_queued", "is_released", "path", "pins", "was_used")

    def __init__(self, cache: HandleCache, path: str) -> None:
        self._cache = cache
        self.path = path
        self.fd = NOT_OPEN
        self.pins = 0
        #: Whether the file was used since the cache last reached the handle in its queue.
        self.was_used = False
        #: Whether the file is no longer needed: it is closed once it is not pinned.
        self.is_released = False
        #: Whether the handle is in the cache's queue.
        self.is_queued = False

    def use(self) -> int:
        """The descriptor. Unless pinned, it is valid until the next handle is used."""
        self.was_used = True
        return self.fd if self.fd != NOT_OPEN else self._cache.open(self)

    def create(self) -> int:
        """Like `use`, but creates the file if it does not exist."""
        self.was_used = True
        return self.fd if self.fd != NOT_OPEN else self._cache.open(self, create=True)

    def pin(self) -> int:
        """The descriptor, valid until `unpin`."""
        fd = self.use()
        self.pins += 1
        return fd

    def unpin(self) -> None:
        assert self.pins > 0, f"{self.path} is not pinned"
        self.pins -= 1
        if self.pins:
            return
        if self.is_released or self._cache.is_over_limit:
            self._cache.close(self)
        elif not self.is_queued:
            self._cache.queue(self)

    @property
    def has_too_many_open_files(self) -> bool:
        """Whether more files are open than the limit."""
        return self._cache.is_over_limit

    def release(self) -> None:
        """The file is no longer needed: close it as soon as it is not pinned."""
        self.is_released = True
        if not self.pins:
            self._cache.close(self)


class HandleCache:
    """Keeps at most `limit` files open, closing those unused for longest (second chance).

    The queue has the handles that may be closed. A pinned handle leaves it when it is reached and
    returns when it is unpinned, so that thousands of pinned ones are not scanned repeatedly.
    """

    def __init__(self, files: Files, limit: int) -> None:
        assert limit > 0
        self.files = files
        self.limit = limit
        self.open_count = 0
        self._queue: deque[Handle] = deque()

    def open(self, handle: Handle, *, create: bool = False) -> int:
        if self.open_count >= self.limit:
            self._close_one()
        handle.fd = self._open_file(handle.path, create=create)
        handle.is_released = False
        self.open_count += 1
        if not handle.is_queued:
            self.queue(handle)
        return handle.fd

    def _open_file(self, path: str, *, create: bool) -> int:
        """Open a file, closing others if the process or the system has no descriptor left."""
        while True:
            try:
                return self.files.open(path, create=create)
            except OSError as error:
                if error.errno not in NO_DESCRIPTOR or not self._close_one():
                    raise

    def queue(self, handle: Handle) -> None:
        """The handle may be closed when it reaches the front of the queue."""
        handle.is_queued = True
        self._queue.append(handle)

    def close(self, handle: Handle) -> None:
        """Close an open handle; the queue is cleaned up later."""
        if handle.fd == NOT_OPEN:
            return
        fd, handle.fd = handle.fd, NOT_OPEN
        self.open_count -= 1
        if len(self._queue) > 2 * self.limit:
            self._remove_closed()
        self.files.close(fd)

    def _remove_closed(self) -> None:
        closed = [handle for handle in self._queue if handle.fd == NOT_OPEN]
        for handle in closed:
            handle.is_queued = False
        self._queue = deque([handle for handle in self._queue if handle.is_queued])

    @property
    def is_over_limit(self) -> bool:
        """Whether more files are open than the limit, because too many are pinned."""
        return self.open_count > self.limit

    def _close_one(self) -> bool:
        """Close the first handle in the queue that was not used since it was last reached, if any.

        Return whether one was closed. If all are pinned, the limit is exceeded, which is better
        than a wrong descriptor.
        """
        while self._queue:
            handle = self._queue.popleft()
            if handle.fd == NOT_OPEN or handle.pins:
                handle.is_queued = False
            elif handle.was_used:
                handle.was_used = False
                self._queue.append(handle)
            else:
                handle.is_queued = False
                self.close(handle)
                return True
        return False


class Disk:
    """The state that all logs of a directory share. After a failure nothing is written."""

    def __init__(self, files: Files, handles: HandleCache | None = None) -> None:
        self.files = files
        self.handles = handles if handles is not None else HandleCache(files, 512)
        self.failure: StorageError | None = None
        #: Whether the disk is full and the reserve is spent: topics may not use the freed space.
        self.has_only_reserve = False
        #: Whether records cannot be written at present; `runner/writability.py` sets it.
        self.is_unwritable = False
        self.on_failure: Callable[[StorageError], None] = _ignore

    def handle(self, path: str) -> Handle:
        return Handle(self.handles, path)

    def check(self) -> None:
        """Raise if the disk has failed before."""
        if self.failure is not None:
            raise StorageError(f"the log directory is offline: {self.failure}") from self.failure

    def fail_unless_full(self, what: str, error: OSError) -> StorageError:
        """Take the disk offline unless it is only full; return the exception to raise.

        On a full disk, or without a free file descriptor, this is a `DiskFullError`, and the
        operation may be retried.
        """
        if error.errno in _RETRYABLE:
            full = DiskFullError(f"{what}: {error.strerror or error}")
            full.__cause__ = error
            return full
        return self.fail(what, error)

    def fail(self, what: str, error: OSError) -> StorageError:
        """Take the disk offline after any error; return the exception to raise."""
        failure = StorageError(f"{what}: {error.strerror or error}")
        failure.__cause__ = error
        if self.failure is None:
            self.failure = failure
            self.on_failure(failure)
        return failure


def _ignore(_: StorageError) -> None:
    """The default callback."""


def write_all(
    files: Files, fd: int, buffers: Sequence[Buffer], position: int, size: int = -1
) -> int:
    """Write all buffers at `position`, with one call if possible; return the bytes written.

    `size` is their total size, if the caller knows it. After a short write, everything is written
    again.
    """
    if size < 0:
        size = sum(map(len, buffers))
    end = position
    if len(buffers) <= IOV_MAX:
        end += files.pwritev(fd, buffers, position)
    else:
        for first in range(0, len(buffers), IOV_MAX):
            end += files.pwritev(fd, buffers[first : first + IOV_MAX], end)
    if end - position == size:
        return size
    return _write_piecewise(files, fd, buffers, position)


def _write_piecewise(files: Files, fd: int, buffers: Sequence[Buffer], position: int) -> int:
    start = position
    unwritten: deque[Buffer] = deque(buffers)
    while unwritten:
        written = files.pwritev(fd, list(islice(unwritten, IOV_MAX)), position)
        if written == 0 and any(unwritten):
            raise OSError(errno.ENOSPC, "the file system accepted no bytes")
        position += written
        while unwritten and written >= len(unwritten[0]):
            written -= len(unwritten.popleft())
        if written:
            unwritten[0] = memoryview(unwritten[0])[written:]
    return position - start


def read_whole(files: Files, path: str) -> bytes:
    """Read a small file."""
    fd = files.open(path, write=False)
    try:
        return files.pread(fd, files.size(fd), 0)
    finally:
        files.close(fd)


def write_whole(files: Files, path: str, data: bytes, *, sync: bool = True) -> None:
    """Create or overwrite a file; not atomic, for files that can be rebuilt."""
    fd = files.open(path, create=True)
    try:
        files.truncate(fd, 0)
        if data:
            write_all(files, fd, [data], 0)
        if sync:
            files.sync(fd)
    finally:
        files.close(fd)


def write_atomically(files: Files, path: str, data: bytes) -> None:
    """Replace a file durably: a crash at any instant leaves the old or the new one, whole."""
    folder, _, _ = path.rpartition("/")
    temporary = f"{path}.tmp"
    write_whole(files, temporary, data)
    files.rename(temporary, path)
    files.sync_folder(folder or ".")


def unlink_if_there(files: Files, path: str) -> bool:
    """Delete a file; return whether it existed."""
    try:
        files.unlink(path)
    except FileNotFoundError:
        return False
    return True
