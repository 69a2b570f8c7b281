"""Dry runs of voter changes report why the leader would refuse; timeouts report their cause."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from kraftlog import Admin, Client
from kraftlog.client.admin import Listener
from kraftlog.errors import ClientError, ConfigError, ErrorCode, RefusedError, UnreachableError
from kraftlog.server.files import OsFiles
from kraftlog.storage.meta_properties import load
from tests.cli.shell import Shell
from tests.client.waiting import until
from tests.ports import free_ports
from tests.server.quorum_of_processes import BROKER, CONTROLLERS, Quorum

if TYPE_CHECKING:
    from pathlib import Path

FIRST, SECOND, THIRD = CONTROLLERS
#: A controller that is not a voter.
NEW = 11
#: The timeout of calls that are expected to time out.
SHORT_S = 1.5
#: With this setting, a leader whose followers are paused stays the leader for a whole test.
LONG_LEADERSHIP = "controller.quorum.fetch.timeout.ms=60000\n"


def directory_id(quorum: Quorum, node_id: int) -> bytes:
    return load(OsFiles(), quorum.data(node_id)).directory_id


def listener(quorum: Quorum, node_id: int) -> Listener:
    return Listener("CONTROLLER", "127.0.0.1", quorum.ports[node_id])


def ready_observers(admin: Admin) -> list[int]:
    """The ids of the observers that the leader would add as voters."""
    return [
        each.id
        for each in admin.describe_quorum().observers
        if each.last_caught_up_ms is not None and not each.lag_reason
    ]


@pytest.mark.long
def test_r4_a_dry_run_of_add_controller_reports_a_refusal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A voter or a controller that does not run would be refused; one that has caught up, added."""
    quorum = Quorum(tmp_path, dynamic=True)
    try:
        quorum.start(FIRST, SECOND, BROKER)
        shell = Shell(quorum.address, capsys, monkeypatch, tmp_path)
        with Admin(quorum.address) as admin, Admin(quorum.address, timeout_s=SHORT_S) as impatient:
            until(lambda: SECOND in ready_observers(admin), True)
            dry_run = "quorum add-controller --dry-run --command-config"
            assert "it is a voter already" in shell.fails(f"{dry_run} {quorum.file(FIRST)}")
            error = shell.fails(f"{dry_run} {quorum.file(THIRD)}")
            assert "controller 3 cannot be added: it is not fetching from leader 1: start" in error
            shown = shell.run(f"{dry_run} {quorum.file(SECOND)}")
            assert "would be added to voters 1: CONTROLLER://127.0.0.1:" in shown
            assert "; it fetches and lags by " in shown
            assert shell.json(f"{dry_run} {quorum.file(SECOND)}")["voters"] == [FIRST]
            check_dry_runs(quorum, admin)
            check_causes_of_timeouts(quorum, impatient)
            assert [each.id for each in admin.describe_quorum().voters] == [FIRST]
            quorum.kill(FIRST)
            check_reports_without_a_leader(quorum)
    finally:
        quorum.end()


def check_dry_runs(quorum: Quorum, admin: Admin) -> None:
    """Admin returns plans as typed values, and raises for changes that would be refused."""
    directory = directory_id(quorum, SECOND)
    plan = admin.add_voter(SECOND, directory, [listener(quorum, SECOND)], dry_run=True)
    assert (plan.voter, plan.directory_id, plan.voters) == (SECOND, directory, (FIRST,))
    assert plan.lag >= 0
    with pytest.raises(ConfigError, match=r"it fetches with directory \S+, not AAAAAAAAAAAAAAAAAA"):
        admin.add_voter(SECOND, bytes(15) + b"\1", [listener(quorum, SECOND)], dry_run=True)
    with pytest.raises(ConfigError, match=r"a voter has this id with directory \S+: remove that"):
        admin.add_voter(FIRST, directory, [listener(quorum, FIRST)], dry_run=True)
    moved = admin.reassign_voters([THIRD, SECOND], dry_run=True)
    assert (moved.voters, moved.to_add, moved.to_remove) == ((FIRST,), (SECOND, THIRD), (FIRST,))
    assert (moved.not_fetching, moved.replaces) == ((THIRD,), None)
    with pytest.raises(ConfigError, match="different node ids, at least one, not 2, 2"):
        admin.reassign_voters([SECOND, SECOND], dry_run=True)
    with pytest.raises(ConfigError, match="no reassignment of the voters is in progress"):
        admin.reassign_voters(None, dry_run=True)
    address = f"127.0.0.1:{quorum.ports[FIRST]}"
    with Admin(address, controllers=True) as controllers:
        same = [listener(quorum, FIRST)]
        updated = controllers.update_voter(FIRST, same, dry_run=True)
        assert updated == directory_id(quorum, FIRST)
        with pytest.raises(ConfigError, match="controller 2 is not a voter"):
            controllers.update_voter(SECOND, same, dry_run=True)


