"""Runs the commands of README.md and docs/operate/cluster.md, and compares their output.

Ports and directories differ; commands that install, or run for minutes, are not run.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kraftlog.cli import local_cluster
from kraftlog.cli.start import options_of
from tests.house_rules import ROOT, repository
from tests.ports import free_ports
from tests.server.node_process import NodeProcess, read_line
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.interop.driver import Driver

FENCE = re.compile(r"^```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
#: The address in README's first example, and the prefix of the ports on the page of the cluster.
ADDRESS, PORT_PREFIX = "127.0.0.1:9092", "1909"
KINDS = ("console", "sh", "python")
#: The page with the commands for several nodes.
CLUSTER = "docs/operate/cluster.md"
#: Commands that are not run here, by their prefix, and the reason.
NOT_RUN = {
    "python3 -m venv": "kraftlog is installed already",
    "pip install ./simulator": "so is its simulator",
    "kraftlog start": "started here on a free port, in a directory of its own",
}
TOOLS = {
    "kafka-topics.sh": "TopicCommand",
    "kafka-consumer-groups.sh": "consumer.group.ConsumerGroupCommand",
    "kafka-console-consumer.sh": "consumer.ConsoleConsumer",
}


def page_text(page: str = "README.md") -> str:
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        return file.read()


def fences(section: str, kind: str, page: str = "README.md") -> list[str]:
    """The fenced texts of a kind under a heading."""
    under = page_text(page).split(f"\n## {section}\n", 1)[1].split("\n## ", 1)[0]
    return [fence["text"] for fence in FENCE.finditer(under) if fence["kind"] == kind]


def commands(text: str) -> list[tuple[str, list[str]]]:
    """The command after each `$`, without its comment, and its output."""
    parsed: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            parsed.append((line[2:].partition("  #")[0].strip(), []))
        else:
            parsed[-1][1].append(line)
    return parsed


def is_skipped(command: str) -> bool:
    return any(command.startswith(beginning) for beginning in NOT_RUN)


def environment() -> dict[str, str]:
    """The environment, with kraftlog's command and this Python first on the PATH."""
    path = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
    return {**os.environ, "PATH": path}


def run(command: str, folder: Path) -> list[str]:
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment(),
        timeout=LIMIT_S,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stdout.splitlines()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    """A node started by `kraftlog start`, without topics."""
    process = NodeProcess(str(tmp_path / "data"), errors=str(tmp_path / "errors.txt"), topics={})
    yield process
    assert process.stop() == 0, "SIGTERM stops it cleanly, as README says"


def test_commands_of_one_minute_print_what_the_page_shows(
    node: NodeProcess, tmp_path: Path, kcat: str, jvm: Driver
) -> None:
    """The clients in the order of the page: each sees the results of the previous ones."""
    assert kcat

    def tool(command: str) -> list[str]:
        name, *arguments = shlex.split(command)
        done = jvm.tool(f"org.apache.kafka.tools.{TOOLS[name]}", *arguments).ok()
        return done.stdout.splitlines()

    def run_all(text: str) -> int:
        """Run the commands of a fence and compare their output; return how many were run."""
        typed = [
            (command, output)
            for command, output in commands(text.replace(ADDRESS, node.address))
            if not is_skipped(command)
        ]
        for command, output in typed:
            is_tool = command.split()[0] in TOOLS
            assert (tool(command) if is_tool else run(command, tmp_path)) == output, command
        return len(typed)

    start, by_kcat, by_tools = fences("One minute", "console")
    (python,) = fences("One minute", "python")
    assert run_all(start) == 0
    assert run_all(by_kcat) == 2
    (tmp_path / "first.py").write_text(python.replace(ADDRESS, node.address))
    assert run("python first.py", tmp_path) == ["hello", "from Python"]
    assert run_all(by_tools) == 3


class Terminal:
    """One shell for a sequence of commands."""

    def __init__(self, folder: Path) -> None:
        self._shell = subprocess.Popen(
            ["bash", "-e"],
            bufsize=0,
            cwd=folder,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def type(self, text: str) -> None:
        assert self._shell.stdin is not None
        self._shell.stdin.write(f"{text}\n".encode())

    def line(self) -> str:
        assert self._shell.stdout is not None
        return read_line(self._shell.stdout)

    def finish(self) -> str:
        """Close the input; return the unread output."""
        output, _ = self._shell.communicate(timeout=LIMIT_S)
        assert self._shell.returncode == 0
        return str(output.decode())

    def kill(self) -> None:
        """Kill it with all its child processes."""
        if self._shell.poll() is None:
            self.type("kill -9 $(jobs -p); exit 1")
            self._shell.communicate(timeout=LIMIT_S)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    opened = Terminal(tmp_path)
    yield opened
    opened.kill()


def test_commands_for_three_controllers_print_what_the_page_shows(
    terminal: Terminal, kcat: str
) -> None:
    assert kcat
    prefix = str(free_ports(4)[0])[:-1]
    begin, end = fences("Three controllers and a broker", "sh", CLUSTER)
    terminal.type(begin.replace(PORT_PREFIX, prefix))
    lines = [terminal.line() for _ in range(8)]
    assert [line.split()[0] for line in lines[:4]] == ["Formatting"] * 4
    assert sorted(lines[4:]) == [f"kraftlog ready on 127.0.0.1:{prefix}{n}" for n in (1, 2, 3, 4)]
    (use,) = fences("Three controllers and a broker", "console", CLUSTER)
    for command, output in commands(use.replace(PORT_PREFIX, prefix)):
        terminal.type(command)
        assert [terminal.line() for _ in output] == output
    terminal.type(end)
    assert terminal.finish() == ""


def test_kraftlog_start_nodes_prints_the_table_that_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the table: tests/server/test_cluster_start.py starts such a cluster."""
    monkeypatch.chdir(tmp_path)
    [(command, shown)] = commands(fences("One command", "console", CLUSTER)[0])
    nodes = local_cluster.plan(options_of(shlex.split(command)[2:])).nodes
    assert local_cluster.table(nodes, [4711, 4712, 4713]).splitlines() == shown


def test_commands_of_watch_a_quorum_write_the_page(tmp_path: Path) -> None:
    (text,) = fences("Watch a quorum", "console")
    for command, _ in commands(text):
        assert is_skipped(command) or run(command, tmp_path)
    assert (tmp_path / "run.html").stat().st_size > 10_000


def test_every_other_command_of_the_page_is_a_make_target() -> None:
    """A new command in README.md must be run by a test of this file, or be a make target."""
    with open(os.path.join(ROOT, "Makefile"), encoding="utf-8") as file:
        targets = re.findall(r"^([a-z]+):", file.read(), re.MULTILINE)
    run_sections = ("One minute", "Watch a quorum")
    typed = [text for section in run_sections for kind in KINDS for text in fences(section, kind)]
    others = [text for _, text in FENCE.findall(page_text()) if text not in typed]
    for command, _ in [pair for text in others for pair in commands(text)]:
        make, target = command.split()[:2]
        assert make == "make", f"{command}: tests/test_readme.py does not run this"
        assert target in targets, command


def test_the_map_links_every_page_of_the_docs() -> None:
    assert "(docs/README.md)" in page_text()
    pages = [path.removeprefix("docs/") for path in repository() if re.match(r"docs/.*\.md$", path)]
    # The list of decisions links each of them.
    pages = [page for page in pages if page != "README.md" and "decisions/0" not in page]
    assert [page for page in pages if f"({page})" not in page_text("docs/README.md")] == []
