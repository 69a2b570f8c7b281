"""Disk space in reserve for what must be written when the disk is full.

An empty preallocated file holds the blocks. When the metadata log, the election state or a
checkpoint finds the disk full, the file is deleted (`spend`). From then on the directory is short
of space, and topics accept no records, so that they cannot use the freed space. Once there is
enough space the reserve is filled again (`fill`).
"""

from __future__ import annotations

import contextlib
import errno

from kraftlog.errors import DiskFullError
from kraftlog.storage.disk import unlink_if_there
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from kraftlog.storage.disk import Disk

    T = TypeVar("T")

NAME = "kraftlog-reserve"
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT}


def is_full(error: BaseException | None) -> bool:
    """Whether an OSError, or the DiskFullError raised from it, means that the disk is full."""
    if isinstance(error, DiskFullError):
        error = error.__cause__
    return isinstance(error, OSError) and error.errno in _NO_ROOM


class Reserve:
    """The reserve of one directory, empty until `keep`; only it sets `disk.has_only_reserve`."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = f"{path}/{NAME}"
        self._size_bytes = 0
        self._is_allocated = False

    def keep(self, size_bytes: int) -> None:
        """Keep this many bytes in reserve from now on, if there is space for them."""
        self._size_bytes = size_bytes
        if not size_bytes:
            self._release()
        self.fill()

    def fill(self) -> bool:
        """Allocate the reserve if it is not; return False only if the disk lacks the space."""
        if self._is_allocated or not self._size_bytes:
            return True
        files = self._disk.files
        try:
            fd = files.open(self._path, create=True)
            try:
                files.allocate(fd, 0, self._size_bytes)
            finally:
                files.close(fd)
        except OSError as error:
            self._release()  # a partial reserve would be of no use
            if error.errno == errno.EFBIG:  # beyond the file size limit: no reserve
                self._size_bytes = 0
            elif not is_full(error):
                raise
        else:
            self._is_allocated = True
        self._disk.has_only_reserve = bool(self._size_bytes) and not self._is_allocated
        return not self._disk.has_only_reserve

    def spend(self) -> bool:
        """Free the space of the reserve; return whether it had any."""
        if not self._is_allocated:
            return False
        self._is_allocated = False
        self._disk.has_only_reserve = True
        self._release()
        return True

    def _release(self) -> None:
        with contextlib.suppress(OSError):
            unlink_if_there(self._disk.files, self._path)

    def use_for(self, action: Callable[[], T]) -> T:
        """Run an action; if the disk is full, spend the reserve and run it once more."""
        try:
            return action()
        except (DiskFullError, OSError) as error:
            if not is_full(error) or not self.spend():
                raise
        return action()
