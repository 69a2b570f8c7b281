"""The commands of docs/operations.md print what the page says.

python -m tests.server.test_operations    write the output of a run into the page
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import signal
import tempfile
from pathlib import Path

from kraftlog import Client
from kraftlog.cli import main
from kraftlog.client.deadline import Deadline
from tests.client.waiting import until
from tests.patience import LIMIT_S
from tests.server.local_cluster import LocalCluster

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"
BLOCK = re.compile(r"(?<=```console\n)(.*?)(?=```)", re.DOTALL)
#: Node 3 is stopped after this one: the next one waits for that.
BEFORE_STOP = "kraftlog decommission 3 --dry-run"
NODES = [1, 2, 3]
COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
DESCRIBE = "kraftlog quorum describe"


def test_the_commands_of_the_page_print_what_it_says(tmp_path: Path) -> None:
    """Numbers, ids and addresses are not compared, nor how the columns are filled with blanks."""
    text = PAGE.read_text()
    made = renewed(text, tmp_path)
    shown, expected = [[comparable(it) for it in BLOCK.findall(page)] for page in (made, text)]
    assert shown == expected


def renewed(text: str, folder: Path) -> str:
    """The page with the output of a run on a new cluster."""
    cluster = LocalCluster(folder)
    try:
        with Client(cluster.servers) as client:
            until(lambda: sorted(each.id for each in client.describe_quorum().voters), NODES)
            until(lambda: all(any(v.directory_id) for v in client.describe_quorum().voters), True)
        return BLOCK.sub(lambda block: run_all(block[1], cluster), text)
    finally:
        cluster.end()


def run_all(block: str, cluster: LocalCluster) -> str:
    text = ""
    for command, expected in COMMAND.findall(block):
        shown = output(command, cluster.servers)
        deadline = Deadline(LIMIT_S)
        # Leader, lag and observers may still change.
        while command.startswith(DESCRIBE) and comparable(shown) != comparable(expected):
            if deadline.is_over or not expected:
                break
            deadline.pause(0.05)
            shown = output(command, cluster.servers)
        text += f"$ {command}\n{shown}"
        if command == BEFORE_STOP:
            cluster.kill(3, signal.SIGTERM)
    return text


def output(command: str, servers: str) -> str:
    name, *words = shlex.split(command)
    assert name == "kraftlog"
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main([*words, "--bootstrap-server", servers]) == 0, command
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def comparable(block: str) -> list[str]:
    """The lines without what differs from run to run; lists of voters have no order."""
    lines = []
    for line in block.splitlines():
        if not line.startswith("$ "):
            line = re.sub(r"[\w-]{22}\b", "ID", line)
            line = re.sub(r"-?\d+", "N", line)
            line = re.sub(r"(Follower|Leader)\s*$", "VOTER", line)
        lines.append(" ".join(line.split()))
    return lines


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        PAGE.write_text(renewed(PAGE.read_text(), Path(made)))
