"""R14: one command decommissions a node, and continues where it was interrupted."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kraftlog import Client
from kraftlog.cli.balance import moved_away
from tests.cli.shell import Shell
from tests.client.waiting import until
from tests.server.local_cluster import LocalCluster
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from pathlib import Path

    from kraftlog.client.nodes import Quorum

LEAVING = 3
STOP = "stop node 3 now; waiting until it is fenced\n"


def test_r14_a_node_leaves_the_voters_then_its_partitions_then_the_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command is interrupted while it waits for the node to stop; a second run continues there.

    A partition that is created on the node during that wait is moved once the node has stopped.
    """
    cluster = LocalCluster(tmp_path)
    try:
        shell = Shell(cluster.servers, capsys, monkeypatch, tmp_path)
        shell.run("topics --create --topic demo --partitions 3 --replication-factor 2")
        shell.feed(b"1\n2\n3\n4\n", "produce --topic demo")
        until(lambda: [each.id for each in quorum(cluster).voters], [1, 2, 3])
        plan = shell.json(f"decommission {LEAVING} --dry-run")
        assert (plan["removeVoter"], plan["unregister"]) == (True, True)
        assert {tuple(sorted(each["replicas"])) for each in plan["move"]} == {(1, 2)}
        assert "would be unregistered" in shell.run(f"decommission {LEAVING} --dry-run")
        assert len(quorum(cluster).voters) == 3

        first = start_decommission(cluster)
        assert first.stderr is not None
        lines = read_until(first, "stop node 3 now")
        assert lines[0] == "removing node 3 from the voters\n"
        assert any("to be moved from node 3" in line for line in lines)
        assert [each.id for each in quorum(cluster).voters] == [1, 2]
        first.send_signal(signal.SIGINT)
        assert first.wait(LIMIT_S) == 130
        first.stderr.close()

        second = start_decommission(cluster)
        assert second.stderr is not None
        assert read_until(second, "stop node 3 now") == [STOP]
        shell.run("topics --create --topic late --replica-assignment 3:1")
        cluster.kill(LEAVING, signal.SIGTERM)
        lines = list(second.stderr)
        assert any("1 partitions to be moved" in line for line in lines)
        assert lines[-2:] == ["unregistering broker 3\n", "unregistered controller 3\n"]
        assert second.wait(LIMIT_S) == 0
        second.stderr.close()
        assert shell.run(f"decommission {LEAVING}") == (
            "node 3 is neither a voter nor a registered broker\n"
        )
        with Client(cluster.servers) as client:
            brokers = client.describe_cluster(fenced=True).brokers
            assert [each.id for each in brokers] == [1, 2]
            assert sorted(client.describe_topic("late").partitions[0].replicas) == [1, 2]
            with client.consume("demo", "beginning", until_end=True) as records:
                assert sorted(each.value or b"" for each in records) == [b"1", b"2", b"3", b"4"]
    finally:
        cluster.end()


def test_r14_only_the_partitions_of_the_node_move() -> None:
    before = {("a", 0): (1, 3), ("a", 1): (1, 2), ("a", 2): (3, 4)}
    racks = {1: "x", 2: "y", 4: "y"}
    assert moved_away(before, racks, 3) == {("a", 0): (1, 2), ("a", 2): (1, 4)}
    with pytest.raises(ValueError, match="2 replicas need 2 other brokers; there are 1"):
        moved_away(before, {1: None}, 3)


def quorum(cluster: LocalCluster) -> Quorum:
    with Client(cluster.servers) as client:
        return client.describe_quorum()


def start_decommission(cluster: LocalCluster) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "kraftlog", "decommission", str(LEAVING), "-b"]
    return subprocess.Popen([*command, cluster.servers], stderr=subprocess.PIPE, text=True)


def read_until(process: subprocess.Popen[str], text: str) -> list[str]:
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if text in line:
            return lines
    raise AssertionError(lines)
