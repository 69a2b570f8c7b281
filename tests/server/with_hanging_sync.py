"""A node in which syncs of topics hang while a file exists, whose path is in its environment."""

from __future__ import annotations

import os
import sys
import time

from kraftlog.cli import main
from kraftlog.server.files import OsFiles
from tests.server.clients import TOPIC

#: The environment variable with the path of the file.
HANGS = "KRAFTLOG_TEST_SYNC_HANGS"


def sync(fd: int) -> None:
    """Sync a file; this runs in an I/O thread."""
    if f"/{TOPIC}-" in os.readlink(f"/proc/self/fd/{fd}"):
        while os.path.exists(os.environ[HANGS]):
            time.sleep(0.01)
    os.fdatasync(fd)


if __name__ == "__main__":
    OsFiles.sync = staticmethod(sync)  # type: ignore[arg-type]  # files are numbers here
    sys.exit(main())
