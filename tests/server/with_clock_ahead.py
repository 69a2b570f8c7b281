"""A node whose wall clock is an hour ahead."""

from __future__ import annotations

import sys
import time

HOUR_NS = 3_600_000_000_000
_true_ns = time.time_ns
time.time_ns = lambda: _true_ns() + HOUR_NS

from kraftlog.cli import main  # noqa: E402 - it has to import the changed clock

if __name__ == "__main__":
    sys.exit(main())
