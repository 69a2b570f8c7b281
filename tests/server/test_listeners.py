"""Metadata has the address of the listener that the client uses, here INSIDE or OUTSIDE."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.ports import free_ports
from tests.server import clients
from tests.server.node_process import NodeProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.interop.driver import Driver

#: As with Docker Compose: the INSIDE address is useless to clients outside. Here its name cannot be
#: resolved, so a client that got this address would fail.
FILE = """\
process.roles=broker,controller
node.id=1
listeners=INSIDE://127.0.0.1:{inside},OUTSIDE://127.0.0.1:{outside},CONTROLLER://127.0.0.1:{quorum}
advertised.listeners=INSIDE://inside.invalid:{inside},OUTSIDE://127.0.0.1:{outside}
inter.broker.listener.name=INSIDE
listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:{quorum}
log.dirs={data}
"""


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[str]:
    """Starts a node; yields the address of its second listener."""
    from kraftlog.cli import main

    inside, outside, quorum = free_ports(3)
    file = tmp_path / "server.properties"
    data = tmp_path / "data"
    file.write_text(FILE.format(inside=inside, outside=outside, quorum=quorum, data=data))
    assert main(["format", "-c", str(file), "--standalone"]) == 0
    node = NodeProcess(None, str(file), errors=str(tmp_path / "errors.txt"))
    try:
        yield f"127.0.0.1:{outside}"
    finally:
        node.kill_if_running()


def test_librdkafka_works_through_the_second_listener(outside: str) -> None:
    clients.produce_all(outside, [b"a", b"b"])
    assert clients.consume(outside, 2) == [b"a", b"b"]
    assert clients.consume_in_group(outside, 2) == [b"a", b"b"]


def test_java_works_through_the_second_listener(outside: str, jvm: Driver) -> None:
    clients.java_produce(jvm, outside, [b"a", b"b"])
    assert clients.java_consume(jvm, outside, 2) == [b"a", b"b"]
    assert clients.java_consume_in_group(jvm, outside, 2) == [b"a", b"b"]
    shown = jvm.tool(
        clients.KAFKA_TOOLS + "ClusterTool", "list-endpoints", "--bootstrap-server", outside
    ).ok()
    assert [line.split()[:3] for line in shown.stdout.splitlines()[1:]] == [
        ["1", "127.0.0.1", outside.rpartition(":")[2]]
    ]
