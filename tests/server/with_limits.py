"""A node with a limited file size or a limited number of open files.

The size limit looks like a full disk: a write is short, and the next one fails.
"""

from __future__ import annotations

import os
import resource
import sys

from kraftlog.cli import main

#: Environment variables with the limits.
FILE_BYTES = "KRAFTLOG_TEST_FILE_BYTES"
OPEN_FILES = "KRAFTLOG_TEST_OPEN_FILES"

if __name__ == "__main__":
    for kind, name in ((resource.RLIMIT_FSIZE, FILE_BYTES), (resource.RLIMIT_NOFILE, OPEN_FILES)):
        if name in os.environ:
            _, hard = resource.getrlimit(kind)
            limit = int(os.environ[name])
            # A test can lift the size limit; the limit of descriptors stays.
            is_size = kind == resource.RLIMIT_FSIZE
            resource.setrlimit(kind, (limit, hard if is_size else limit))
    sys.exit(main())
