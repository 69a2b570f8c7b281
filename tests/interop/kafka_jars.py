"""Kafka's jars and the compiled driver in `.cache`, once for all test processes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

from tests.interop.cache import HERE, UnavailableError, digest, made_once, read, run

SOURCES = os.path.join(HERE, "jvm")
POM = os.path.join(SOURCES, "pom.xml")
FETCH_SECONDS = 600
COMPILE_SECONDS = 120
OLDEST_JAVA = 17
#: The release before the one of pom.xml; later releases have no kafka-shell.
PREVIOUS = "4.3.1"


def kafka_version() -> str:
    """The release of Kafka that the tests run against."""
    version = re.search(rb"<kafka.version>(.+?)</kafka.version>", read(POM))
    assert version, f"{POM} names no kafka.version"
    return version[1].decode()


def kafka_libs() -> str:
    """The folder with the jars of Kafka and its dependencies."""
    return made_once(
        f"kafka-libs-{kafka_version()}-{digest(read(POM))}", lambda folder: fetch(POM, folder)
    )


def previous_kafka_libs() -> str:
    """The folder with the jars of the previous release and its kafka-shell."""
    flags = (f"-Dkafka.version={PREVIOUS}", "-Pshell")
    name = f"kafka-libs-{PREVIOUS}-{digest(read(POM))}"
    return made_once(name, lambda folder: fetch(POM, folder, *flags))


def driver_classes(libs: str) -> str:
    """The folder with the compiled driver."""
    sources = sorted(os.path.join(SOURCES, f) for f in os.listdir(SOURCES) if f.endswith(".java"))
    name = digest(os.path.basename(libs).encode(), *map(read, sources))
    command = ["javac", "-nowarn", "-Xlint:none", "-cp", os.path.join(libs, "*"), *sources]
    return made_once(
        f"kafka-driver-{name}",
        lambda folder: run([*command, "-d", folder], COMPILE_SECONDS, "the driver won't compile"),
    )


def require_java() -> None:
    """Raise UnavailableError without a recent JDK."""
    if not (shutil.which("java") and shutil.which("javac")):
        raise UnavailableError(
            "no java and javac on PATH (install a JDK, e.g. openjdk-17-jdk-headless)"
        )
    done = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    version = java_version(done.stderr)
    if version < OLDEST_JAVA:
        raise UnavailableError(f"Kafka 4 needs Java {OLDEST_JAVA} or newer; this is {version}")


def java_version(output: str) -> int:
    """The major version in the output of `java -version`; 0 if there is none."""
    match = re.search(r'version "(\d+)', output)
    return int(match[1]) if match else 0


def fetch(pom: str, folder: str, *flags: str) -> None:
    """Put the jars of a pom.xml into a folder."""
    if not shutil.which("mvn"):
        raise UnavailableError("no mvn on PATH to fetch jars with (install maven)")
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
    run(
        ["mvn", "-q", "-B", "-f", pom, *flags, *goal],
        FETCH_SECONDS,
        f"Maven can't fetch the jars of {os.path.relpath(pom)}",
    )
