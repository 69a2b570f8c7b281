"""`kraftlog quorum repair`: output, refusals and results; what `quorum describe` shows."""

from __future__ import annotations

import json
import subprocess
import sys
from argparse import Namespace
from typing import TYPE_CHECKING

import pytest

from kraftlog.cli import main, quorum_describe
from kraftlog.client.nodes import Quorum, Replica
from kraftlog.raft.messages import ElectionState
from kraftlog.runner.repair import SurvivingDirectory
from kraftlog.server.files import OsFiles
from tests.runner.surviving import write_directory
from tests.runner.test_repair import ME, log_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def data(tmp_path: Path) -> str:
    path = str(tmp_path / "data")
    write_directory(OsFiles(), path, ME, log_of("a", "b"), ElectionState(8, 1), committed=3)
    return path


def test_repair_without_acceptance_prints_the_loss_and_the_command(
    data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["quorum", "repair", "--data", data, "--voters", "3@new.example:9093"]
    assert main(words) == 1
    shown = capsys.readouterr().out
    assert (
        "records that voters 1, 2 committed after the end of this log, offset 4 (epoch 7)" in shown
    )
    assert "1 records from offset 3 on" in shown
    assert "Nothing was changed" in shown
    assert main([*words, "--accept-loss", "4@7", "--dry-run"]) == 0
    assert capsys.readouterr().out == shown
    command = shown.splitlines()[-1].split()
    assert command[:2] == ["kraftlog", "quorum"]
    assert command[-2:] == ["--accept-loss", "4@7"]
    assert main(command[1:]) == 0
    assert "Done: epoch 1008, voters at offset 5; start node 3." in capsys.readouterr().out
    survivor = SurvivingDirectory(OsFiles(), data)
    (voter,) = survivor.state.voters.voters
    survivor.close()
    assert (voter.key, voter.endpoints[0].host, voter.endpoints[0].port) == (
        ME,
        "new.example",
        9093,
    )


def test_repair_prints_json(data: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["quorum", "repair", "--data", data, "--voters", "3@h:9093", "--json"]
    assert main(words) == 1
    plan = json.loads(capsys.readouterr().out)
    assert (plan["node"], plan["voters"], plan["new_voters"]) == (3, [1, 2, 3], [3])
    assert (plan["changed"], plan["log_end"], plan["last_epoch"]) == (False, 4, 7)
    assert "records that voters 1, 2 committed" in plan["may_be_lost"][0]
    assert plan["command"].endswith("--voters 3@h:9093 --accept-loss 4@7")
    assert main([*words, "--accept-loss", "4@7", "--dry-run"]) == 0
    assert json.loads(capsys.readouterr().out) == plan
    assert main([*words, "--accept-loss", "4@7"]) == 0
    done = json.loads(capsys.readouterr().out)
    assert (done["changed"], done["epoch"], done["voters_offset"]) == (True, 1008, 5)


def test_records_are_dropped_only_after_acceptance(
    data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["quorum", "repair", "--data", data, "--voters", "3@h:9093", "--drop-from", "3"]
    assert main([*words, "--accept-loss", "4@7"]) == 1
    assert main(words) == 1
    shown = capsys.readouterr().out
    assert "1 records from offset 3 on, with their changes of topics" in shown
    command = shown.splitlines()[-1].split()
    assert command[-4:] == ["--drop-from", "3", "--accept-loss", "3@7"]
    assert main(command[1:]) == 0
    assert "voters at offset 4; start node 3." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("voters", "more", "expected"),
    [
        ("1@h:9093", ["--accept-loss", "4@7"], "its log would be lost"),
        ("3@h:9093", ["--accept-loss", "3@7"], "--accept-loss must be 4@7, not 3@7"),
        ("3@h:9093,7@i:9093", [], "the new voters 7 need directory ids"),
        ("3@h:9093", ["--drop-from", "4"], "the log has offsets 0 to 3"),
        ("3@h:9093:AAAAAAAAAAAAAAAAAAAAAA", ["--accept-loss", "4"], "4@7, not 4"),
    ],
)
def test_repair_refuses_invalid_options(
    data: str, capsys: pytest.CaptureFixture[str], voters: str, more: list[str], expected: str
) -> None:
    assert main(["quorum", "repair", "--data", data, "--voters", voters, *more]) == 1
    assert expected in capsys.readouterr().err


def test_repair_explains_how_to_start_other_new_voters(
    data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    voters = "3@h:9093, 7@i:9093:BBBBBBBBBBBBBBBBBBBBBB"
    assert main(["quorum", "repair", "--data", data, "--voters", voters]) == 1
    shown = capsys.readouterr().out
    assert "enough of nodes 7 run. Start them with" in shown


def test_a_missing_directory_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["quorum", "repair", "--data", str(tmp_path / "none"), "--voters", "3@h:9093"]
    assert main(words) == 1
    assert "none/meta.properties" in capsys.readouterr().err


def test_a_running_node_cannot_be_repaired(data: str) -> None:
    """Another process has locked the directory."""
    held = OsFiles().lock(f"{data}/.lock")
    words = ["quorum", "repair", "--data", data, "--voters", "3@h:9093", "--accept-loss", "4@7"]
    result = subprocess.run(
        [sys.executable, "-m", "kraftlog", *words], capture_output=True, text=True, check=False
    )
    OsFiles.close(held)
    assert result.returncode == 1
    assert "is in use: stop the node" in result.stderr


def test_help_exits_with_0_and_missing_arguments_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    for words, code in ((["--help"], 0), ([], 2), (["repair"], 2)):
        with pytest.raises(SystemExit) as ended:
            main(["quorum", *words])
        assert ended.value.code == code
    assert "repair" in capsys.readouterr().out


@pytest.mark.parametrize("targets", [None, (1, 4)])
def test_d6_describe_shows_targets_while_the_voters_are_reassigned(
    targets: tuple[int, ...] | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Q34, R4, R13. Without a reassignment the output is that of Kafka's tool."""
    voters = tuple([Replica(i, bytes([i]) * 16, 9, 0, 0, targets is not None) for i in (1, 2)])
    quorum = Quorum(
        leader_id=1,
        leader_epoch=3,
        high_watermark=9,
        voters=voters,
        observers=(),
        listeners=(),
        targets=targets,
        awaited_targets=(4,) if targets else (),
    )
    options = Namespace(json=True, human_readable=False)
    quorum_describe.print_status("id", quorum, options)
    status = json.loads(capsys.readouterr().out)
    assert (status.get("TargetVoters"), status.get("WaitsFor")) == (
        ([1, 4], [4]) if targets else (None, None)
    )
    quorum_describe.print_replication(quorum, options)
    rows = json.loads(capsys.readouterr().out)
    assert [row.get("IsReassignTarget") for row in rows] == (
        ["Yes", "Yes"] if targets else [None, None]
    )


def test_d6_describe_shows_why_replicas_lag(capsys: pytest.CaptureFixture[str]) -> None:
    """It also shows the newest voter change while that is uncommitted."""
    leader = Replica(1, bytes(16), 9, 0, 0)
    lagging = Replica(2, bytes(16), 5, 0, 0, lag_reason="refused", last_error=74)
    quorum = Quorum(
        leader_id=1,
        leader_epoch=3,
        high_watermark=9,
        voters=(leader, lagging),
        observers=(),
        listeners=(),
        committed_voters=(1, 2, 3),
        uncommitted_voters_offset=8,
    )
    options = Namespace(json=True, human_readable=False)
    quorum_describe.print_status("id", quorum, options)
    change = json.loads(capsys.readouterr().out)["UncommittedVoterChange"]
    assert change == {"offset": 8, "committedVoters": [1, 2, 3]}
    quorum_describe.print_replication(quorum, options)
    rows = json.loads(capsys.readouterr().out)
    assert [row["LagReason"] for row in rows] == [None, "refused (FENCED_LEADER_EPOCH)"]


def test_d6_replicas_have_kafkas_columns_and_their_lag_in_time(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """D5, Q34: a timestamp that is not known is shown as none, not as a time."""
    leader = Replica(1, bytes(16), 9, 5000, 5000)
    follower = Replica(2, bytes(16), 9, 4980, 4960)
    never_caught_up = Replica(3, bytes(16), 5, 4990, None)
    never_fetched = Replica(4, bytes(16), -1, None, None)
    quorum = Quorum(
        leader_id=1,
        leader_epoch=3,
        high_watermark=9,
        voters=(leader, follower),
        observers=(never_caught_up, never_fetched),
        listeners=(),
    )
    options = Namespace(json=False, human_readable=False)
    quorum_describe.print_replication(quorum, options)
    heads, *rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    kafkas = "NodeId DirectoryId LogEndOffset Lag LastFetchTimestamp LastCaughtUpTimestamp Status"
    assert [head for head in heads if head != "LagTimeMs"] == kafkas.split()
    lags = [row[heads.index("LagTimeMs")] for row in rows]
    assert lags == ["0", "40", "-", "-"]
    assert [row[5:] for row in rows] == [
        ["5000", "5000", "Leader"],
        ["4980", "4960", "Follower"],
        ["4990", "-", "Observer"],
        ["-", "-", "Observer"],
    ]
    quorum_describe.print_status("id", quorum, options)
    assert "MaxFollowerLagTimeMs:   40\n" in capsys.readouterr().out
    quorum_describe.print_status("id", quorum.replace(voters=(leader, never_fetched)), options)
    assert "MaxFollowerLagTimeMs:   -1\n" in capsys.readouterr().out
