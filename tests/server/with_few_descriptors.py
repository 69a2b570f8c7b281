"""A node with 64 descriptors; an environment variable has the number that are already in use."""

from __future__ import annotations

import os
import resource
import sys

from kraftlog.cli import main

TAKEN = "KRAFTLOG_TEST_TAKEN_DESCRIPTORS"

if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    for _ in range(int(os.environ[TAKEN])):
        os.open(os.devnull, os.O_RDONLY)
    sys.exit(main())
