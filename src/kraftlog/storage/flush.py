"""Flush jobs, which make a log durable in a thread that only blocks in the kernel.

The log creates the job on the loop's thread, an I/O thread runs it, and `Log.flushed` takes its
result. Files are synced in the order in which they were written; the leader epochs are on disk
before the recovery point passes them.
"""

from __future__ import annotations

from kraftlog.storage.disk import write_atomically
from kraftlog.storage.reserve import is_full
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kraftlog.ports.files import Files
    from kraftlog.storage.disk import Handle


class FlushJob:
    """The syncs that make the log durable up to `end_offset`."""

    __slots__ = (
        "end_offset",
        "epochs",
        "error",
        "fds",
        "folders",
        "generation",
        "handles",
        "lacks_space",
        "paths",
    )

    def __init__(self, end_offset: int, generation: int) -> None:
        self.end_offset = end_offset
        #: the log's number of truncations when the job was made
        self.generation = generation
        self.handles: list[Handle] = []
        self.fds: list[int] = []
        #: files that are closed already, by path; a deleted one needs no sync
        self.paths: list[str] = []
        self.folders: list[str] = []
        #: the leader-epoch checkpoint to write: its path and content
        self.epochs: tuple[str, bytes] | None = None
        self.error: OSError | None = None
        #: Only the epochs could not be written, for lack of space. The disk has not failed, and the
        #: next job writes the epochs.
        self.lacks_space = False

    def add(self, handles: Iterable[Handle]) -> None:
        """Sync these files, and keep them open until `unpin`. If one can't be opened, add none."""
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
        """Run in an I/O thread: touch only the files, and keep an error for the log."""
        try:
            for fd in self.fds:
                files.sync(fd)
            for path in self.paths:
                _sync_path(files, path)
            if self.epochs is not None:
                self._write_epochs(files, *self.epochs)
            for folder in self.folders:
                files.sync_folder(folder)
        except OSError as error:
            self.error = error

    def _write_epochs(self, files: Files, path: str, data: bytes) -> None:
        try:
            write_atomically(files, path, data)
        except OSError as error:
            self.lacks_space = is_full(error)
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
