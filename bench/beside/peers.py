"""Starts and stops Apache Kafka, kraftlog and the bare server as processes on loopback ports."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from tests.interop.kafka_jars import kafka_libs
from tests.ports import free_ports

from bench.beside.frame_client import LOOPBACK, wait_until_ready
from bench.beside.programs import program
from bench.beside.rows import BARE, KAFKA, KRAFTLOG

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

STOP_WITHIN_S = 60
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
#: The options of bin/kafka-server-start.sh and bin/kafka-run-class.sh.
JVM = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
HEAP = ("-Xmx1G", "-Xms1G")
#: For four JVMs on one machine.
SMALL_HEAP = ("-Xmx512m", "-Xms512m")
LOGGING = """\
appender.out.type=Console
appender.out.name=out
appender.out.target=SYSTEM_ERR
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=[%d] %p %m (%c)%n
rootLogger.level=WARN
rootLogger.appenderRef.out.ref=out
"""
#: The sample configuration of Kafka's distribution for a single node.
STANDALONE = """\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{quorum}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{quorum}
controller.listener.names=CONTROLLER
log.dirs={data}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
"""
#: Without the delays by which Kafka batches rebalances and appends to the metadata log.
TUNED = "group.initial.rebalance.delay.ms=0\ncontroller.quorum.append.linger.ms=0\n"


class Peer:
    """A node: its command, and its process while it runs."""

    def __init__(
        self, name: str, command: Sequence[str], port: int, log: str, host: str = LOOPBACK
    ) -> None:
        self.name = name
        self.host = host
        self.command = command
        self.port = port
        self.log = log
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process, f"{self.name} does not run"
        return self.process.pid

    def start(self) -> None:
        env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env
            )

    def stop(self, stop_signal: signal.Signals = signal.SIGTERM) -> None:
        if self.process is None:
            return
        process, self.process = self.process, None
        if process.poll() is not None:
            return
        process.send_signal(stop_signal)
        exit_fd = os.pidfd_open(process.pid)  # Popen.wait() with a timeout sleeps in steps of 50 ms
        try:
            if not select.select([exit_fd], [], [], STOP_WITHIN_S)[0]:
                process.kill()
        finally:
            os.close(exit_fd)
        process.wait()


@contextmanager
def running(*peers: Peer) -> Iterator[tuple[Peer, ...]]:
    """Start the peers and wait until they are ready; stop them at the end."""
    with ExitStack() as stack:
        for peer in peers:
            stack.callback(peer.stop)
            peer.start()
        for peer in peers:
            wait_until_ready(peer.port)
        yield peers


def kraftlog_node(folder: str) -> Peer:
    """A single kraftlog node; its first start formats its directory."""
    [port] = free_ports(1)
    arguments = ["--data", os.path.join(folder, "kraftlog"), "--port", str(port)]
    peer = Peer(KRAFTLOG, [*kraftlog(), "start", *arguments], port, f"{folder}/kraftlog.log")
    with running(peer):
        return peer


def bare_node(folder: str) -> Peer:
    """The bare server, which only receives, writes and responds.

    All its topics are the same one, and creating a topic empties it.
    """
    [port] = free_ports(1)
    command = [program("bare"), str(port), os.path.join(folder, "bare")]
    return Peer(BARE, command, port, f"{folder}/bare.log")


def kafka_node(folder: str, extra: str = "") -> Peer:
    """A single Kafka node; Kafka's tool formats its directory."""
    port, quorum = free_ports(2)
    folder = os.path.join(folder, "tuned" if extra else "kafka")
    os.mkdir(folder)
    file = f"{folder}/server.properties"
    text = STANDALONE.format(port=port, quorum=quorum, data=f"{folder}/data")
    write(file, text + extra)
    format_kafka(file, "--standalone")
    return Peer(KAFKA, java(folder, "kafka.Kafka", file, heap=HEAP), port, f"{folder}/log")


def kraftlog() -> list[str]:
    """The command that is installed with this Python."""
    return [os.path.join(os.path.dirname(sys.executable), "kraftlog")]


def java(
    folder: str,
    main: str,
    *arguments: str,
    heap: Sequence[str] = ("-Xmx512m",),
    libs: str | None = None,
) -> list[str]:
    """The command of a program in Kafka's jars, or in `libs`; it logs to standard error."""
    logging = f"{folder}/log4j2.properties"
    write(logging, LOGGING)
    options = [*JVM, *heap, f"-Dlog4j2.configurationFile={logging}"]
    return ["java", *options, "-cp", os.path.join(libs or kafka_libs(), "*"), main, *arguments]


def format_kafka(file: str, *options: str) -> None:
    arguments = ["format", "-t", CLUSTER_ID, "-c", file, *options]
    folder = os.path.dirname(file)
    done = subprocess.run(
        java(folder, "kafka.tools.StorageTool", *arguments),
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"Kafka can't format {file}: {done.stdout} {done.stderr}")


def write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
