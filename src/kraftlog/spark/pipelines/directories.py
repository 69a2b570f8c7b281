"""Checks that a pipeline can write to its directory, before Spark starts and for --dry-run."""

from __future__ import annotations

import os
import tempfile

from kraftlog.errors import ConfigError


def check_writable(directory: str, option: str = "--to") -> None:
    """Raise ConfigError unless files can be created in this directory, existing or new."""
    if "://" in directory:
        return
    parent = os.path.abspath(directory)
    while not os.path.lexists(parent):
        parent = os.path.dirname(parent)
    try:
        # Permissions alone do not decide this: root has all, and a file system may be read-only.
        os.rmdir(tempfile.mkdtemp(prefix=".kraftlog-", dir=parent))
    except OSError as error:
        raise ConfigError(
            f"{option} {directory}: nothing can be written to {parent} ({error.strerror}): give "
            "another directory, or its permissions to this user"
        ) from None
