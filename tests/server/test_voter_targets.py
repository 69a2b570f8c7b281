"""`kraftlog quorum reassign`: the quorum moves to other voters while the cluster is at work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraftlog import Client
from tests.cli.shell import Shell
from tests.client.waiting import until
from tests.server.quorum_of_processes import BROKER, CONTROLLERS, Quorum

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


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
