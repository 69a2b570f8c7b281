"""R2: the reassignment tools, Kafka's and ours, move the metadata partition as any other.

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
from tests.patience import LIMIT_S
from tests.server.quorum_of_processes import BROKER, CONTROLLERS, Quorum

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.interop.driver import Driver

NAME = f"{METADATA_TOPIC}-0"
#: Nodes that are controllers and brokers; `BROKER` is a broker alone, so it never becomes a voter.
COMBINED = (11, 12)
COMBINED_FILE = """\
process.roles=broker,controller
node.id={node_id}
listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:{port}
controller.listener.names=CONTROLLER
{known}
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


def plan(folder: Path, *targets: int, topics: Sequence[str] = (METADATA_TOPIC,)) -> str:
    """The path of a file with these targets."""
    file = folder / "plan.json"
    parts = [{"topic": topic, "partition": 0, "replicas": targets} for topic in topics]
    file.write_text(json.dumps({"version": 1, "partitions": parts}))
    return str(file)


def voters(client: Client) -> tuple[int, ...]:
    """The ids of the voters; () while the quorum has target voters."""
    found = client.describe_quorum()
    return tuple(sorted([each.id for each in found.voters])) if found.targets is None else ()


def test_r2_kafkas_tool_moves_the_metadata_partition(
    quorum: Quorum, jvm: Driver, tmp_path: Path
) -> None:
    """Reassignments of it are executed, verified, listed and cancelled."""

    def run(*words: str) -> str:
        address = ("--bootstrap-server", quorum.address)
        return jvm.tool(CLASSES["kafka-reassign-partitions"], *address, *words).ok().stdout

    def reassign(action: str, *targets: int) -> str:
        return run(f"--{action}", "--reassignment-json-file", plan(tmp_path, *targets))

    with Client(quorum.address, timeout_s=LIMIT_S) as client:
        shown = reassign("execute", *COMBINED)
        assert '"replicas":[1,2,3]' in shown  # the current ones, for a rollback
        assert f"Successfully started partition reassignment for {NAME}" in shown
        until(lambda: voters(client), COMBINED)
        assert f"Reassignment of partition {NAME} is completed." in reassign("verify", *COMBINED)
        reassign("execute", *COMBINED, BROKER)
        until(lambda: client.describe_quorum().waits_for, (BROKER,))
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
    """It takes controllers that are no brokers, in any order."""
    shell = Shell(quorum.address, capsys, monkeypatch, tmp_path)

    def line(action: str, *targets: int, topics: Sequence[str] = (METADATA_TOPIC,)) -> str:
        file = plan(tmp_path, *targets, topics=topics)
        return f"reassign --{action} --reassignment-json-file {file}"

    with Client(quorum.address, timeout_s=LIMIT_S) as client:
        shown = shell.run(line("execute", 12, 1, 11), "--wait")
        assert f"Successfully started partition reassignment for {NAME}" in shown
        assert voters(client) == (1, *COMBINED)
        assert f"{NAME} is completed" in shell.run(line("verify", 12, 1, 11))
        shown = shell.run(line("verify", *COMBINED), code=1)
        assert f"{NAME} is not completed: the replicas are 1,11,12" in shown
        refused = shell.fails(line("execute", 1), "--disallow-replication-factor-change")
        assert "The number of voters would change" in refused
        assert "node 99 is neither a voter nor an observer" in shell.fails(line("execute", 99))
        both = line("execute", BROKER, topics=(METADATA_TOPIC, "other"))
        assert "put it into a file of its own" in shell.fails(both)
        more = (1, *COMBINED, BROKER)
        shell.run(line("execute", *more))
        until(lambda: client.describe_quorum().waits_for, (BROKER,))
        listed = shell.run("reassign --list")
        assert f"{NAME}: replicas: 1,{BROKER},11,12. adding: {BROKER}." in listed
        assert "still in progress" in shell.run(line("verify", *more), code=1)
        cancelled = shell.run(line("cancel", *more))
        assert f"cancelled partition reassignment for {NAME}" in cancelled
        assert "No partition reassignments found" in shell.run("reassign --list")
        assert voters(client) == (1, *COMBINED)
