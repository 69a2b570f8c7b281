"""A node whose files may not grow beyond a size, or that may not have many of them open.

A file that may not grow is a full disk to a node: a write is short, and the next one is refused.
"""

from __future__ import annotations

import os
import resource
import sys

from kraftlog.cli import main

FILE_BYTES = "KRAFTLOG_TEST_FILE_BYTES"
OPEN_FILES = "KRAFTLOG_TEST_OPEN_FILES"

if __name__ == "__main__":
    for kind, name in ((resource.RLIMIT_FSIZE, FILE_BYTES), (resource.RLIMIT_NOFILE, OPEN_FILES)):
        if name in os.environ:
            _, hard = resource.getrlimit(kind)
            at_most = int(os.environ[name])
            # Files may grow again when a test says so; descriptors stay few whatever a node does.
            is_size = kind == resource.RLIMIT_FSIZE
            resource.setrlimit(kind, (at_most, hard if is_size else at_most))
    sys.exit(main())
