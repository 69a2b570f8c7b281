"""Keeps Python's garbage collections short in Spark's workers.

After each task Spark collects the garbage of the worker. That visits all objects of the imported
modules, some 50,000, and takes longer than a small task itself.
"""

from __future__ import annotations

import gc
import os

#: The environment variable that Spark sets in a worker that runs more than one task.
_REUSED = "SPARK_REUSE_WORKER"
#: The id of the process that has frozen its modules; a process forked from it has to do so itself.
_frozen_in = 0


def freeze_modules() -> None:
    """Exclude the objects that exist now from later collections; called at the end of a task."""
    global _frozen_in
    if _REUSED not in os.environ or _frozen_in == os.getpid():
        return
    _frozen_in = os.getpid()
    gc.collect()  # or existing garbage would never be freed
    gc.freeze()
