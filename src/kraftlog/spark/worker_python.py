"""Starts Spark's Python processes with the compiled pyspark of site-packages.

Spark puts a zip with the sources of pyspark in front of PYTHONPATH, and Python does not cache the
bytecode of modules in a zip. So every Python process of Spark (the worker daemon, the planners, and
one for each stream) would compile pyspark again, for more than half a second of CPU. Therefore
Spark starts a script, which removes the zip from PYTHONPATH and executes Python.
"""

from __future__ import annotations

import os
import shlex
import sys
from importlib.util import find_spec

from kraftlog.spark.launchers import launcher_path, write_launcher

_LAUNCHER = """#!/bin/sh
# Starts Python for Spark without Spark's zips of sources: site-packages has the same, compiled.
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
#: Spark starts workers with the first, and the planners of sources and sinks with the second.
_VARIABLES = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")


def choose_python(*, is_local: bool) -> None:
    """Let Spark start this Python, unless the user chose another one; locally through the script.

    Other machines of a cluster do not have the script.
    """
    # With SPARK_HOME, Spark may have another version of pyspark than site-packages.
    uses_script = is_local and "SPARK_HOME" not in os.environ
    script = launcher_path(f"python{sys.executable}")
    executable = _write_script(script) if uses_script else sys.executable
    for name in _VARIABLES:
        if os.environ.get(name, script) == script:  # not set, or set before by this function
            os.environ[name] = executable


def _write_script(script: str) -> str:
    """Write the script and return its path, or the path of this Python if it can't be written."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    lib = os.path.join(os.path.dirname(spec.origin), "python", "lib")
    text = _LAUNCHER.format(lib=shlex.quote(lib), python=shlex.quote(sys.executable))
    try:
        write_launcher(script, text)
    except OSError:
        return sys.executable
    return script
