"""Spark's own Kafka connector in `.cache`, once for all test processes."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec

from tests.interop.cache import HERE, UnavailableError, digest, made_once, read, run
from tests.interop.kafka_jars import COMPILE_SECONDS, fetch, require_java

SOURCES = os.path.join(HERE, "spark")


def connector_jars() -> list[str]:
    """The jars for `spark.jars`; raises UnavailableError if they are not available."""
    folders = [fetched_jars(), _tokenless_jar()]
    return sorted(os.path.join(folder, each) for folder in folders for each in os.listdir(folder))


def fetched_jars() -> str:
    """The folder with the jars of the connector that Maven provides."""
    pom = os.path.join(SOURCES, "pom.xml")
    require_java()
    return made_once(f"spark-connector-{digest(read(pom))}", lambda folder: fetch(pom, folder))


def _tokenless_jar() -> str:
    """The folder with a jar of stand-ins for the connector's token classes."""
    folder = os.path.join(SOURCES, "tokenless")
    sources = sorted(os.path.join(folder, name) for name in os.listdir(folder))
    name = f"spark-tokenless-{digest(*map(read, sources))}"
    return made_once(name, lambda built: _compile(sources, built))


def _compile(sources: list[str], folder: str) -> None:
    spark = find_spec("pyspark")
    if spark is None or not spark.submodule_search_locations:
        raise UnavailableError("pyspark is not installed (make test installs it)")
    path = os.path.join(spark.submodule_search_locations[0], "jars", "*")
    classes = os.path.join(folder, "classes")
    command = ["javac", "-nowarn", "-Xlint:none", "-cp", path, "-d", classes, *sources]
    run(command, COMPILE_SECONDS, "the stand-in for delegation tokens won't compile")
    jar = os.path.join(folder, "tokenless.jar")
    run(["jar", "cf", jar, "-C", classes, "."], COMPILE_SECONDS, "jar can't pack the stand-in")
    shutil.rmtree(classes)
