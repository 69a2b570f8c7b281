"""Starts Spark's Python processes with the compiled pyspark of site-packages.

Spark puts a zip with the sources of pyspark in front of PYTHONPATH, and Python never keeps what it
compiles of a zip. So every process of Python's (the worker daemon, the planners, that of each
stream) would compile pyspark again, for more than half a second of CPU. A script in front of Python
takes the zip out of PYTHONPATH.
"""

from __future__ import annotations

import os
import shlex
import sys
from importlib.util import find_spec

from kraftlog.spark.launchers import launcher_path, write_launcher

_LAUNCHER = """#!/bin/sh
# Starts Python for Spark without Spark's zips of sources, which site-packages has compiled.
set -f
IFS=:
kept=
for entry in $PYTHONPATH; do
  case $entry in
    {lib}/*.zip) ;;
    *) kept=$kept${{kept:+:}}$entry ;;
  esac
done
export PYTHONPATH="$kept"
exec {python} "$@"
"""
#: Spark starts workers with the first, and what plans a source or a sink with the second.
_VARIABLES = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")


def choose_python(*, is_local: bool) -> None:
    """Tell Spark which Python to start, unless the user did: this one, locally by the script.

    Other machines of a cluster do not have the script.
    """
    # With a SPARK_HOME, the pyspark of site-packages may be another one than Spark's.
    by_script = is_local and "SPARK_HOME" not in os.environ
    script = launcher_path(f"python{sys.executable}")
    chosen = _written(script) if by_script else sys.executable
    for name in _VARIABLES:
        if os.environ.get(name, script) == script:  # not set, or set before by this function
            os.environ[name] = chosen


def _written(script: str) -> str:
    """The path of the script, once it is there; this Python if there is no place for it."""
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    lib = os.path.join(os.path.dirname(found.origin), "python", "lib")
    text = _LAUNCHER.format(lib=shlex.quote(lib), python=shlex.quote(sys.executable))
    try:
        write_launcher(script, text)
    except OSError:
        return sys.executable
    return script
