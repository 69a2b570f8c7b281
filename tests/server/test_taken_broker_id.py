"""V18: a process resumes after another one has been registered under its broker id, and ended."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING

import pytest

from kraftlog import Client
from tests.server.clients import TOPIC
from tests.server.node_process import NodeProcess
from tests.server.quorum_of_processes import (
    BROKER,
    BROKER_FILE,
    CONTROLLERS,
    Quorum,
    format_node,
)
from tests.server.replication_load import SETTINGS, until
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECOND_BROKER = 5


@pytest.fixture
def quorum(tmp_path: Path) -> Iterator[Quorum]:
    started = Quorum(tmp_path, "\n".join(SETTINGS))
    try:
        started.start(*CONTROLLERS, BROKER)
        started.add(SECOND_BROKER, template=BROKER_FILE)
        yield started
    finally:
        started.end()


def start_twin(quorum: Quorum) -> NodeProcess:
    """Start another process as the second broker, with a directory and a port of its own."""
    with open(quorum.file(SECOND_BROKER)) as file:
        text = file.read()
    text = re.sub(r"(?m)^listeners=.*", "listeners=PLAINTEXT://127.0.0.1:0", text)
    path = quorum.folder / "twin.properties"
    path.write_text(re.sub(r"(?m)^log.dirs=.*", f"log.dirs={quorum.folder}/twin", text))
    format_node(str(path))
    return NodeProcess(None, str(path), errors=str(quorum.folder / "errors-twin.txt"), topics={})


def test_v18_a_broker_whose_id_was_taken_returns_to_the_isr(quorum: Quorum) -> None:
    """It reports its own directories again; it needs no restart."""
    paused = quorum.nodes[SECOND_BROKER].process
    with Client(quorum.address, timeout_s=LIMIT_S) as client:

        def await_isr(*expected: int) -> None:
            until(
                lambda: {*client.describe_topic(TOPIC).partitions[0].isr} == {*expected},
                f"the ISR is not {expected}",
            )

        client.create_topic(TOPIC, assignment={0: [BROKER, SECOND_BROKER]})
        client.produce(TOPIC, b"before")
        await_isr(BROKER, SECOND_BROKER)
        paused.send_signal(signal.SIGSTOP)
        await_isr(BROKER)
        twin = start_twin(quorum)
        try:
            await_isr(BROKER, SECOND_BROKER)
        finally:
            twin.kill()
        await_isr(BROKER)
        client.produce(TOPIC, b"meanwhile")
        paused.send_signal(signal.SIGCONT)
        await_isr(BROKER, SECOND_BROKER)
