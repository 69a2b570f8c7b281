"""Brokers and controllers of Kafka in processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kraftlog.cli import main
from kraftlog.client.deadline import Deadline
from tests.interop.cache import read
from tests.interop.kafka_jars import kafka_libs
from tests.ports import free_ports
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import ExitStack
    from pathlib import Path

_LOGGING = """\
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%m%n
rootLogger.level=WARN
rootLogger.appenderRef.out.ref=out
logger.server.name=kafka.server.KafkaRaftServer
logger.server.level=INFO
"""
#: The option of a JVM that reads tokens or their keys; it connects to no other addresses.
ALLOWED_URLS = "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls="
_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


@contextmanager
def start_kafka(
    properties: str, folder: str, libs: str | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a node on formatted directories and wait until it is ready; kill it at the end.

    `libs` is the folder with the jars of another release.
    """
    logging = f"{folder}/log4j2.properties"
    with open(logging, "w", encoding="utf-8") as file:
        file.write(_LOGGING)
    logging = f"-Dlog4j2.configurationFile={logging}"
    jars = os.path.join(libs or kafka_libs(), "*")
    output_path = f"{folder}/output.txt"
    with open(output_path, "wb") as output:  # a full pipe would block the node
        process = subprocess.Popen(
            ["java", *_OPTIONS, logging, "-cp", jars, "kafka.Kafka", properties],
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        _wait_until_ready(process, output_path)
        yield process
    finally:
        process.kill()
        process.wait()


class KafkaNodes:
    """Nodes of Kafka with the files `folder/{id}.properties`; the end of `closing` kills them."""

    def __init__(self, folder: Path, closing: ExitStack) -> None:
        self._folder, self._closing = folder, closing
        #: The processes that run, by node id.
        self.running: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, *node_ids: int) -> None:
        """Start nodes together: a controller is ready only with a majority."""
        with ThreadPoolExecutor(len(node_ids)) as pool:
            list(pool.map(self._start, node_ids))

    def _start(self, node_id: int) -> None:
        folder = self._folder / f"kafka-{node_id}"
        folder.mkdir(exist_ok=True)
        started = start_kafka(str(self._folder / f"{node_id}.properties"), str(folder))
        self.running[node_id] = self._closing.enter_context(started)

    def stop(self, node_id: int) -> None:
        """Stop a node cleanly, and wait for its end."""
        process = self.running.pop(node_id)
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) in {0, 128 + signal.SIGTERM}

    def kill(self, node_id: int) -> None:
        process = self.running.pop(node_id)
        process.kill()
        process.wait()


#: One small broker that is its own controller and starts quickly. Retention never runs: it would
#: delete the records with old timestamps and the empty groups of the tests.
_STANDALONE = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{client_port},CONTROLLER://127.0.0.1:{controller_port}
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:{controller_port}
log.dirs={folder}/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=2
transaction.state.log.replication.factor=1
transaction.state.log.num.partitions=2
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
group.consumer.assignment.interval.ms=0
log.cleaner.dedupe.buffer.size=4194304
offsets.retention.check.interval.ms=86400000
log.initial.task.delay.ms=86400000
"""


@contextmanager
def standalone_kafka(folder: str) -> Iterator[str]:
    """A cluster of one broker, formatted by kraftlog; yields its address."""
    path, address = standalone_properties(folder)
    assert main(["format", "-c", path, "--standalone"]) == 0
    with start_kafka(path, folder):
        yield address


def standalone_properties(folder: str) -> tuple[str, str]:
    """Write the properties of a node that is its own controller; return their path, its address."""
    client_port, controller_port = free_ports(2)
    path = f"{folder}/server.properties"
    with open(path, "w", encoding="utf-8") as file:
        ports = {"client_port": client_port, "controller_port": controller_port}
        file.write(_STANDALONE.format(folder=folder, **ports))
    return path, f"127.0.0.1:{client_port}"


def _wait_until_ready(process: subprocess.Popen[bytes], output_path: str) -> None:
    deadline = Deadline(LIMIT_S)
    while b"Kafka Server started" not in (output := read(output_path)):
        assert process.poll() is None, output.decode()
        assert not deadline.is_over, output.decode()
        deadline.pause(0.02)
