"""`kraftlog-boot`: the boot timestamp that this node has last reported to others (R9).

The file is beside `meta.properties`; Kafka has no such file, and ignores it. A node writes the file
before it reports a new boot timestamp to another node; if it knows of no other node, it never does.
"""

from __future__ import annotations

from kraftlog.storage.disk import read_whole, write_atomically
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.ports.files import Files

NAME = "kraftlog-boot"
#: No boot timestamp has been reported.
NONE = -1


def store(files: Files, directory: str, boot_timestamp_ms: int) -> None:
    """Write the file durably: a crash at any instant leaves the old or the new one, whole."""
    write_atomically(files, f"{directory}/{NAME}", f"{boot_timestamp_ms}\n".encode())


def load(files: Files, directory: str) -> int:
    """Read the file; NONE if it has no valid timestamp, and the node then relies on its clock."""
    path = f"{directory}/{NAME}"
    if not files.exists(path):
        return NONE
    text = read_whole(files, path).strip()
    return int(text) if text.isdigit() and len(text) < len(str(1 << 63)) else NONE
