"""Deletes renamed files and folders, in an I/O thread."""

from __future__ import annotations

from kraftlog.storage.disk import unlink_if_there
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.ports.files import Files

#: The suffix of a folder that is to be deleted, as in Kafka.
DELETED = "-delete"


def unlink_garbage(files: Files, paths: list[str]) -> None:
    """Delete files, and folders with their files; runs in an I/O thread.

    A folder's new name is made durable first, or a crash could show it half empty under its old
    one.
    """
    for parent in sorted({path.rpartition("/")[0] for path in paths if path.endswith(DELETED)}):
        files.sync_folder(parent)
    for path in paths:
        if not path.endswith(DELETED):
            unlink_if_there(files, path)
            continue
        for name in files.list(path):
            unlink_if_there(files, f"{path}/{name}")
        files.remove_folder(path)
