"""Keeps Python's garbage collections short in Spark's workers.

After each task Spark collects the garbage of the worker. That visits all objects of the imported
modules, some 50,000, and takes longer than a small task itself.
"""

from __future__ import annotations

import gc
import os

#: Spark sets it in a worker that runs more than one task.
_REUSED = "SPARK_REUSE_WORKER"
#: The process that has done it; a process that is forked from it has to do it for itself.
_done_in = 0


def freeze_modules() -> None:
    """Leave what a worker has loaded out of later collections; called at the end of a task."""
    global _done_in
    if _REUSED not in os.environ or _done_in == os.getpid():
        return
    _done_in = os.getpid()
    gc.collect()  # or garbage would be kept, too
    gc.freeze()
