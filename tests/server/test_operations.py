"""The commands of the pages about operating a cluster print what the pages say.

A comment in a page, such as `<!-- test: stop 3 -->`, names what the operator does to the nodes
between the commands: a method of `OperatedNodes`.

python -m tests.server.test_operations    run the commands and write their output into the pages
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import shutil
import signal
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kraftlog import Client
from kraftlog.cli import main
from kraftlog.client.deadline import Deadline
from kraftlog.errors import ClientError
from tests.client.waiting import until
from tests.ports import free_ports
from tests.server.local_cluster import LocalCluster
from tests.server.node_process import NodeProcess
from tests.server.quorum_of_processes import BROKER_FILE, CONTROLLER_FILE, format_node
from tests.time_limit import LIMIT_S

#: In this order, as each continues with the cluster as the ones before have left it.
PAGES = [
    Path(__file__).parents[2] / "docs" / "operate" / f"{name}.md"
    for name in (
        "operations",
        "changing-voters",
        "lost-disks",
        "replacing-nodes",
        "lost-majority",
    )
]
#: A block of commands, or a comment for this test.
BLOCK = re.compile(
    r"(?<=```console\n)(?P<commands>.*?)(?=```)|<!-- test: (?P<action>.*?) -->", re.DOTALL
)
NODES = [1, 2, 3]
COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
#: Commands whose output may still change: leader, lag, observers, ISRs.
DESCRIBE = (
    "kraftlog quorum describe",
    "kraftlog topics --describe",
    "kraftlog log-dirs",
    "kraftlog cluster list-endpoints",
)
#: Commands on files of this machine, which take no address.
OFFLINE = ("kraftlog format", "kraftlog quorum repair")
#: As the page writes them: the current node's directory and address, and a broker's two disks.
DATA, ADDRESS, DISKS = "/var/lib/kraftlog", "node6:9093", ("/disk1/kraftlog", "/disk2/kraftlog")
ACCEPT_LOSS = re.compile(r"--accept-loss \S+")
#: The timeout of requests that are expected to fail.
SHORT_S = 0.5


def test_commands_print_the_output_that_the_page_shows(tmp_path: Path) -> None:
    """Numbers, ids and addresses are not compared, nor is the padding of columns."""
    texts = [page.read_text() for page in PAGES]
    shown, expected = [
        [comparable(it["commands"] or "") for text in each for it in BLOCK.finditer(text)]
        for each in (with_new_output(texts, tmp_path), texts)
    ]
    assert shown == expected


def with_new_output(texts: list[str], folder: Path) -> list[str]:
    """The pages with the output of a run on a new cluster."""
    with contextlib.ExitStack() as exit_stack:
        nodes = OperatedNodes(folder, exit_stack)

        def run(block: re.Match[str]) -> str:
            if block["action"] is None:
                return run_all(block["commands"], nodes)
            method, *words = block["action"].split()
            getattr(nodes, method)(*[int(word) if word.isdecimal() else word for word in words])
            return block[0]

        return [BLOCK.sub(run, text) for text in texts]


def run_all(block: str, nodes: OperatedNodes) -> str:
    """Run the commands of a block; return the block with their output."""
    text = ""
    for command, expected in COMMAND.findall(block):
        shown = nodes.output(command)
        deadline = Deadline(LIMIT_S)
        while command.startswith(DESCRIBE) and comparable(shown) != comparable(expected):
            if deadline.is_over:
                break
            deadline.pause(0.05)
            shown = nodes.output(command)
        # A command may fail only if the page shows an error.
        assert not shown.startswith("kraftlog ") or expected.startswith("kraftlog "), shown
        text += f"$ {nodes.with_accepted_loss(command)}\n{shown}"
    return text


class OperatedNodes:
    """The nodes of the pages, and the actions of its operator."""

    def __init__(self, folder: Path, exit_stack: contextlib.ExitStack) -> None:
        self._folder, self._exit_stack = folder, exit_stack
        self._cluster = LocalCluster(folder)
        exit_stack.callback(self._cluster.end)
        self._servers = self._cluster.servers
        #: Nodes that were added to the first three.
        self._added: dict[int, NodeProcess] = {}
        self._disks = [folder / "disk1", folder / "disk2"]
        #: The node on whose machine the commands run.
        self._current = NODES[0]
        #: The flag --accept-loss that the last dry run of a repair printed.
        self._accepted = ""
        with self._client() as client:
            until(lambda: sorted(each.id for each in client.describe_quorum().voters), NODES)
            until(lambda: all(any(v.directory_id) for v in client.describe_quorum().voters), True)
            self._cluster_id = client.describe_cluster().id
        (folder / "client.properties").write_text("default.api.timeout.ms=3000\n")

    def _client(self, timeout_s: float = LIMIT_S) -> Client:
        return Client(self._servers, timeout_s=timeout_s)

    def _file(self, node: int) -> str:
        added = str(self._folder / f"{node}.properties")
        return self._cluster.file(node) if node in NODES else added

    def _data(self, node: int) -> str:
        return f"{self._cluster.data}/node-{node}"

    def _address(self, node: int) -> str:
        """The address of a controller's listener."""
        (address,) = re.findall(r"CONTROLLER://(\S+)", Path(self._file(node)).read_text())
        return str(address)

    def output(self, command: str) -> str:
        """The output of a command of the page, with its error if it fails."""
        offline = command.startswith(OFFLINE)
        if ADDRESS in command:
            command = command.replace(ADDRESS, self._address(self._current))
        command = self.with_accepted_loss(command).replace("<ClusterId>", self._cluster_id)
        command = command.replace("server.properties", self._file(self._current))
        command = command.replace("client.properties", f"{self._folder}/client.properties")
        command = command.replace(DATA, self._data(self._current))
        name, *words = shlex.split(command)
        assert name == "kraftlog"
        words += [] if offline else ["--bootstrap-server", self._servers]
        out, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            code = main(words)
        text = "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())
        for accepted in ACCEPT_LOSS.findall(text):
            self._accepted = accepted
        if offline and self._current not in NODES:
            text = text.replace(self._address(self._current), ADDRESS)
        text = text.replace(self._data(self._current), DATA)
        for path, disk in zip(self._disks, DISKS, strict=True):
            text = text.replace(f"{path}  ", f"{disk:{len(str(path))}}  ").replace(str(path), disk)
        return text + errors.getvalue() if code else text

    def with_accepted_loss(self, command: str) -> str:
        """Replace the page's flag --accept-loss with the one that the last dry run printed."""
        return ACCEPT_LOSS.sub(lambda _: self._accepted, command)

    # Actions of an operator -----------------------------------------------------------------------

    def at(self, node: int) -> None:
        """The next commands are run on the machine of this node."""
        self._current = node

    def stop(self, *nodes: int) -> None:
        """Stop nodes cleanly, one after the other."""
        for node in nodes:
            if node in NODES:
                self._cluster.kill(node, signal.SIGTERM)
            else:
                assert self._added.pop(node).stop() == 0

    def stop_during_decommission(self, node: int) -> None:
        """Stop the node before the next command, which would otherwise wait until it is stopped."""
        self.stop(node)

    def start(self, *nodes: int) -> None:
        """Start nodes at the same time, as some become ready only together with others."""
        with ThreadPoolExecutor(len(nodes)) as pool:
            list(pool.map(self._start, nodes))

    def _start(self, node: int) -> None:
        if node in NODES:
            self._cluster.restart(node)
            return
        file = self._file(node)
        started = NodeProcess(None, file, errors=f"{file}.errors", topics={})
        self._exit_stack.callback(started.kill_if_running)
        self._added[node] = started

    def lose(self, *nodes: int) -> None:
        """Kill nodes once all voters have the same log end, and delete the nodes' directories.

        A topic is created and deleted first: then the log has records after the last election,
        as on the page.
        """
        with self._client() as client:
            leader_epoch = -1
            while leader_epoch != client.describe_quorum().leader_epoch:
                leader_epoch = client.describe_quorum().leader_epoch
                client.create_topic("before-the-loss")
                client.delete_topic("before-the-loss")
                until(lambda: len({v.log_end_offset for v in client.describe_quorum().voters}), 1)
        for node in nodes:
            if node in NODES:
                self._cluster.kill(node)
            else:
                self._added.pop(node).kill()
            shutil.rmtree(self._data(node))

    def add_controllers(self, *nodes: int) -> None:
        """Format and start these controllers as the page says, and wait until they fetch."""
        for node, port in zip(nodes, free_ports(len(nodes)), strict=True):
            self._add(node, CONTROLLER_FILE, port, self._data(node))
        with self._client() as client:
            until(
                lambda: {*nodes} <= {each.id for each in client.describe_quorum().observers}, True
            )

    def add_broker(self, node: int) -> None:
        """Start a broker with two log directories."""
        (port,) = free_ports(1)
        self._add(node, BROKER_FILE, port, ",".join(map(str, self._disks)))

    def _add(self, node: int, template: str, port: int, data: str) -> None:
        (quorum,) = re.findall(
            r"(?m)^controller.quorum.bootstrap.servers=.*", Path(self._file(1)).read_text()
        )
        file = self._file(node)
        Path(file).write_text(template.format(node_id=node, port=port, quorum=quorum, data=data))
        format_node(file, "--no-initial-controllers", cluster_id=self._cluster_id)
        self._start(node)

    def fail_disk(self) -> None:
        """Make the broker's second disk fail, and produce records so that the broker notices."""
        disk = self._disks[1]
        disk.rename(f"{disk}.failed")
        disk.write_text("a file instead of a directory")
        with self._client(SHORT_S) as client:
            for partition in (0, 1):
                with contextlib.suppress(ClientError):
                    client.produce("logs", "a record", partition=partition)

    def lose_logs(self, partition: str, *nodes: int) -> None:
        """Write a record to a partition, and delete its folders while its brokers are down."""
        topic, _, number = partition.rpartition("-")
        with self._client() as client:
            client.produce(topic, "a record", partition=int(number))
        self.stop(*nodes)
        folders = (*self._disks, *(Path(self._data(node)) for node in nodes))
        logs = [folder / partition for folder in folders if (folder / partition).is_dir()]
        assert len(logs) == len(nodes)
        for log in logs:
            shutil.rmtree(log)
        self.start(*nodes)

    def replace_disk(self) -> None:
        self._disks[1].unlink()
        self._disks[1].mkdir()


def comparable(block: str) -> list[str]:
    """The lines without the parts that differ between runs, such as ids and the leader."""
    lines = []
    for line in block.splitlines():
        if line.startswith("$ "):
            line = ACCEPT_LOSS.sub("--accept-loss N", line)
        else:
            line = re.sub(r"[\w-]{22}\b", "ID", line)
            line = re.sub(r"-?\d+", "N", line)
            line = re.sub(r"(Follower|Leader)(?=\s*$|  )", "VOTER", line)
            line = re.sub(r"N.N [KMGT]iB", "SIZE", line)
        lines.append(" ".join(line.split()))
    return lines


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        texts = with_new_output([page.read_text() for page in PAGES], Path(folder))
    for page, text in zip(PAGES, texts, strict=True):
        page.write_text(text)
