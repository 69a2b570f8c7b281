"""Brings Kafka's jars and our compiled driver into `.cache`, once for all test processes.

What is made is named by a hash of what it is made from, is made in a folder of its own, and is
put in place by a rename: it is there whole or not at all.

    python -m tests.interop.kafka_jars      print the folder of the jars, fetching if need be
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = os.path.join(HERE, "jvm")
CACHE = os.path.join(os.path.dirname(os.path.dirname(HERE)), ".cache")
FETCH_SECONDS = 600
COMPILE_SECONDS = 120
OLDEST_JAVA = 17


class UnavailableError(Exception):
    """Java, Maven or the jars can't be had here; the message says which and what to do."""


def kafka_libs() -> str:
    """The folder with the jars of Kafka and of what it needs."""
    pom = os.path.join(SOURCES, "pom.xml")
    text = _read(pom)
    version = re.search(rb"<kafka.version>(.+?)</kafka.version>", text)
    assert version, f"{pom} names no kafka.version"
    name = f"kafka-libs-{version[1].decode()}-{_digest(text)}"
    return _made_once(name, lambda folder: _fetch(pom, folder))


def driver_classes(libs: str) -> str:
    """The folder with the compiled driver."""
    sources = sorted(os.path.join(SOURCES, f) for f in os.listdir(SOURCES) if f.endswith(".java"))
    digest = _digest(os.path.basename(libs).encode(), *map(_read, sources))
    command = ["javac", "-nowarn", "-Xlint:none", "-cp", os.path.join(libs, "*"), *sources]
    return _made_once(
        f"kafka-driver-{digest}",
        lambda folder: _run([*command, "-d", folder], COMPILE_SECONDS, "the driver won't compile"),
    )


def require_java() -> None:
    """Refuse, in words, a machine without a recent JDK."""
    if not (shutil.which("java") and shutil.which("javac")):
        raise UnavailableError(
            "no java and javac on PATH (install a JDK, e.g. openjdk-17-jdk-headless)"
        )
    shown = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    version = java_version(shown)
    if version < OLDEST_JAVA:
        raise UnavailableError(f"Kafka 4 needs Java {OLDEST_JAVA} or newer; this is {version}")


def java_version(shown: str) -> int:
    """The major version in what `java -version` prints; 0 when it is not there."""
    match = re.search(r'version "(\d+)', shown)
    return int(match[1]) if match else 0


def _fetch(pom: str, folder: str) -> None:
    if not shutil.which("mvn"):
        raise UnavailableError("no mvn on PATH to fetch Kafka's jars with (install maven)")
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
    _run(["mvn", "-q", "-B", "-f", pom, *goal], FETCH_SECONDS, "Maven can't fetch Kafka's jars")


def _run(command: Sequence[str], seconds: int, complaint: str) -> None:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as e:
        raise UnavailableError(f"{complaint}: no end after {seconds} s") from e
    if done.returncode != 0:
        last_words = " | ".join(done.stdout.strip().splitlines()[-5:])
        raise UnavailableError(f"{complaint}: {last_words}")


def _made_once(name: str, make: Callable[[str], None]) -> str:
    """`.cache/name`, made by `make(folder)` unless it is there already."""
    folder = os.path.join(CACHE, name)
    if os.path.isdir(folder):
        return folder
    with _lock(name):
        if not os.path.isdir(folder):
            unfinished = f"{folder}.unfinished"
            shutil.rmtree(unfinished, ignore_errors=True)
            os.makedirs(unfinished)
            make(unfinished)
            os.rename(unfinished, folder)
    return folder


@contextmanager
def _lock(name: str) -> Iterator[None]:
    os.makedirs(CACHE, exist_ok=True)
    with open(os.path.join(CACHE, f"{name}.lock"), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:12]


if __name__ == "__main__":
    try:
        print(kafka_libs())
    except UnavailableError as e:
        sys.exit(str(e))