def check_causes_of_timeouts(quorum: Quorum, impatient: Admin) -> None:
    directory = directory_id(quorum, SECOND)
    with pytest.raises(RefusedError, match="it is not fetching from leader 1") as timed_out:
        impatient.add_voter(THIRD, directory_id(quorum, THIRD), [listener(quorum, THIRD)])
    assert timed_out.value.code == ErrorCode.REQUEST_TIMED_OUT
    [port] = free_ports(1)
    closed_port = Listener("CONTROLLER", "127.0.0.1", port)
    with pytest.raises(RefusedError, match=f"got no response from it at 127.0.0.1:{port}: check"):
        impatient.add_voter(SECOND, directory, [closed_port])


def check_reports_without_a_leader(quorum: Quorum) -> None:
    """A dry run and a request that times out report that there is no leader."""
    directory, endpoint = directory_id(quorum, SECOND), listener(quorum, SECOND)
    no_leader = "the quorum has no leader that responds, so a majority of the voters may be down"
    with (
        Admin(quorum.address, timeout_s=SHORT_S) as impatient,
        pytest.raises(UnreachableError) as dry,
    ):
        impatient.add_voter(SECOND, directory, [endpoint], dry_run=True)
    assert f"controller 2 cannot be added: {no_leader}" in str(dry.value)
    with (
        Client(quorum.address, timeout_s=SHORT_S) as client,
        pytest.raises(RefusedError) as timed_out,
    ):
        client.add_voter(SECOND, directory, [(endpoint.name, endpoint.host, endpoint.port)])
    assert no_leader in str(timed_out.value)
    killed = f"127.0.0.1:{quorum.ports[FIRST]}"
    with Admin(killed) as lost, pytest.raises(UnreachableError, match="no broker responds"):
        lost.add_voter(SECOND, directory, [endpoint])


@pytest.mark.long
def test_r13_an_uncommitted_voter_change_is_described_and_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of three voters are paused, so the leader cannot commit the removal of one of them."""
    quorum = Quorum(tmp_path, LONG_LEADERSHIP, dynamic=True, all_vote=True)
    try:
        quorum.start(*CONTROLLERS, BROKER)
        quorum.add(NEW)
        shell = Shell(quorum.address, capsys, monkeypatch, tmp_path)
        with Admin(quorum.address) as admin, Admin(quorum.address, timeout_s=SHORT_S) as impatient:
            until(lambda: NEW in ready_observers(admin), True)
            leader = admin.describe_quorum().leader_id
            paused = [each for each in CONTROLLERS if each != leader]
            for each in paused:
                os.kill(quorum.nodes[each].process.pid, signal.SIGSTOP)
            with pytest.raises(ClientError):
                impatient.remove_voter(paused[0])
            described = shell.json("quorum describe --status")
            change = described["UncommittedVoterChange"]
            assert change["committedVoters"] == [*CONTROLLERS]
            assert change["offset"] >= described["HighWatermark"]
            reason = f"the voter change at offset {change['offset']} is not committed yet"
            dry_run = f"quorum add-controller --dry-run --command-config {quorum.file(NEW)}"
            assert reason in shell.fails(dry_run)
            with pytest.raises(RefusedError, match=reason) as timed_out:
                impatient.add_voter(NEW, directory_id(quorum, NEW), [listener(quorum, NEW)])
            assert timed_out.value.code == ErrorCode.REQUEST_TIMED_OUT
            for each in paused:
                os.kill(quorum.nodes[each].process.pid, signal.SIGCONT)
            until(lambda: "UncommittedVoterChange" in shell.json("quorum describe --status"), False)
            assert "would be added" in shell.run(dry_run)
    finally:
        quorum.end()
