"""R2: the reassignment tools, Kafka's and ours, move the metadata partition like any other.

Its replicas are the voters. Kafka's tool accepts only ids of brokers, so the new voters are brokers
too.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kraftlog import Client
from kraftlog.types import METADATA_TOPIC
from tests.cli.shell import Shell
from tests.client.waiting import until
from tests.interop.tool_session import CLASSES
from tests.server.quorum_of_processes import BROKER, CONTROLLERS, Quorum
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.interop.driver import Driver

NAME = f"{METADATA_TOPIC}-0"
#: Nodes that are controllers and brokers; `BROKER` is only a broker, so it never becomes a voter.
COMBINED = (11, 12)
COMBINED_FILE = """\
process.roles=broker,controller
node.id={node_id}
listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:{port}
controller.listener.names=CONTROLLER
{quorum}
log.dirs={data}
"""


@pytest.fixture
def quorum(tmp_path: Path) -> Iterator[Quorum]:
    """Three voters, a broker, and two observers that are controllers and brokers."""
    quorum = Quorum(tmp_path, dynamic=True, all_vote=True)
    try:
        quorum.start(*CONTROLLERS, BROKER)
        quorum.add(*COMBINED, template=COMBINED_FILE)
        with Client(quorum.address, timeout_s=LIMIT_S) as client:
            brokers = [BROKER, *COMBINED]
            until(lambda: [each.id for each in client.describe_cluster().brokers], brokers)
        yield quorum
    finally:
        quorum.end()


def write_plan(folder: Path, *targets: int, topics: Sequence[str] = (METADATA_TOPIC,)) -> str:
    """Write a reassignment of partition 0 of each topic to these targets; return the path."""
    file = folder / "plan.json"
    parts = [{"topic": topic, "partition": 0, "replicas": targets} for topic in topics]
    file.write_text(json.dumps({"version": 1, "partitions": parts}))
    return str(file)


def voters(client: Client) -> tuple[int, ...]:
    """The ids of the voters; () while the quorum has target voters."""
    quorum = client.describe_quorum()
    return tuple(sorted([each.id for each in quorum.voters])) if quorum.targets is None else ()


def test_r2_kafkas_tool_moves_the_metadata_partition(
    quorum: Quorum, jvm: Driver, tmp_path: Path
) -> None:
    """The tool executes, verifies, lists and cancels reassignments."""

    def run(*words: str) -> str:
        address = ("--bootstrap-server", quorum.address)
        return jvm.tool(CLASSES["kafka-reassign-partitions"], *address, *words).ok().stdout

    def reassign(action: str, *targets: int) -> str:
        return run(f"--{action}", "--reassignment-json-file", write_plan(tmp_path, *targets))

    with Client(quorum.address, timeout_s=LIMIT_S) as client:
        shown = reassign("execute", *COMBINED)
        assert '"replicas":[1,2,3]' in shown  # the current ones, for a rollback
        assert f"Successfully started partition reassignment for {NAME}" in shown
        until(lambda: voters(client), COMBINED)
        assert f"Reassignment of partition {NAME} is completed." in reassign("verify", *COMBINED)
        reassign("execute", *COMBINED, BROKER)
        until(lambda: client.describe_quorum().awaited_targets, (BROKER,))
        assert f"{NAME}: replicas: {BROKER},11,12. adding: {BROKER}." in run("--list")
        assert f"{NAME} is still in progress" in reassign("verify", *COMBINED, BROKER)
        cancelled = reassign("cancel", *COMBINED, BROKER)
        assert f"Successfully cancelled partition reassignment for: {NAME}" in cancelled
        assert "No partition reassignments found." in run("--list")
        assert voters(client) == COMBINED


def test_r2_our_tool_moves_the_metadata_partition(
    quorum: Quorum,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Our tool also accepts controllers that are not brokers, and the ids in any order."""
    shell = Shell(quorum.address, capsys, monkeypatch, tmp_path)

    def command(action: str, *targets: int, topics: Sequence[str] = (METADATA_TOPIC,)) -> str:
        file = write_plan(tmp_path, *targets, topics=topics)
        return f"reassign --{action} --reassignment-json-file {file}"

    with Client(quorum.address, timeout_s=LIMIT_S) as client:
        shown = shell.run(command("execute", 12, 1, 11), "--wait")
        assert f"Successfully started partition reassignment for {NAME}" in shown
        assert voters(client) == (1, *COMBINED)
        assert f"{NAME} is completed" in shell.run(command("verify", 12, 1, 11))
        shown = shell.run(command("verify", *COMBINED), code=1)
        assert f"{NAME} is not completed: the replicas are 1,11,12" in shown
        refused = shell.fails(command("execute", 1), "--disallow-replication-factor-change")
        assert "The number of voters would change" in refused
        assert "node 99 is neither a voter nor an observer" in shell.fails(command("execute", 99))
        two_topics = command("execute", BROKER, topics=(METADATA_TOPIC, "other"))
        assert "put it into a file of its own" in shell.fails(two_topics)
        with_broker = (1, *COMBINED, BROKER)
        shell.run(command("execute", *with_broker))
        until(lambda: client.describe_quorum().awaited_targets, (BROKER,))
        listed = shell.run("reassign --list")
        assert f"{NAME}: replicas: 1,{BROKER},11,12. adding: {BROKER}." in listed
        assert "still in progress" in shell.run(command("verify", *with_broker), code=1)
        cancelled = shell.run(command("cancel", *with_broker))
        assert f"cancelled partition reassignment for {NAME}" in cancelled
        assert "No partition reassignments found" in shell.run("reassign --list")
        assert voters(client) == (1, *COMBINED)
