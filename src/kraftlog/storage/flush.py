"""Making a log durable: a job for a thread that only blocks in the kernel.

The log makes the job on the loop's thread, a lane runs it, the log is told of the end. Files are
synced in the order in which they were written; the leader epochs are on disk before the recovery
point can pass them.
"""

from __future__ import annotations

from kraftlog.storage.disk import write_atomically
from kraftlog.storage.reserve import is_full

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from kraftlog.ports.files import Files
    from kraftlog.storage.disk import Handle


class FlushJob:
    """All that has to reach the disk for the log to be durable up to `end_offset`."""

    __slots__ = (
        "end_offset",
        "epochs",
        "error",
        "fds",
        "folders",
        "generation",
        "handles",
        "lacks_room",
        "paths",
    )

    def __init__(self, end_offset: int, generation: int) -> None:
        self.end_offset = end_offset
        self.generation = generation
        self.handles: list[Handle] = []
        self.fds: list[int] = []
        #: files that are closed again; one that is gone needs no sync
        self.paths: list[str] = []
        self.folders: list[str] = []
        #: the leader-epoch checkpoint to write: its path and content
        self.epochs: tuple[str, bytes] | None = None
        self.error: OSError | None = None
        #: All is synced but the epochs, which found no room: no failure, to be done again.
        self.lacks_room = False

    def add(self, handles: Iterable[Handle]) -> None:
        """Sync these files; they stay open until `unpin`. If one can't be opened, none does."""
        try:
            for handle in handles:
                self.fds.append(handle.pin())
                self.handles.append(handle)
        except OSError:
            self.unpin()
            raise

    def unpin(self) -> None:
        for handle in self.handles:
            handle.unpin()
        self.handles.clear()

    def run(self, files: Files) -> None:
        """In the lane. Touches nothing but the files; the error, if any, is kept for the log."""
        try:
            for fd in self.fds:
                files.sync(fd)
            for path in self.paths:
                _sync_path(files, path)
            if self.epochs is not None:
                self._write_epochs(files, *self.epochs)
            for folder in self.folders:
                files.sync_directory(folder)
        except OSError as error:
            self.error = error

    def _write_epochs(self, files: Files, path: str, data: bytes) -> None:
        try:
            write_atomically(files, path, data)
        except OSError as error:
            self.lacks_room = is_full(error)
            raise


def _sync_path(files: Files, path: str) -> None:
    try:
        fd = files.open(path, write=False)
    except FileNotFoundError:
        return
    try:
        files.sync(fd)
    finally:
        files.close(fd)
