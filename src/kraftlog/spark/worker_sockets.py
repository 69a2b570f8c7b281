"""Unix domain sockets between Spark and its Python workers: rows pass faster than by TCP.

Over such a socket Spark and a worker do not exchange a secret: who may open the directory may
connect. Therefore Spark does not put them into the temporary directory, as it would by itself.
"""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import tempfile
from functools import cache

#: A name of the length of Spark's own, `.<UUID>.sock`, and a reserve for other systems' limits.
_TRIAL_NAME = "." + "x" * 36 + ".sock" + "xxxx"


@cache
def socket_settings() -> dict[str, str]:
    """Settings of Spark for sockets in a directory that only this user can open.

    There are none, and Spark uses TCP, if no socket can be created: the path of the temporary
    directory may be too long for one, or its file system may not have sockets. Versions of Spark
    before 4.1 ignore the settings.
    """
    try:
        directory = tempfile.mkdtemp(prefix="kraftlog-")
    except OSError:
        return {}
    atexit.register(_remove, directory, os.getpid())
    if not _holds_sockets(directory):
        return {}
    return {
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.unix.domain.socket.dir": directory,
    }


def _holds_sockets(directory: str) -> bool:
    path = os.path.join(directory, _TRIAL_NAME)
    try:
        with socket.socket(socket.AF_UNIX) as trial:
            trial.bind(path)
        os.remove(path)
    except (OSError, AttributeError):  # Windows has no AF_UNIX in Python
        return False
    return True


def _remove(directory: str, process: int) -> None:
    if os.getpid() == process:  # and not one that was forked from it
        shutil.rmtree(directory, ignore_errors=True)
