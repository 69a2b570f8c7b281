"""Scripts, in the user's cache folder, that Spark runs in place of `java` or `python`."""

from __future__ import annotations

import os
import stat


def launcher_path(name: str) -> str:
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(cache, "kraftlog", name)


def write_launcher(path: str, text: str) -> None:
    """Write an executable script, atomically, as other processes may be starting it."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    new = f"{path}.{os.getpid()}"
    with open(new, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(new, stat.S_IRWXU)
    os.replace(new, path)
