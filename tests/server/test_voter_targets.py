"""`kraftlog quorum reassign` and `add-controller` with real nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kraftlog import Client
from tests.cli.shell import Shell
from tests.client.waiting import until
from tests.server.quorum_of_processes import BROKER, CONTROLLERS, Quorum

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.long
def test_r2_a_move_of_voters_is_shown_replaced_and_cancelled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A move waits for a target that does not run, until another move replaces it."""
    quorum = Quorum(tmp_path, dynamic=True, all_vote=True)
    try:
        quorum.start(*CONTROLLERS, BROKER)
        shell = Shell(quorum.address, capsys, monkeypatch, tmp_path)
        assert "not fetching yet" in shell.run("quorum reassign --to 1,2,99 --dry-run")
        assert "NO_REASSIGNMENT_IN_PROGRESS" in shell.fails("quorum reassign --cancel")
        refused = shell.fails("quorum reassign --to 1,2,98,99")
        assert "neither voter nor observer of the metadata quorum: 98, 99. Nothing was" in refused
        assert "TargetVoters" not in shell.json("quorum describe --status")
        shell.run("quorum reassign --to 1,2,99 --no-wait")
        assert shell.stderr.endswith("the move waits for nodes that do not fetch: 99\n")
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


#: What `kraftlog start --nodes` sets for node 1; shorter than the longest wait of a fetch.
SHORT_ELECTIONS = "controller.quorum.election.timeout.ms=100\n"


def test_r4_r12_idle_observers_become_voters_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader holds their fetches for longer than a catch-up round may take."""
    quorum = Quorum(tmp_path, SHORT_ELECTIONS, dynamic=True)
    others = CONTROLLERS[1:]
    try:
        quorum.start(*CONTROLLERS, BROKER)
        shell = Shell(quorum.address, capsys, monkeypatch, tmp_path)
        with Client(quorum.address) as client:
            until(lambda: lagging_observers(client), dict.fromkeys((*others, BROKER), False))
            for _ in range(3):
                await_fetches(client)
        for added in others:
            shell.run("quorum add-controller", "--command-config", quorum.file(added))
        quorum.add(11)
        shell.run("quorum reassign --to 11")
        assert shell.stderr.endswith("voters 11\n")
    finally:
        quorum.end()


def lagging_observers(client: Client) -> dict[int, bool]:
    """For each observer, whether it lacks committed records."""
    quorum = client.describe_quorum()
    return {it.id: it.log_end_offset < quorum.high_watermark for it in quorum.observers}


def await_fetches(client: Client) -> None:
    """Wait for another fetch of every observer."""
    before = fetch_times(client)
    until(lambda: all(now > before[i] for i, now in fetch_times(client).items()), expected=True)


def fetch_times(client: Client) -> dict[int, int]:
    return {it.id: it.last_fetch_ms or 0 for it in client.describe_quorum().observers}
