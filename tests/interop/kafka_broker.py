"""A Kafka broker in its own process."""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kraftlog.cli import main
from kraftlog.client.deadline import Deadline
from tests.interop.cache import read
from tests.interop.kafka_jars import kafka_libs
from tests.patience import LIMIT_S
from tests.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator

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
_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


@contextmanager
def start_kafka(properties: str, folder: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a node on formatted directories and wait until it is ready; kill it at the end."""
    logging = f"{folder}/log4j2.properties"
    with open(logging, "w", encoding="utf-8") as file:
        file.write(_LOGGING)
    logging = f"-Dlog4j2.configurationFile={logging}"
    jars = os.path.join(kafka_libs(), "*")
    words = f"{folder}/output.txt"
    with open(words, "wb") as output:  # a full pipe would block it
        broker = subprocess.Popen(
            ["java", *_OPTIONS, logging, "-cp", jars, "kafka.Kafka", properties],
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        _wait_until_ready(broker, words)
        yield broker
    finally:
        broker.kill()
        broker.wait()


#: One broker that is its own controller, quick to start and small. Retention would first run after
#: 30 s, and tests write records with times of long ago; that of groups would after ten minutes, and
#: tests list groups twice.
_STANDALONE = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{quorum}
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:{quorum}
log.dirs={folder}/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=2
transaction.state.log.replication.factor=1
transaction.state.log.num.partitions=2
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
log.cleaner.dedupe.buffer.size=4194304
offsets.retention.check.interval.ms=86400000
log.initial.task.delay.ms=86400000
"""


@contextmanager
def standalone_kafka(folder: str) -> Iterator[str]:
    """A cluster of one broker, formatted by kraftlog; yields its address."""
    client, quorum = free_ports(2)
    path = f"{folder}/server.properties"
    with open(path, "w", encoding="utf-8") as file:
        file.write(_STANDALONE.format(client=client, quorum=quorum, folder=folder))
    assert main(["format", "-c", path, "--standalone"]) == 0
    with start_kafka(path, folder):
        yield f"127.0.0.1:{client}"


def _wait_until_ready(broker: subprocess.Popen[bytes], words: str) -> None:
    deadline = Deadline(LIMIT_S)
    while b"Kafka Server started" not in (output := read(words)):
        assert broker.poll() is None, output.decode()
        assert not deadline.is_over, output.decode()
        deadline.pause(0.02)
