"""Kafka's documentation for operating KRaft, followed with Kafka's tools and our nodes.

The steps are those of its chapter "KRaft": provisioning nodes, adding and removing controllers,
debugging. Only formatting is ours, `kraftlog storage`, whose flags and files are Kafka's
(`test_format`).
"""

from __future__ import annotations

import glob
import os
import re
import shutil
from typing import TYPE_CHECKING

import pytest

from kraftlog.cli import main
from tests.client.waiting import until
from tests.interop.metadata_shell import metadata_shell
from tests.interop.test_dump_log import dump_output
from tests.interop.tool_session import CLASSES
from tests.server.quorum_of_processes import BROKER, CONTROLLERS, Quorum

if TYPE_CHECKING:
    from pathlib import Path

    from tests.interop.driver import Driver

FIRST, SECOND, _ = CONTROLLERS
#: A small threshold, so that a test sees a snapshot.
SETTINGS = "metadata.log.max.record.bytes.between.snapshots=2000\n"


class Operator:
    """Runs the commands of the documentation."""

    def __init__(self, jvm: Driver, folder: Path) -> None:
        self.jvm = jvm
        self.folder = folder
        self.quorum = Quorum(folder, SETTINGS, dynamic=True, formatted=False)
        self.quorum.arguments = ()  # the directories are formatted by hand

    def tool(self, name: str, *words: str) -> str:
        return self.jvm.tool(CLASSES[name], *words).ok().stdout

    def through_broker(self, name: str, *words: str) -> str:
        return self.tool(name, "--bootstrap-server", self.quorum.address, *words)

    def replicas(self) -> dict[int, tuple[str, str, str]]:
        """Directory id, lag and status by node."""
        shown = self.through_broker("kafka-metadata-quorum", "describe", "--replication")
        rows = [line.split() for line in shown.splitlines()[1:] if line.strip()]
        return {int(row[0]): (row[1], row[3], row[-1]) for row in rows}

    def status_of(self, node_id: int) -> str:
        return self.replicas().get(node_id, ("", "", ""))[2]

    def lag_of(self, node_id: int) -> str:
        return self.replicas().get(node_id, ("", "", ""))[1]


