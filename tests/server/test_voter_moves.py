"""Voters change under load, while the leader is killed at each step of the change."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from functools import partial
from typing import TYPE_CHECKING

import pytest

from kraftlog import Client
from kraftlog.cli.progress import ChangeProgress
from kraftlog.errors import UnreachableError
from tests.cli.shell import Shell
from tests.client.waiting import until
from tests.server.machines import Machines
from tests.server.quorum_of_processes import BROKER, CONTROLLERS, Quorum
from tests.server.voter_change_load import MODULE, Kills, Nodes, load_on
from tests.server.with_kills_at_voter_changes import AT_ALL_POINTS, FOLDER
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from pathlib import Path

NEW = (11, 12, 13)
#: At the end the test reads the metadata log from its beginning.
WITHOUT_SNAPSHOTS = "metadata.log.max.record.bytes.between.snapshots=1000000000\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that records kills; the nodes find it in their environment."""
    monkeypatch.setenv(FOLDER, str(tmp_path / "kills"))
    return tmp_path / "kills"


def move(nodes: Nodes, folder: Path, *targets: int, shell: Shell) -> Kills:
    """Move the voters by one command while leaders are killed; return the kills."""
    target_ids = ",".join(map(str, targets))
    with Kills(folder, nodes) as kills:
        shell.run(f"quorum reassign --to {target_ids}")
    until(lambda: voters(nodes), sorted(targets))
    return kills


