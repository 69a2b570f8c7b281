"""The folder of a log: its creation, and to which partition the log in it belongs."""

from __future__ import annotations

from contextlib import suppress

from kraftlog.errors import DiskFullError, StorageError
from kraftlog.storage.checkpoints import (
    PARTITION_METADATA,
    decode_first_leader_epoch,
    encode_partition_metadata,
)
from kraftlog.storage.disk import read_whole, unlink_if_there, write_whole
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.ports.files import Files
    from kraftlog.storage.log import Log


def make_log_folder(log: Log) -> str:
    """Create the folder of a log, with its file `partition.metadata`; return the path of this file.

    Nothing is durable yet. On a full disk the folder is removed again, and the caller may retry.
    """
    disk, folder = log.disk, log.folder
    files, path = disk.files, f"{folder}/{PARTITION_METADATA}"
    metadata = encode_partition_metadata(log.topic_id, log.first_leader_epoch)
    try:
        with suppress(FileExistsError):  # left by an attempt that could not be undone
            files.make_folder(folder)
        write_whole(files, path, metadata, sync=False)
    except OSError as error:
        failure = disk.fail_unless_full(f"{folder}: creating the log", error)
        if isinstance(failure, DiskFullError):
            with suppress(OSError):
                unlink_if_there(files, path)
                files.remove_folder(folder)
        raise failure from error
    return path


def is_of_partition(log: Log, first_leader_epoch: int) -> bool:
    """Whether an open log belongs to the partition that began in this epoch (V11, V23).

    A partition that was removed and added again has a higher first epoch. A log that an earlier
    version created does not name its own: then its records must be of that epoch or later.
    """
    if first_leader_epoch == 0:
        return True
    stored = log.first_leader_epoch or read_first_leader_epoch(log.disk.files, log.folder)
    if stored:
        return stored == first_leader_epoch
    if not log.epochs.epochs:
        return log.end_offset == 0
    return log.epochs.oldest >= first_leader_epoch


def read_first_leader_epoch(files: Files, folder: str) -> int:
    """The first leader epoch in the `partition.metadata` of a log; 0 if it names none."""
    path = f"{folder}/{PARTITION_METADATA}"
    try:
        return decode_first_leader_epoch(read_whole(files, path), path)
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise StorageError(f"{path}: reading the leader epoch: {error.strerror}") from error
