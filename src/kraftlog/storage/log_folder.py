"""Creates the folder of a new log."""

from __future__ import annotations

from contextlib import suppress

from kraftlog.errors import DiskFullError
from kraftlog.storage.checkpoints import PARTITION_METADATA, encode_partition_metadata
from kraftlog.storage.disk import unlink_if_there, write_whole
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.storage.disk import Disk
    from kraftlog.types import Uuid


def make_log_folder(disk: Disk, folder: str, topic_id: Uuid) -> str:
    """Create the folder with its file `partition.metadata`; return the path of this file.

    Nothing is durable yet. On a full disk the folder is removed again, and the caller may retry.
    """
    files, path = disk.files, f"{folder}/{PARTITION_METADATA}"
    try:
        with suppress(FileExistsError):  # left by an attempt that could not be undone
            files.make_directory(folder)
        write_whole(files, path, encode_partition_metadata(topic_id), sync=False)
    except OSError as error:
        failure = disk.fail_unless_full(f"{folder}: creating the log", error)
        if isinstance(failure, DiskFullError):
            with suppress(OSError):
                unlink_if_there(files, path)
                files.remove_directory(folder)
        raise failure from error
    return path
