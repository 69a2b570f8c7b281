"""Three controllers and a broker over TCP: killed, paused and restarted."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from kraftlog.client.deadline import Deadline
from tests.client.waiting import until
from tests.server.node_process import read_line
from tests.server.quorum_of_processes import BROKER, CONTROLLERS, Quorum, format_node
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.interop.driver import Driver

#: The class of kafka-metadata-quorum.
TOOL = "org.apache.kafka.tools.MetadataQuorumCommand"


@pytest.fixture
def quorum(tmp_path: Path) -> Iterator[Quorum]:
    quorum = Quorum(tmp_path)
    try:
        quorum.start(*CONTROLLERS, BROKER)
        yield quorum
    finally:
        quorum.end()


def admin_of(quorum: Quorum) -> AdminClient:
    return AdminClient({"bootstrap.servers": quorum.address})


def create(admin: AdminClient, name: str) -> None:
    """Create a topic; raise unless it is acknowledged.

    If the first response is lost with the leader, the retried request finds that the topic exists.
    """
    [future] = admin.create_topics(
        [NewTopic(name, 1, 1)], operation_timeout=LIMIT_S, request_timeout=LIMIT_S
    ).values()
    try:
        future.result(LIMIT_S)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def expect_topics(admin: AdminClient, expected: set[str]) -> None:
    """Wait until the broker has exactly these topics."""
    deadline = Deadline(LIMIT_S)
    while (found := set(admin.list_topics(timeout=LIMIT_S).topics)) != expected:
        assert not deadline.is_over, found ^ expected


def test_no_acknowledged_change_is_lost_when_leaders_are_killed(quorum: Quorum) -> None:
    """Q3, Q21, V14: kill -9 of every controller in turn, the leader among them, under load."""
    admin = admin_of(quorum)
    acknowledged = set()
    for turn, victim in enumerate((*CONTROLLERS, CONTROLLERS[0])):
        for number in range(5):
            name = f"t-{turn}-{number}"
            create(admin, name)
            acknowledged.add(name)
        quorum.kill(victim)
        create(admin, f"after-{turn}")
        acknowledged.add(f"after-{turn}")
        quorum.start(victim)
    expect_topics(admin, acknowledged)


def test_topics_are_created_while_any_controller_is_paused(quorum: Quorum) -> None:
    admin = admin_of(quorum)
    create(admin, "before")
    for paused in CONTROLLERS:
        process = quorum.nodes[paused].process
        process.send_signal(signal.SIGSTOP)
        try:
            create(admin, f"without-{paused}")
        finally:
            process.send_signal(signal.SIGCONT)
    expect_topics(admin, {"before", *[f"without-{i}" for i in CONTROLLERS]})


def test_all_metadata_survives_a_full_restart(quorum: Quorum) -> None:
    admin = admin_of(quorum)
    create(admin, "kept")
    for node_id in (BROKER, *CONTROLLERS):
        assert quorum.nodes.pop(node_id).stop() == 0
    quorum.start(*CONTROLLERS, BROKER)
    expect_topics(admin_of(quorum), {"kept"})


@pytest.mark.long
def test_a_replaced_disk_is_filled_from_a_snapshot_and_the_log(tmp_path: Path) -> None:
    """Q38: FetchSnapshot over TCP, for a voter and for a broker.

    R11: until it has been removed and added again, a controller that lost its directory does not
    vote, and logs why.
    """
    quorum = Quorum(tmp_path, "metadata.log.max.record.bytes.between.snapshots=2000\n")
    try:
        quorum.start(*CONTROLLERS, BROKER)
        admin = admin_of(quorum)
        names = {f"t-{number}" for number in range(40)}
        for name in sorted(names):
            create(admin, name)
        upgrade = ("features", "upgrade", "--feature", "kraft.version=1")
        # The upgrade succeeds once all nodes have reported the versions that they support.
        until(lambda: kraftlog(quorum, CONTROLLERS[0], *upgrade), 0)
        for lost in (CONTROLLERS[0], BROKER):
            quorum.kill(lost)
            shutil.rmtree(quorum.data(lost))
            format_node(quorum.file(lost))
            quorum.start(lost)
        admin = admin_of(quorum)
        expect_topics(admin, names)
        create(admin, "later")
        for node_id in CONTROLLERS[1:]:
            quorum.kill(node_id)
            quorum.start(node_id)
        expect_topics(admin, {*names, "later"})
        folder = f"{quorum.data(CONTROLLERS[0])}/__cluster_metadata-0"
        assert any(name.endswith(".checkpoint") for name in os.listdir(folder))
        log = (tmp_path / f"errors-{CONTROLLERS[0]}.txt").read_text()
        removal = re.search(r"kraftlog (quorum remove-controller -i 1 -d \S+),", log)
        assert removal, log
        kraftlog(quorum, CONTROLLERS[0], *removal[1].split())
        deadline = Deadline(LIMIT_S)
        while kraftlog(quorum, CONTROLLERS[0], "quorum", "add-controller") != 0:
            assert not deadline.is_over, "the controller does not catch up"
        quorum.kill(CONTROLLERS[1])
        create(admin_of(quorum), "last")
    finally:
        quorum.end()


def kraftlog(quorum: Quorum, node_id: int, command: str, *words: str) -> int:
    """Run a command with the properties file of a node; return its exit code."""
    options = ["--bootstrap-server", quorum.address, "--command-config", quorum.file(node_id)]
    line = [sys.executable, "-m", "kraftlog", command, *options, *words]
    return subprocess.run(line, check=False).returncode


def test_a_refused_broker_logs_the_reason(quorum: Quorum, tmp_path: Path) -> None:
    """The refused broker has the node id of another one, which is running."""
    twin = tmp_path / "twin.properties"
    text = (tmp_path / f"{BROKER}.properties").read_text()
    text = re.sub(r"(?m)^listeners=.*", "listeners=PLAINTEXT://127.0.0.1:0", text)
    twin.write_text(re.sub(r"(?m)^log.dirs=.*", f"log.dirs={tmp_path}/twin", text))
    format_node(str(twin))
    command = [sys.executable, "-m", "kraftlog", "start", str(twin)]
    with subprocess.Popen(command, bufsize=0, stderr=subprocess.PIPE) as started:
        assert started.stderr is not None
        try:
            assert "DUPLICATE_BROKER_REGISTRATION" in read_line(started.stderr)
        finally:
            started.terminate()


def test_r12_a_cluster_of_one_controller_grows_to_three(tmp_path: Path, jvm: Driver) -> None:
    """R12, C251: Kafka's own tool adds controllers to a quorum that was formatted for one."""
    quorum = Quorum(tmp_path, dynamic=True)
    try:
        quorum.start(CONTROLLERS[0], BROKER)
        admin = admin_of(quorum)
        create(admin, "before")
        for added in CONTROLLERS[1:]:
            quorum.start(added)
            await_caught_up(jvm, quorum, added)
            jvm.tool(
                TOOL,
                *("--bootstrap-server", quorum.address, "--command-config", quorum.file(added)),
                "add-controller",
            ).ok()
        quorum.kill(CONTROLLERS[0])
        create(admin, "after")
        expect_topics(admin, {"before", "after"})
    finally:
        quorum.end()


def await_caught_up(jvm: Driver, quorum: Quorum, observer: int) -> None:
    """Wait until the leader lists the observer without lag."""
    deadline = Deadline(LIMIT_S)
    while not deadline.is_over:
        words = ("--bootstrap-server", quorum.address, "describe", "--replication")
        rows = [line.split() for line in jvm.tool(TOOL, *words).ok().stdout.splitlines()]
        if any(row and row[0] == str(observer) and row[3] == "0" for row in rows):
            return
    raise AssertionError(f"node {observer} does not catch up")
