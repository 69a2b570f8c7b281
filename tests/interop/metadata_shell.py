"""Kafka's metadata shell, in a JVM of its own: the last release that has it is Kafka 4.3.

It reads no log of a metadata.version that Kafka 4.3 does not know.
"""

from __future__ import annotations

import os
import subprocess

from tests.interop.driver import JAVA_OPTIONS
from tests.interop.kafka_jars import previous_kafka_libs
from tests.time_limit import LIMIT_S

_TOOL = "org.apache.kafka.shell.MetadataShell"


def metadata_shell(snapshot: str, *words: str) -> str:
    """The output of a command of the shell on a file of the metadata log."""
    jars = os.path.join(previous_kafka_libs(), "*")
    done = subprocess.run(
        ["java", *JAVA_OPTIONS, "-cp", jars, _TOOL, "--snapshot", snapshot, *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
