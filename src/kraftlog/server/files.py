"""`Files` on the operating system."""

from __future__ import annotations

import errno
import os

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


_KEEP_SIZE = 1  # FALLOC_FL_KEEP_SIZE: Kafka's tools stop at the first zero of a longer file
_READ = os.O_RDONLY | os.O_CLOEXEC
_WRITE = os.O_RDWR | os.O_CLOEXEC
_NOT_SUPPORTED = {errno.EOPNOTSUPP, errno.ENOSYS}


#: A new one is made whenever the kernel starts.
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


class OsFiles:
    """Real files; an operation with a single system call is that call, without a wrapper."""

    close = staticmethod(os.close)
    pread = staticmethod(os.pread)
    preadv = staticmethod(os.preadv)
    pwritev = staticmethod(os.pwritev)
    truncate = staticmethod(os.ftruncate)
    sync = staticmethod(os.fdatasync)
    make_folder = staticmethod(os.mkdir)
    remove_folder = staticmethod(os.rmdir)
    rename = staticmethod(os.rename)
    unlink = staticmethod(os.unlink)

    def __init__(self) -> None:
        self._fallocate: Callable[[int, int, int], None] | None = None
        self._can_allocate = True

    def open(self, path: str, *, create: bool = False, write: bool = True) -> int:
        flags = _WRITE if write else _READ
        return os.open(path, flags | os.O_CREAT if create else flags, 0o644)

    def size(self, fd: int) -> int:
        return os.fstat(fd).st_size

    def allocate(self, fd: int, position: int, size: int) -> None:
        if not self._can_allocate:
            return
        if self._fallocate is None:
            self._fallocate = load_fallocate()
        try:
            self._fallocate(fd, position, size)
        except OSError as error:
            if error.errno not in _NOT_SUPPORTED:
                raise
            self._can_allocate = False

    def space(self, path: str) -> tuple[int, int]:
        stat = os.statvfs(path)
        return stat.f_blocks * stat.f_frsize, stat.f_bavail * stat.f_frsize

    def boot_id(self) -> str:
        try:
            with open(_BOOT_ID, encoding="ascii") as file:
                return file.read().strip()
        except OSError:
            return ""

    def forget_cached(self, fd: int) -> None:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)

    def list(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def exists(self, path: str) -> bool:
        return os.access(path, os.F_OK)

    def size_of(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def sync_folder(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def sync_all(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            load_syncfs()(fd)
        finally:
            os.close(fd)

    def lock(self, path: str) -> int:
        """Take a POSIX lock, as Kafka does, so that kraftlog and Kafka exclude each other."""
        import fcntl

        fd = os.open(path, _WRITE | os.O_CREAT, 0o644)
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            if error.errno in {errno.EACCES, errno.EAGAIN}:
                raise BlockingIOError(
                    error.errno,
                    "locked by another process; only one node can use a data directory",
                    path,
                ) from error
            raise
        return fd


def load_fallocate() -> Callable[[int, int, int], None]:
    """The C library's `fallocate`: Python has only `posix_fallocate`, which may write zeros."""
    import ctypes

    function = _c_function("fallocate64")

    def fallocate(fd: int, position: int, size: int) -> None:
        function(fd, _KEEP_SIZE, ctypes.c_int64(position), ctypes.c_int64(size))

    return fallocate


def load_syncfs() -> Callable[[int], None]:
    """The C library's `syncfs`, which reports errors, unlike `os.sync`."""
    return _c_function("syncfs")


def _c_function(name: str) -> Callable[..., None]:
    """A function of the C library that returns 0 or sets `errno`."""
    import ctypes

    function = getattr(ctypes.CDLL(None, use_errno=True), name, None)

    def call(*arguments: object) -> None:
        if function is None:
            raise OSError(errno.ENOSYS, f"no {name} in this C library")
        while function(*arguments) != 0:
            code = ctypes.get_errno()
            if code != errno.EINTR:
                raise OSError(code, os.strerror(code))

    return call
