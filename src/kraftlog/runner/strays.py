"""Deletes the folders of stray partitions, a long time after they were found.

A stray belonged to a partition that the broker does not have. Its records may still be wanted, if
the metadata is wrong (after a repair of the quorum, for example). So it is deleted only after
`kraftlog.stray.delete.delay.ms` of a running and registered broker, and never while the broker has
a replica of the same partition. Kafka's brokers never delete strays.
"""

from __future__ import annotations

from kraftlog.storage.directory import STRAY, parse_folder
from kraftlog.storage.garbage import DELETED
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraftlog.node.node import Node
    from kraftlog.storage.directory import LogDirectory
    from kraftlog.types import Now, Uuid

#: How often the directory is searched for strays.
SEARCH_MS = 3_600_000
#: How many strays a log line names.
MAX_NAMED = 5
#: The number of digits of a topic id in the name of a folder.
_ID_DIGITS = 32


def parse_stray(name: str) -> tuple[Uuid, int] | None:
    """Topic id and partition of a stray, by its folder; None for any other name."""
    log, dot, unique = name.removesuffix(STRAY).rpartition(".")
    partition = parse_folder(log)
    if not name.endswith(STRAY) or not dot or partition is None or len(unique) < _ID_DIGITS:
        return None
    try:
        return bytes.fromhex(unique[:_ID_DIGITS]), partition[1]
    except ValueError:
        return None


class Strays:
    """The strays of one log directory, and when each was found."""

    def __init__(self, directory: LogDirectory, log_line: Callable[[str], None]) -> None:
        self._directory = directory
        self._log_line = log_line
        self._found_ms: dict[str, int] = {}
        self._search_due_ms = 0

    def delete_due(self, node: Node, now: Now) -> list[str]:
        """Rename the strays that are to be deleted now; return their folders, for an I/O thread."""
        delay_ms = node.config.settings.kraftlog_stray_delete_delay_ms
        if delay_ms < 0 or not node.replica_manager.is_registered:
            return []
        if now.monotonic_ms >= self._search_due_ms:
            self._search_due_ms = now.monotonic_ms + min(SEARCH_MS, delay_ms)
            self._search(now)
        renamed = {}
        for name, found_ms in list(self._found_ms.items()):
            is_due = now.monotonic_ms - found_ms >= delay_ms
            if is_due and parse_stray(name) not in node.replica_manager.partitions:
                del self._found_ms[name]
                path = self._rename(name)
                if path is not None:
                    renamed[name] = path
        if renamed:
            self._log_deleted(list(renamed), delay_ms)
        return list(renamed.values())

    def _search(self, now: Now) -> None:
        try:
            names = self._directory.disk.files.list(self._directory.path)
        except OSError as error:
            self._log_line(f"{self._directory.path}: searching for strays: {error}")
            return
        found_ms = self._found_ms
        self._found_ms = {
            name: found_ms.get(name, now.monotonic_ms) for name in names if parse_stray(name)
        }

    def _rename(self, name: str) -> str | None:
        """Rename a stray for deletion; return the new path, or None if it is left for later."""
        files, path = self._directory.disk.files, self._directory.path
        renamed = f"{path}/{name.removesuffix(STRAY)}{DELETED}"
        if files.exists(renamed):
            return None  # an earlier folder of that name is still being deleted
        try:
            files.rename(f"{path}/{name}", renamed)
        except OSError as error:
            self._log_line(f"{path}/{name}: renaming the folder: {error}")
            return None
        return renamed

    def _log_deleted(self, names: list[str], delay_ms: int) -> None:
        more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
        self._log_line(
            f"{self._directory.path}: deleted stray partitions, which have not been assigned to "
            f"this broker for {delay_ms} ms (kraftlog.stray.delete.delay.ms): "
            f"{', '.join(names[:MAX_NAMED])}{more}"
        )
