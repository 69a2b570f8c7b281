"""The software of the other quorums, fetched and built once in `.cache`."""

from __future__ import annotations

import os
import re

from tests.interop import kafka_jars
from tests.interop.cache import digest, made_once, read, run
from tests.interop.kafka_jars import fetch

HERE = os.path.dirname(__file__)
ETCD_SOURCES = os.path.join(HERE, "etcd")
POM = os.path.join(HERE, "pom.xml")
#: The last release of Apache Kafka that runs with ZooKeeper.
LAST_WITH_ZOOKEEPER = "3.9.2"
BUILD_S = 600


def etcd() -> str:
    """The program that is both etcd and its load."""
    sources = [os.path.join(ETCD_SOURCES, name) for name in ("go.mod", "go.sum", "main.go")]

    def build(folder: str) -> None:
        # With this machine's toolchain: without the setting Go may download another one.
        command = ["env", "GOTOOLCHAIN=local", "go", "build", "-o", f"{folder}/etcd", "."]
        run(command, BUILD_S, "etcd can't be built", cwd=ETCD_SOURCES)

    return os.path.join(made_once(f"bench-etcd-{digest(*map(read, sources))}", build), "etcd")


def zookeeper_libs() -> str:
    """The folder with ZooKeeper's jars."""
    name = f"zookeeper-libs-{digest(read(POM))}"
    return made_once(name, lambda folder: fetch(POM, folder))


def zookeeper_load() -> str:
    """The class path with the compiled load."""
    source, libs = os.path.join(HERE, "ZooKeeperLoad.java"), os.path.join(zookeeper_libs(), "*")
    folder = made_once(
        f"bench-zookeeper-{digest(read(source), read(POM))}",
        lambda folder: run(
            ["javac", "-cp", libs, "-d", folder, source], BUILD_S, "ZooKeeperLoad won't compile"
        ),
    )
    return f"{folder}{os.pathsep}{libs}"


def kafka_with_zookeeper_libs() -> str:
    """The folder with the jars of the last Kafka that runs with ZooKeeper."""
    flag = f"-Dkafka.version={LAST_WITH_ZOOKEEPER}"
    name = f"kafka-libs-{LAST_WITH_ZOOKEEPER}-{digest(read(kafka_jars.POM))}"
    return made_once(name, lambda folder: fetch(kafka_jars.POM, folder, flag))


def versions() -> str:
    """The releases, for the page."""
    etcd_version = re.search(rb"server/v3 v([\d.]+)", read(os.path.join(ETCD_SOURCES, "go.mod")))
    zookeeper_version = re.search(rb"<zookeeper.version>(.+?)<", read(POM))
    assert etcd_version
    assert zookeeper_version
    return f"etcd {etcd_version[1].decode()} and Apache ZooKeeper {zookeeper_version[1].decode()}"
