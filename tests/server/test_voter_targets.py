"""`kraftlog quorum reassign`: the quorum moves to other voters while the cluster is at work."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from kraftlog import Client
from kraftlog.errors import ErrorCode, RefusedError
from tests.cli.shell import Shell
from tests.client.waiting import until
from tests.patience import LIMIT_S
from tests.server.quorum_of_processes import BROKER, CONTROLLERS, Quorum

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

NEW = (11, 12, 13)


def test_r2_r12_the_quorum_moves_to_new_nodes_while_topics_are_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every acknowledged topic is there at the end, when none of the old voters is left."""
    quorum = Quorum(tmp_path, dynamic=True, all_vote=True)
    made: list[str] = []
    is_over = threading.Event()

    def make_topics() -> None:
        with Client(quorum.address, timeout_s=LIMIT_S) as client:
            while not is_over.is_set():
                try:
                    client.create_topic(f"t{len(made)}", 1)
                except RefusedError as error:
                    # Repeated, as the first leader's response was lost.
                    if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                        raise
                made.append(f"t{len(made)}")

    try:
        quorum.start(*CONTROLLERS, BROKER)
        shell = Shell(quorum.address, capsys, monkeypatch, tmp_path)
        quorum.add(*NEW)

        def fetching() -> list[int]:
            rows = shell.json("quorum describe --replication")
            return sorted([row["node"] for row in rows if row["node"] in NEW])

        until(fetching, list(NEW))
        to = ",".join(map(str, NEW))
        assert "to remove:  1, 2, 3\n" in shell.run(f"quorum reassign --to {to} --dry-run")
        writer = threading.Thread(target=make_topics)
        writer.start()
        try:
            shell.run(f"quorum reassign --to {to}")
            assert "to be 11, 12, 13" in shell.stderr
            assert shell.stderr.endswith("voters 11, 12, 13\n")
            before = len(made)
            for node_id in CONTROLLERS:
                quorum.kill(node_id)
            until(lambda: len(made) > before + 3, True)
        finally:
            is_over.set()
            writer.join(LIMIT_S)
        status = shell.json("quorum describe --status")
        assert sorted([each["id"] for each in status["CurrentVoters"]]) == list(NEW)
        assert all(each["endpoints"] for each in status["CurrentVoters"])
        with Client(quorum.address) as client:
            assert {topic.name for topic in client.topics()} >= set(made)
    finally:
        quorum.end()


def test_r2_a_move_of_voters_is_shown_replaced_and_cancelled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A target that no node fetches under is waited for; another target replaces it."""
    quorum = Quorum(tmp_path, dynamic=True, all_vote=True)
    try:
        quorum.start(*CONTROLLERS, BROKER)
        shell = Shell(quorum.address, capsys, monkeypatch, tmp_path)
        assert "not fetching yet" in shell.run("quorum reassign --to 1,2,99 --dry-run")
        assert "NO_REASSIGNMENT_IN_PROGRESS" in shell.fails("quorum reassign --cancel")
        shell.run("quorum reassign --to 1,2,99 --no-wait")
        until(lambda: shell.json("quorum describe --status").get("WaitsFor"), [99])
        with Client(quorum.address) as client:
            ongoing = client.reassignments()["__cluster_metadata", 0]
            assert (ongoing.adding, ongoing.removing) == ((99,), (3,))
        assert "being reassigned" in shell.fails(
            "quorum remove-controller -i 3 -d AwMDAwMDAwMDAwMDAwMDAw"
        )
        shell.run("quorum reassign --to 1,2")
        assert shell.stderr.endswith("voters 1, 2\n")
        shell.run("quorum reassign --to 1,2,98 --no-wait")
        assert "the move to 1, 2, 98 was cancelled" in shell.run("quorum reassign --cancel")
        status = shell.json("quorum describe --status")
        assert sorted([each["id"] for each in status["CurrentVoters"]]) == [1, 2]
        assert "TargetVoters" not in status
    finally:
        quorum.end()
