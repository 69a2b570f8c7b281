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
from tests.ports import free_ports
from tests.server.local_cluster import LocalCluster
from tests.server.node_process import NodeProcess
from tests.server.quorum_of_processes import CONTROLLER_FILE, format_node

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"
BLOCK = re.compile(r"(?<=```console\n)(.*?)(?=```)", re.DOTALL)
#: Node 3 is stopped after this command: the next command waits until it is.
BEFORE_STOP = "kraftlog decommission 3 --dry-run"
#: Controllers 4, 5 and 6 are started before this command.
AFTER_START = "kraftlog quorum reassign --to 4,5,6 --dry-run"
NODES = [1, 2, 3]
NEW = [4, 5, 6]
COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
DESCRIBE = "kraftlog quorum describe"


def test_the_commands_of_the_page_print_what_it_says(tmp_path: Path) -> None:
    """Numbers, ids and addresses are not compared, nor is the padding of columns."""
    text = PAGE.read_text()
    new = with_new_output(text, tmp_path)
    shown, expected = [[comparable(it) for it in BLOCK.findall(page)] for page in (new, text)]
    assert shown == expected


def with_new_output(text: str, folder: Path) -> str:
    """The page with the output of a run on a new cluster."""
    with contextlib.ExitStack() as ends:
        cluster = LocalCluster(folder)
        ends.callback(cluster.end)
        with Client(cluster.servers) as client:
            until(lambda: sorted(each.id for each in client.describe_quorum().voters), NODES)
            until(lambda: all(any(v.directory_id) for v in client.describe_quorum().voters), True)
        return BLOCK.sub(lambda block: run_all(block[1], cluster, ends), text)


def run_all(block: str, cluster: LocalCluster, ends: contextlib.ExitStack) -> str:
    text = ""
    for command, expected in COMMAND.findall(block):
        if command == AFTER_START:
            start_new_controllers(cluster, ends)
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


def start_new_controllers(cluster: LocalCluster, ends: contextlib.ExitStack) -> None:
    """Format and start them as the page says, and wait until they fetch."""
    folder = Path(cluster.data).parent
    (bootstrap,) = re.findall(
        r"(?m)^controller.quorum.bootstrap.servers=.*", Path(cluster.file(1)).read_text()
    )
    with Client(cluster.servers) as client:
        cluster_id = client.describe_cluster().id
        for node_id, port in zip(NEW, free_ports(len(NEW)), strict=True):
            file, data = str(folder / f"{node_id}.properties"), folder / f"data-{node_id}"
            text = CONTROLLER_FILE.format(node_id=node_id, port=port, known=bootstrap, data=data)
            Path(file).write_text(text)
            format_node(file, "--no-initial-controllers", cluster_id=cluster_id)
            node = NodeProcess(None, file, errors=f"{file}.errors", topics={})
            ends.callback(node.make_sure_it_is_gone)
        until(lambda: {*NEW} <= {each.id for each in client.describe_quorum().observers}, True)


def output(command: str, servers: str) -> str:
    name, *words = shlex.split(command)
    assert name == "kraftlog"
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main([*words, "--bootstrap-server", servers]) == 0, command
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def comparable(block: str) -> list[str]:
    """The lines without what differs between runs, such as ids and which voter leads."""
    lines = []
    for line in block.splitlines():
        if not line.startswith("$ "):
            line = re.sub(r"[\w-]{22}\b", "ID", line)
            line = re.sub(r"-?\d+", "N", line)
            line = re.sub(r"(Follower|Leader)\s*$", "VOTER", line)
        lines.append(" ".join(line.split()))
    return lines


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        PAGE.write_text(with_new_output(PAGE.read_text(), Path(folder)))
