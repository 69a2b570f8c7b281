"""The client with several brokers, restarts, and changes of the voters by `kraftlog quorum`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kraftlog import Client
from kraftlog.errors import UnreachableError, UnsupportedApiError
from tests.cli.shell import Shell
from tests.client.waiting import until
from tests.ports import free_ports
from tests.server.node_process import NodeProcess
from tests.server.quorum_of_processes import BROKER, CONTROLLERS, Quorum, format_node
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTROLLER_FILE = """\
process.roles=controller
node.id=1
listeners=CONTROLLER://127.0.0.1:{quorum}
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:{quorum}
log.dirs={data}
"""
BROKER_FILE = """\
process.roles=broker
node.id={node_id}
listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:{quorum}
log.dirs={data}
"""


@pytest.fixture(scope="module")
def two_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Starts a controller and the brokers 2 and 3; yields the address of 2."""
    folder = tmp_path_factory.mktemp("two")
    quorum, *ports = free_ports(3)
    started: list[NodeProcess] = []
    try:
        for node_id, port in zip((1, 2, 3), (quorum, *ports), strict=True):
            text = CONTROLLER_FILE if node_id == 1 else BROKER_FILE
            file, data = folder / f"{node_id}.properties", folder / f"data-{node_id}"
            file.write_text(text.format(node_id=node_id, port=port, quorum=quorum, data=data))
            format_node(str(file))
            errors = str(folder / f"errors-{node_id}.txt")
            started.append(NodeProcess(None, str(file), errors=errors, topics={}))
        yield started[1].address
    finally:
        for node in started:
            node.kill_if_running()


def test_requests_go_to_the_leader_of_each_partition(two_brokers: str) -> None:
    with Client(two_brokers, timeout_s=LIMIT_S) as client:
        until(lambda: [broker.id for broker in client.describe_cluster().brokers], [2, 3])
        client.create_topic("spread", assignment={0: [2], 1: [3], 2: [2], 3: [3]})
        with client.producer() as producer:
            for n in range(40):
                producer.send("spread", str(n), partition=n % 4)
        ends = {index: end.offset for index, end in client.offsets("spread").items()}
        assert ends == dict.fromkeys(range(4), 10)
        with client.consume("spread", "beginning", group="g", until_end=True) as records:
            assert sorted(int(record.value or b"") for record in records) == list(range(40))
        assert [each.id for each in client.groups()] == ["g"]
        partitions_on = {
            broker: {part.partition_index for topic in each.topics for part in topic.partitions}
            for broker, (each,) in client.log_dirs().items()
        }
        assert partitions_on[2] >= {0, 2}
        assert partitions_on[3] >= {1, 3}
        assert client.delete_records({("spread", n): n for n in range(4)})["spread", 3] == 3
        assert client.describe_configs("brokers", "3")


def test_producing_and_consuming_continue_after_a_restart(tmp_path: Path) -> None:
    """The node is killed by `kill -9` and started again."""
    port = str(free_ports(1)[0])
    data, errors = str(tmp_path / "data"), str(tmp_path / "errors.txt")
    first = NodeProcess(data, "--port", port, errors=errors)
    second = None
    try:
        with Client(first.address, timeout_s=LIMIT_S) as client:
            client.produce("demo", "before")
            with client.consume("demo", "beginning") as records:
                assert next(records).value == b"before"
                first.kill()
                second = NodeProcess(data, "--port", port, errors=errors)
                client.produce("demo", "after")
                assert next(records).value == b"after"
            assert second.stop() == 0
            client.cluster.timeout_s = 0.3
            with pytest.raises(UnreachableError):
                client.produce("demo", "nobody")
    finally:
        first.kill_if_running()
        if second is not None:
            second.kill_if_running()


def test_r12_quorum_command_adds_and_removes_a_voter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command takes the flags of Kafka's tool."""
    quorum = Quorum(tmp_path, dynamic=True)
    try:
        quorum.start(*CONTROLLERS[:2], BROKER)
        shell = Shell(quorum.address, capsys, monkeypatch, tmp_path)
        added = CONTROLLERS[1]

        def lag() -> object:
            rows = shell.json("quorum describe --replication")
            return [row["Lag"] for row in rows if row["NodeId"] == added]

        def voters() -> list[int]:
            return [each["id"] for each in shell.json("quorum describe --status")["CurrentVoters"]]

        until(lag, [0])
        port = re.search(r"127\.0\.0\.1:(\d+)\n", Path(quorum.file(CONTROLLERS[0])).read_text())
        assert port
        with Client(f"127.0.0.1:{port[1]}", controllers=True) as controllers:
            assert controllers.describe_quorum().leader_id == CONTROLLERS[0]
            assert controllers.describe_cluster().controller_id == CONTROLLERS[0]
            with pytest.raises(UnsupportedApiError, match="a controller does not serve topics"):
                controllers.produce("demo", "a")
        words = f"quorum add-controller --command-config {quorum.file(added)}"
        assert "would be added" in shell.run(f"{words} --dry-run")
        assert voters() == [CONTROLLERS[0]]
        assert shell.run(words).startswith(f"controller {added} with directory ")
        until(lambda: sorted(voters()), list(CONTROLLERS[:2]))
        assert shell.json(f"quorum remove-controller -i {added}")["id"] == added
        until(voters, [CONTROLLERS[0]])
    finally:
        quorum.end()