@pytest.mark.long
def test_kafkas_documentation_for_kraft_can_be_followed(
    jvm: Driver, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """C251: provision, upgrade, add and remove a controller, inspect the metadata."""
    operator = Operator(jvm, tmp_path)
    try:
        provision(operator, capsys)
        check_features(operator)
        add_and_remove_a_controller(operator)
        inspect_metadata(operator)
        raise_the_release(operator)
        unregister_a_controller(operator)
    finally:
        operator.quorum.end()


def provision(operator: Operator, capsys: pytest.CaptureFixture[str]) -> None:
    """Format two controllers, only one of them a voter, and a broker; start voter and broker."""
    assert main(["storage", "random-uuid"]) == 0
    cluster_id = capsys.readouterr().out.strip()
    quorum = operator.quorum
    for node_id, flag in ((FIRST, "--standalone"), (SECOND, "--no-initial-controllers")):
        # Kafka's metadata shell knows no later release.
        words = ["--cluster-id", cluster_id, flag, "--config", quorum.file(node_id), "-r", "4.3"]
        assert main(["storage", "format", *words]) == 0
    words = ["--cluster-id", cluster_id, "--config", quorum.file(BROKER), "-r", "4.3"]
    assert main(["storage", "format", *words, "--no-initial-controllers"]) == 0
    quorum.start(FIRST, BROKER)
    status = operator.through_broker("kafka-metadata-quorum", "describe", "--status")
    assert re.search(rf"ClusterId: +{cluster_id}\n", status)
    assert re.search(rf"LeaderId: +{FIRST}\n", status)


def check_features(operator: Operator) -> None:
    """kraft.version is 1 in a quorum formatted as standalone; upgrading to it again is accepted."""
    shown = operator.through_broker("kafka-features", "describe")
    assert re.search(r"Feature: kraft.version.*FinalizedVersionLevel: 1", shown)
    operator.through_broker("kafka-features", "upgrade", "--feature", "kraft.version=1")


def add_and_remove_a_controller(operator: Operator) -> None:
    """The new controller starts, is described until it has no lag, is added, and is removed."""
    quorum = operator.quorum
    quorum.start(SECOND)
    until(lambda: operator.lag_of(SECOND), "0")
    assert operator.status_of(SECOND) == "Observer"
    config = ("--command-config", quorum.file(SECOND))
    operator.tool(
        "kafka-metadata-quorum",
        *config,
        *("--bootstrap-controller", f"127.0.0.1:{quorum.ports[FIRST]}", "add-controller"),
    )
    until(lambda: operator.status_of(SECOND), "Follower")
    directory = operator.replicas()[SECOND][0]
    controller = ("--controller-id", str(SECOND), "--controller-directory-id", directory)
    operator.through_broker("kafka-metadata-quorum", "remove-controller", *controller)
    until(lambda: operator.status_of(SECOND), "Observer")


def inspect_metadata(operator: Operator) -> None:
    """Read the log and a snapshot with the dump tool, and the log with the shell.

    The shell is given no snapshot: it sometimes waits for ever for the records that follow one.
    """
    for number in range(12):
        words = ("--create", "--topic", f"t-{number}", "--partitions", "3")
        operator.through_broker("kafka-topics", *words)
    folder = f"{operator.quorum.data(FIRST)}/__cluster_metadata-0"

    def snapshots() -> list[str]:
        checkpoints = sorted(glob.glob(f"{folder}/*.checkpoint"))
        return [path for path in checkpoints if not os.path.basename(path).startswith("0" * 20)]

    until(lambda: bool(snapshots()), True)
    copied = shutil.copy(snapshots()[-1], str(operator.folder))
    [log] = glob.glob(f"{folder}/*.log")
    output = dump_output(operator.jvm, "--cluster-metadata-decoder", "--files", log)
    assert '"type":"TOPIC_RECORD"' in output
    output = dump_output(operator.jvm, "--cluster-metadata-decoder", "--files", copied)
    assert "KRaftVoters" in output
    assert '"type":"FEATURE_LEVEL_RECORD"' in output

    copied = shutil.copy(log, str(operator.folder))

    def shell(*words: str) -> list[str]:
        return metadata_shell(copied, *words).split()

    until(lambda: "t-0" in shell("ls", "/image/topics/byName"), True)
    until(lambda: {"0", "1", "2"} <= set(shell("ls", "/image/topics/byName/t-0")), True)
    wanted = f"replicas=[{BROKER}]"
    until(lambda: wanted in " ".join(shell("cat", "/image/topics/byName/t-0/0")), True)


def unregister_a_controller(operator: Operator) -> None:
    """A controller that has left the voters is stopped, then its registration is removed."""
    operator.quorum.kill(SECOND)
    words = ("--bootstrap-server", operator.quorum.address, "--id", str(SECOND))
    unregister = (CLASSES["kafka-cluster"], "unregister-controller", *words)
    shown = operator.jvm.tool(*unregister).ok().stdout
    assert shown == f"Controller {SECOND} is no longer registered.\n"
    repeated = operator.jvm.tool(*unregister)
    assert f"Controller ID {SECOND} is not currently registered." in repeated.stderr


def raise_the_release(operator: Operator) -> None:
    """Raise the features to Kafka 4.4, and find that metadata.version cannot be lowered again."""
    operator.through_broker("kafka-features", "upgrade", "--metadata", "4.4")
    shown = operator.through_broker("kafka-features", "describe")
    assert re.search(r"metadata.version.*FinalizedVersionLevel: 4.4-IV2", shown)
    words = ("--bootstrap-server", operator.quorum.address, "downgrade", "--metadata", "4.3")
    refused = operator.jvm.tool(CLASSES["kafka-features"], *words)
    assert refused.exit_code == 1
    assert "Refusing to perform the requested downgrade" in refused.stdout + refused.stderr
