"""Load on a cluster whose voters change, with nodes that are killed at each step."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from kraftlog import Client
from kraftlog.errors import ErrorCode, RefusedError
from kraftlog.types import METADATA_TOPIC
from kraftlog.wire.messages.metadata_records import ConfigRecord, TopicRecord
from kraftlog.wire.record_frames import decode_metadata
from tests.server.clients import TOPIC
from tests.server.node_process import WITHOUT_RETENTION
from tests.server.replication_load import (
    PARTITIONS,
    Writer,
    expect_acknowledged,
    until,
    write_with_confluent,
)
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.server.node_process import NodeProcess

MODULE = "tests.server.with_kills_at_voter_changes"
KEY = "retention.ms"
#: Change n sets the config to this plus n.
FIRST_VALUE = 604_800_000
#: Every fifth change creates a topic, the others change a config.
TOPIC_EVERY = 5
PAUSE_S = 0.01


class Nodes(Protocol):
    """Nodes in processes; `servers` are addresses with which a client always finds a broker."""

    nodes: dict[int, NodeProcess]

    @property
    def servers(self) -> str: ...

    def file(self, node_id: int) -> str: ...


class MetadataWriter:
    """A thread that changes a config and creates topics, one change after the other."""

    def __init__(self, servers: str) -> None:
        #: Acknowledged changes: numbers of the config, and names of topics.
        self.numbers: list[int] = []
        self.topics: list[str] = []
        self.failures: list[BaseException] = []
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(servers,))
        self._thread.start()

    def _run(self, servers: str) -> None:
        number = 0
        try:
            with Client(servers, timeout_s=LIMIT_S) as client:
                while not self._is_stopping.wait(PAUSE_S):
                    number += 1
                    if number % TOPIC_EVERY:
                        client.alter_configs("topics", TOPIC, {KEY: FIRST_VALUE + number})
                        self.numbers.append(number)
                    else:
                        create_once(client, f"made-{number}")
                        self.topics.append(f"made-{number}")
        except BaseException as error:
            self.failures.append(error)

    @property
    def count(self) -> int:
        return len(self.numbers) + len(self.topics)

    def await_more(self, count: int = 5) -> None:
        wanted = self.count + count
        until(lambda: self.count >= wanted or self.failures, "acknowledged changes")
        assert self.failures == []

    def stop(self) -> None:
        self._is_stopping.set()
        self._thread.join(LIMIT_S)
        assert not self._thread.is_alive()


def create_once(client: Client, name: str) -> None:
    try:
        client.create_topic(name, 1)
    except RefusedError as error:
        # The client retried, because the first response was lost with the leader.
        if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise


def expect_changes(servers: str, writer: MetadataWriter) -> None:
    """Check that the log has all acknowledged changes: each topic once, the numbers in order."""
    topics: list[str] = []
    numbers: list[int] = []
    with (
        Client(servers, timeout_s=LIMIT_S) as client,
        client.consume(METADATA_TOPIC, "beginning", until_end=True) as records,
    ):
        for each in records:
            record = decode_metadata(each.value)[0] if each.value else None
            if isinstance(record, TopicRecord) and record.name.startswith("made-"):
                topics.append(record.name)
            elif isinstance(record, ConfigRecord) and record.name == KEY:
                numbers.append(int(record.value or 0) - FIRST_VALUE)
    assert len(set(topics)) == len(topics), "a topic was created twice"
    assert set(writer.topics) <= set(topics)
    assert numbers == sorted(numbers), "a change was repeated after a later one"
    assert set(writer.numbers) <= set(numbers)
    with Client(servers, timeout_s=LIMIT_S) as client:
        found = {each.name: each.value for each in client.describe_configs("topics", TOPIC)}
        assert int(found[KEY] or 0) - FIRST_VALUE == numbers[-1]
        assert {topic.name for topic in client.topics()} >= set(topics)


class Load:
    """A metadata writer, and a producer with acks=all."""

    def __init__(self, servers: str) -> None:
        self.producer = Writer(write_with_confluent(servers))
        self.metadata = MetadataWriter(servers)

    def await_more(self) -> None:
        """Wait for more acknowledged records and more acknowledged changes."""
        self.producer.await_more(5)
        self.metadata.await_more()

    def stop(self) -> None:
        self.producer.stop()
        self.metadata.stop()

    def expect_all(self, nodes: Nodes) -> None:
        """Check that all acknowledged changes and records exist, and that no client failed."""
        self.stop()
        assert self.producer.failures == []
        assert self.metadata.failures == []
        expect_acknowledged(nodes, self.producer)
        expect_changes(nodes.servers, self.metadata)


@contextmanager
def load_on(nodes: Nodes, replication_factor: int = 1) -> Iterator[Load]:
    with Client(nodes.servers, timeout_s=LIMIT_S) as client:
        client.create_topic(TOPIC, PARTITIONS, replication_factor)
    load = Load(nodes.servers)
    try:
        load.await_more()
        yield load
    finally:
        load.stop()


class Kills:
    """A context in which leaders kill themselves at steps of voter changes, and are restarted."""

    def __init__(self, folder: Path, nodes: Nodes) -> None:
        """`folder` is the one that the nodes' environment names."""
        self.failures: list[str] = []
        self._folder = folder
        self._nodes = nodes
        self._restarts = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Kills:
        self._folder.mkdir()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        done = len([*self._folder.parent.glob("done-*")])
        # Without the folder no leader kills itself.
        self._folder = self._folder.rename(self._folder.with_name(f"done-{done}"))
        self._is_over.set()
        self._thread.join(LIMIT_S)
        assert not self._thread.is_alive()
        assert self.failures == [], self.failures

    @property
    def names(self) -> list[str]:
        """The voters, the targets and the point at each kill."""
        return sorted([each.name for each in self._folder.iterdir()])

    @property
    def steps(self) -> int:
        return len({name.rpartition(" ")[0] for name in self.names})

    def _run(self) -> None:
        while not self.failures and not (self._is_over.wait(0.01) and self._has_restarted_all()):
            for node_id, node in [*self._nodes.nodes.items()]:
                code = node.process.poll()
                if code == -signal.SIGKILL:
                    node.wait()
                    restart(self._nodes, node_id)
                    self._restarts += 1
                elif code is not None:
                    self.failures.append(f"node {node_id} ended with {code}: {node.output()}")

    def _has_restarted_all(self) -> bool:
        return self._restarts >= len(self.names)


def restart(nodes: Nodes, node_id: int) -> None:
    """Start a node again without waiting for it, as it may be killed before it is ready."""
    node = nodes.nodes[node_id]
    command = [sys.executable, "-m", MODULE, "start", "--override", WITHOUT_RETENTION]
    with open(node.errors, "ab") as file:
        node.process = subprocess.Popen(
            [*command, nodes.file(node_id)], stdout=subprocess.DEVNULL, stderr=file
        )
