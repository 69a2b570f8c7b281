"""The folder of a log's copy while the log moves to another directory: its name and its mark.

The folder's name ends in `-future`, as in Kafka. The mark says that the copy is whole: it is
durable, and since then every record is in both logs.
"""

from __future__ import annotations

from kraftlog.errors import CorruptLogError
from kraftlog.storage.checkpoints import PARTITION_METADATA, decode_partition_metadata
from kraftlog.storage.disk import read_whole, unlink_if_there, write_atomically
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.ports.files import Files
    from kraftlog.types import LogName, Uuid

#: The suffix of a copy of a log that is being moved here from another directory, as in Kafka.
FUTURE = "-future"
#: A file in the folder of a copy that is whole.
WHOLE = "kraftlog-whole"


def future_folder(path: str, name: LogName, unique: str) -> str:
    """The folder of a new copy in the directory at `path`."""
    return f"{path}/{name[0]}-{name[1]}.{unique}{FUTURE}"


def log_of_future(folder_name: str) -> str | None:
    """The folder name of the log that a copy is of; None for any other folder."""
    log, dot, unique = folder_name.removesuffix(FUTURE).rpartition(".")
    return log if folder_name.endswith(FUTURE) and dot and len(unique) == 32 else None


def is_whole(files: Files, folder: str) -> bool:
    """Whether a copy has all records of its log."""
    return files.exists(f"{folder}/{WHOLE}")


def mark_as_whole(files: Files, folder: str) -> None:
    """Mark a copy durably; runs in an I/O thread."""
    write_atomically(files, f"{folder}/{WHOLE}", b"")


def remove_mark(files: Files, folder: str) -> None:
    """Remove the mark durably: records are no longer copied."""
    if unlink_if_there(files, f"{folder}/{WHOLE}"):
        files.sync_folder(folder)


def topic_id_of(files: Files, folder: str) -> Uuid | None:
    """The topic id of a copy; None if it cannot be read."""
    path = f"{folder}/{PARTITION_METADATA}"
    try:
        return decode_partition_metadata(read_whole(files, path), path)
    except (OSError, CorruptLogError):
        return None
