"""Room on the disk that is kept for what must be written when the disk is full.

A file without content holds the blocks. When the metadata log, the election state or a checkpoint
finds no room, the file goes (`spend`), and from then on the directory is short of room: logs of
topics take no records, so that nothing else takes what was set free. Once there is room for it
again the reserve is made again (`make`).
"""

from __future__ import annotations

import contextlib
import errno

from kraftlog.errors import DiskFullError
from kraftlog.storage.disk import unlink_if_there

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from kraftlog.storage.disk import Disk

    T = TypeVar("T")

NAME = "kraftlog-reserve"
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT}


def is_full(error: BaseException | None) -> bool:
    """Whether an error says that the disk is full: the system's, or that made of it."""
    if isinstance(error, DiskFullError):
        error = error.__cause__
    return isinstance(error, OSError) and error.errno in _NO_ROOM


class Reserve:
    """The reserve of one directory, of no bytes until `keep`. It alone sets `disk.is_short`."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = f"{path}/{NAME}"
        self._size_bytes = 0
        self._is_there = False

    def keep(self, size_bytes: int) -> None:
        """From now on have so much in reserve, if there is room for it."""
        self._size_bytes = size_bytes
        if not size_bytes:
            self._release()
        self.make()

    def make(self) -> bool:
        """Take the room, unless it is taken; whether the directory has what it is to have."""
        if self._is_there or not self._size_bytes:
            return True
        files = self._disk.files
        try:
            fd = files.open(self._path, create=True)
            try:
                files.allocate(fd, 0, self._size_bytes)
            finally:
                files.close(fd)
        except OSError as error:
            self._release()  # a part of it would be in nobody's hands
            if error.errno == errno.EFBIG:  # files may not be so large: there is none
                self._size_bytes = 0
            elif not is_full(error):
                raise
        else:
            self._is_there = True
        self._disk.is_short = bool(self._size_bytes) and not self._is_there
        return not self._disk.is_short

    def spend(self) -> bool:
        """Set the room free; whether there was any."""
        if not self._is_there:
            return False
        self._is_there = False
        self._disk.is_short = True
        self._release()
        return True

    def _release(self) -> None:
        with contextlib.suppress(OSError):
            unlink_if_there(self._disk.files, self._path)

    def use_for(self, action: Callable[[], T]) -> T:
        """Do what has to be done on a full disk too: once more, if there was no room for it."""
        try:
            return action()
        except (DiskFullError, OSError) as error:
            if not is_full(error) or not self.spend():
                raise
        return action()
