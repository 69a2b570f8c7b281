"""`MachineRestart`: whether the machine of a log directory stopped without a clean shutdown.

A process that is killed loses no write: the kernel has them. A machine that loses power, or whose
kernel ends, loses what was not synced. A log that another replica relied on may then end early, and
nothing in the directory shows it (V19). So the directory has the kernel's boot id of the last
process, in a file of kraftlog's own.
"""

from __future__ import annotations

from kraftlog.storage.disk import read_whole, write_atomically
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from kraftlog.ports.files import Files

BOOT_ID = "kraftlog-boot-id"


class MachineRestart:
    """Compares the boot ids; an unknown one, as of a directory of Kafka, counts as the same."""

    def __init__(self, files: Files, path: str, names: Collection[str], *, was_clean: bool) -> None:
        self._files = files
        self._path = f"{path}/{BOOT_ID}"
        stored = (
            read_whole(files, self._path).decode("ascii", "replace") if BOOT_ID in names else ""
        )
        current = files.boot_id()
        self._is_stored = stored == current or not current
        #: Whether writes that were not synced may be lost.
        self.may_have_lost_writes = bool(stored and current) and stored != current and not was_clean

    def handled(self) -> None:
        """Store the present boot id, once it is durable which logs may have lost writes."""
        if not self._is_stored:
            write_boot_id(self._files, self._path.rpartition("/")[0])
            self._is_stored = True


def write_boot_id(files: Files, directory: str) -> None:
    write_atomically(files, f"{directory}/{BOOT_ID}", files.boot_id().encode())
