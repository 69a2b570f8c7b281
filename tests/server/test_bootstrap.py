"""`--bootstrap`: the first leader generates the cluster id (Q29, Q33, R10)."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kraftlog.client.deadline import Deadline
from kraftlog.server.files import OsFiles
from kraftlog.storage.meta_properties import load
from tests.server.quorum_of_processes import BROKER, CLUSTER_ID, CONTROLLERS, Quorum
from tests.server.test_moved_voters import describe_status
from tests.server.test_quorum import admin_of, create, expect_topics
from tests.time_limit import LIMIT_S


def test_q29_every_node_stores_the_cluster_id_of_the_first_leader(tmp_path: Path) -> None:
    quorum = Quorum(tmp_path, formatted=False)
    try:
        quorum.start(*CONTROLLERS, BROKER)
        admin = admin_of(quorum)
        create(admin, "before")
        cluster_id = describe_status(quorum)["ClusterId"]
        assert cluster_id
        deadline = Deadline(LIMIT_S)
        while stored_ids(quorum) != {cluster_id}:
            assert not deadline.is_over, stored_ids(quorum)
        for node_id in (BROKER, *CONTROLLERS):
            assert quorum.nodes.pop(node_id).stop() == 0
        quorum.arguments = ()
        quorum.start(*CONTROLLERS, BROKER)
        expect_topics(admin_of(quorum), {"before"})
        assert stored_ids(quorum) == {cluster_id}
    finally:
        quorum.end()


def stored_ids(quorum: Quorum) -> set[str | None]:
    """The cluster ids in the nodes' directories."""
    return {load(OsFiles(), quorum.data(i)).cluster_id for i in (*CONTROLLERS, BROKER)}


def test_r10_an_unformatted_node_without_bootstrap_does_not_start(
    tmp_path: Path,
) -> None:
    quorum = Quorum(tmp_path, formatted=False)
    command = [sys.executable, "-m", "kraftlog", "start", quorum.file(CONTROLLERS[0])]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    format_command = f"kraftlog format --cluster-id ID --config {command[-1]}, with the same id"
    assert f"is not formatted. Run {format_command}" in done.stderr
    assert "--bootstrap" in done.stderr


@pytest.mark.parametrize("node_id", [CONTROLLERS[0], BROKER])
def test_the_error_names_commands_that_format_the_directory(tmp_path: Path, node_id: int) -> None:
    """Without static voters, a controller's error names two: to start or to join a quorum."""
    quorum = Quorum(tmp_path, dynamic=True, formatted=False)
    start = [sys.executable, "-m", "kraftlog", "start", quorum.file(node_id)]
    done = subprocess.run(start, check=False, capture_output=True, text=True)
    commands = re.findall(r"[Rr]un kraftlog (format [^,]*)", done.stderr)
    assert len(commands) == (2 if node_id in CONTROLLERS else 1)
    for command in commands:
        shutil.rmtree(quorum.data(node_id), ignore_errors=True)
        words = command.replace(" ID ", f" {CLUSTER_ID} ").split()
        subprocess.run([sys.executable, "-m", "kraftlog", *words], check=True)


def test_q33_voters_that_are_named_by_id_alone_find_each_other(tmp_path: Path) -> None:
    """R9, R10: each knows only the first one's address, and listens on a port of its own."""
    quorum = Quorum(tmp_path, formatted=False)
    first = f"127.0.0.1:{quorum.ports[CONTROLLERS[0]]}"
    settings = f"quorum.voters=1, 2, 3\ncontroller.quorum.bootstrap.servers={first}\n"
    for node_id in (*CONTROLLERS, BROKER):
        file = Path(quorum.file(node_id))
        text = re.sub(r"(?m)^controller\.quorum\.voters=.*\n", settings, file.read_text())
        file.write_text(text)
    try:
        quorum.start(*CONTROLLERS, BROKER)
        admin = admin_of(quorum)
        create(admin, "before")
        shown = describe_status(quorum)
        assert [each["id"] for each in shown["CurrentVoters"]] == [*CONTROLLERS]
        quorum.kill(int(shown["LeaderId"]))
        create(admin, "after")
        expect_topics(admin, {"before", "after"})
    finally:
        quorum.end()