def pause_until_progress_is_shown(
    quorum: Quorum, target: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pause a target, so that the move cannot end before the command has shown its progress."""
    show = ChangeProgress.show
    process = quorum.nodes[target].process
    process.send_signal(signal.SIGSTOP)

    def show_and_continue(progress: ChangeProgress, text: str) -> None:
        show(progress, text)
        process.send_signal(signal.SIGCONT)

    monkeypatch.setattr(ChangeProgress, "show", show_and_continue)


def voters(nodes: Nodes) -> list[int]:
    with Client(nodes.servers, timeout_s=LIMIT_S) as client:
        return sorted([each.id for each in client.describe_quorum().voters])


def observers(nodes: Nodes) -> set[int]:
    with Client(nodes.servers, timeout_s=LIMIT_S) as client:
        return {each.id for each in client.describe_quorum().observers}


def await_all_unfenced(nodes: Nodes) -> None:
    """Wait until every broker responds, and reports all brokers as unfenced.

    A broker that lags may still report the state that a killed broker had before.
    """
    for node in [*nodes.nodes.values()]:
        until(partial(unfenced, node.address), sorted(nodes.nodes))


def unfenced(address: str) -> list[int]:
    """The unfenced brokers as one broker reports them; none if it does not respond."""
    try:
        with Client(address, timeout_s=LIMIT_S) as client:
            return [each.id for each in client.describe_cluster().brokers]
    except UnreachableError:
        return []


def test_r12_no_kill_of_a_leader_disturbs_a_move_to_new_nodes(
    tmp_path: Path,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R2, R3, R5, R6: a leader is killed at each of eight steps; nothing acknowledged is lost."""
    quorum = Quorum(tmp_path, WITHOUT_SNAPSHOTS, dynamic=True, all_vote=True, module=MODULE)
    try:
        quorum.start(*CONTROLLERS, BROKER)
        quorum.add(*NEW)
        shell = Shell(quorum.address, capsys, monkeypatch, tmp_path)
        plan = shell.run("quorum reassign --to 11,12,13 --dry-run")
        assert "to remove:  1, 2, 3\n" in plan
        # The command refuses a target that has never fetched, and a paused node does not fetch.
        until(lambda: {*NEW} <= observers(quorum), True)
        pause_until_progress_is_shown(quorum, NEW[-1], monkeypatch)
        with load_on(quorum) as load:
            kills = move(quorum, folder, *NEW, shell=shell)
            # The target is set, three voters are added, three removed, and the target is cleared.
            assert kills.steps >= 8, kills.names
            assert "target voters 11, 12, 13" in shell.stderr
            assert shell.stderr.endswith("voters 11, 12, 13\n")
            status = shell.json("quorum describe --status")
            assert all(each["endpoints"] for each in status["CurrentVoters"])
            for node_id in CONTROLLERS:
                quorum.kill(node_id)
            load.await_more()
        load.expect_all(quorum)
    finally:
        quorum.end()


@pytest.mark.long
def test_r12_a_quorum_moves_and_returns_with_kills_at_all_points(
    tmp_path: Path,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R2, R3, R5, R6: leaders are killed when a step is appended, when flushed, when committed."""
    monkeypatch.setenv(AT_ALL_POINTS, "1")
    quorum = Quorum(tmp_path, WITHOUT_SNAPSHOTS, dynamic=True, all_vote=True, module=MODULE)
    try:
        quorum.start(*CONTROLLERS, BROKER)
        quorum.add(*NEW)
        shell = Shell(quorum.address, capsys, monkeypatch, tmp_path)
        with load_on(quorum) as load:
            for targets in (NEW, CONTROLLERS):
                kills = move(quorum, folder, *targets, shell=shell)
                assert len(kills.names) >= 2 * 8, kills.names
                load.await_more()
        load.expect_all(quorum)
    finally:
        quorum.end()


@pytest.mark.long
def test_r12_a_quorum_grows_from_one_to_five_and_back(
    tmp_path: Path,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A leader is killed at each step; the metadata can be changed at every size."""
    quorum = Quorum(tmp_path, WITHOUT_SNAPSHOTS, dynamic=True, module=MODULE)
    try:
        quorum.start(*CONTROLLERS, BROKER)
        quorum.add(*NEW)
        shell = Shell(quorum.address, capsys, monkeypatch, tmp_path)
        with load_on(quorum) as load:
            size = 1
            for targets in ((1, 2, 3), (1, 2, 3, 11, 12), (3, 11, 12), (12,)):
                kills = move(quorum, folder, *targets, shell=shell)
                assert kills.steps >= 2 + abs(len(targets) - size), kills.names
                size = len(targets)
                load.await_more()
        load.expect_all(quorum)
    finally:
        quorum.end()


@pytest.mark.long
def test_r2_a_move_is_replaced_and_cancelled_midway_under_load(
    tmp_path: Path,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R4: the move waits midway for a target that does not run."""
    quorum = Quorum(tmp_path, WITHOUT_SNAPSHOTS, dynamic=True, all_vote=True, module=MODULE)
    missing = 99
    try:
        quorum.start(*CONTROLLERS, BROKER)
        quorum.add(*NEW)
        shell = Shell(quorum.address, capsys, monkeypatch, tmp_path)

        def begin(*targets: int) -> set[int]:
            """Begin a move that waits for the missing node; return the voters."""
            to = ",".join(map(str, (*targets, missing)))
            with Kills(folder, quorum) as kills:
                shell.run(f"quorum reassign --to {to} --no-wait")
                until(lambda: shell.json("quorum describe --status").get("WaitsFor"), [missing])
            assert kills.steps >= 5, kills.names
            load.await_more()
            return set(voters(quorum))

        with load_on(quorum) as load:
            midway = begin(11, 12)
            assert {11, 12} < midway < {*CONTROLLERS, 11, 12}
            move(quorum, folder, *CONTROLLERS, shell=shell)
            load.await_more()
            midway = begin(11, 12)
            with Kills(folder, quorum) as kills:
                shell.run("quorum reassign --cancel")
            assert kills.steps == 1, kills.names
            load.await_more()
            assert set(voters(quorum)) == midway
            assert "TargetVoters" not in shell.json("quorum describe --status")
            move(quorum, folder, *NEW, shell=shell)
        load.expect_all(quorum)
    finally:
        quorum.end()


@pytest.mark.long
def test_r12_each_machine_is_replaced_in_turn(
    tmp_path: Path,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R14: nodes are broker and controller; partitions with three replicas move with the voters."""
    machines = Machines(
        tmp_path, *CONTROLLERS, later=NEW, settings=WITHOUT_SNAPSHOTS, module=MODULE
    )
    try:
        with load_on(machines, replication_factor=3) as load:
            for old, new in zip(CONTROLLERS, NEW, strict=True):
                machines.add(new)
                shell = Shell(machines.servers, capsys, monkeypatch, tmp_path)
                targets = [*(each for each in voters(machines) if each != old), new]
                kills = move(machines, folder, *targets, shell=shell)
                assert kills.steps >= 4, kills.names
                await_all_unfenced(machines)
                decommission(machines, old)
                load.await_more()
            assert voters(machines) == [*NEW]
        load.expect_all(machines)
    finally:
        machines.end()


def decommission(machines: Machines, node_id: int) -> None:
    """Decommission a node, and kill it once the command asks to stop it."""
    command = [sys.executable, "-m", "kraftlog", "decommission", str(node_id)]
    others = ",".join([it.address for key, it in machines.nodes.items() if key != node_id])
    with subprocess.Popen(
        [*command, "--bootstrap-server", others], stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        limit = threading.Timer(LIMIT_S, process.kill)
        limit.start()
        shown = []
        for line in process.stderr:
            shown.append(line)
            if line.startswith(f"stop node {node_id} now"):
                machines.kill(node_id)
        limit.cancel()
        assert process.wait(LIMIT_S) == 0, shown
