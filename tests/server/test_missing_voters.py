"""Nodes log why there is no quorum: missing voters, or a wrong cluster id."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kraftlog import Client
from kraftlog.client.deadline import Deadline
from kraftlog.client.no_leader import NoLeaderError
from tests.server.quorum_of_processes import CLUSTER_ID, Quorum, format_node
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from pathlib import Path


def await_line(quorum: Quorum, node_id: int, *words: str, count: int = 1) -> str:
    """Wait until the log of a node has this number of lines with all words; return the last."""
    deadline = Deadline(LIMIT_S)
    while True:
        text = (quorum.folder / f"errors-{node_id}.txt").read_text()
        matching = [line for line in text.splitlines() if all(word in line for word in words)]
        if len(matching) >= count:
            return matching[-1]
        assert not deadline.is_over, text
        deadline.pause(0.1)


@pytest.mark.long
def test_a_lone_controller_names_the_voters_that_it_misses(tmp_path: Path) -> None:
    """The node logs the leader once there is one, and the missing voters again after losing it."""
    quorum = Quorum(tmp_path)
    try:
        quorum.start(1)
        line = await_line(quorum, 1, "this node has known no leader for")
        assert "A leader needs 2 of the voters 1, 2, 3; this node sees 1 of them" in line
        for peer in (2, 3):
            assert f"voter {peer} at 127.0.0.1:{quorum.ports[peer]}: Connection refused" in line
        controller = f"127.0.0.1:{quorum.ports[1]}"
        with (
            Client(controller, timeout_s=1, controllers=True) as client,
            pytest.raises(NoLeaderError) as failed,
        ):
            client.describe_quorum()
        message = str(failed.value)
        assert message.startswith(f"no leader of the quorum is known to {controller}; asked for 1")
        assert f"It knows the controllers 1 at {controller}, 2 at" in message
        quorum.start(2)
        await_line(quorum, 1, "leads in epoch", "without a leader")
        quorum.kill(2)
        line = await_line(quorum, 1, "this node has known no leader for", count=2)
        assert f"voter 2 at 127.0.0.1:{quorum.ports[2]}: Connection refused" in line
    finally:
        quorum.end()


def test_q31_a_controller_of_another_cluster_stops_with_both_ids(tmp_path: Path) -> None:
    quorum = Quorum(tmp_path)
    try:
        quorum.start(1, 2)
        shutil.rmtree(quorum.data(3))
        format_node(quorum.file(3), cluster_id="another")
        command = [sys.executable, "-m", "kraftlog", "start", quorum.file(3)]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=LIMIT_S)
        assert done.returncode == 1
        line = done.stderr.splitlines()[-1]
        assert line.startswith(
            f"kraftlog: this node belongs to cluster another ({quorum.data(3)}/meta.properties), "
            "but the leader "
        )
        # The same message if the leader contacts the node before the node has fetched from it.
        followed = [
            f" at 127.0.0.1:{quorum.ports[leader]} belongs to cluster {CLUSTER_ID}. Either"
            for leader in (1, 2)
        ]
        assert any(text in line for text in followed), line
        assert "correct controller.quorum.voters" in line
    finally:
        quorum.end()
