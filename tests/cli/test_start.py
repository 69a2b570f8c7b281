"""`kraftlog start`: options, files, and the start of a node."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kraftlog.cli import main
from kraftlog.cli.start import options_of, read_settings
from kraftlog.server.files import OsFiles
from kraftlog.storage.format import foreign_names
from tests.ports import free_ports
from tests.server.node_process import NodeProcess, read_line
from tests.server.quorum_of_processes import BROKER, Quorum, format_node
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("words", "node_id", "directory"),
    [
        ([], 1, "data"),
        (["--node-id", "3", "--data", "d"], 3, "d"),
        (["--override", "node.id=4", "--override", "log.dir=e"], 4, "e"),
        (["--override", "log.dirs=f"], 1, "f"),
        (["--node-id", "3", "--data", "d", "--override", "log.dir=e"], 3, "d"),
    ],
)
def test_start_without_a_file_is_a_single_node_cluster(
    words: list[str], node_id: int, directory: str
) -> None:
    """Overrides set the node id and the directory as options do; options take precedence."""
    settings, warnings = read_settings(options_of(words))
    assert (settings.node_id, settings.data_directories) == (node_id, [directory])
    assert [voter.id for voter in settings.voters] == [node_id]
    assert warnings == []


def test_start_without_a_file_formats_only_an_empty_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise `--data /` would become a data directory."""
    (tmp_path / "thesis.txt").write_text("")
    assert main(["start", "--data", str(tmp_path), "--port", "0"]) == 1
    assert capsys.readouterr().err == (
        f"kraftlog: {tmp_path} has no meta.properties, but thesis.txt and perhaps other files: "
        "give a new or an empty directory with --data\n"
    )
    assert os.listdir(tmp_path) == ["thesis.txt"]


def test_what_a_crash_leaves_of_a_format_is_formatted_again(tmp_path: Path) -> None:
    files, path = OsFiles(), str(tmp_path / "data")
    assert foreign_names(files, path) == []
    for name in ("bootstrap.checkpoint", "__cluster_metadata-0", "lost+found"):
        (tmp_path / "data" / name).mkdir(parents=True)
    assert foreign_names(files, path) == []
    (tmp_path / "data" / "__cluster_metadata-0" / f"{0:020d}-{0:010d}.checkpoint").touch()
    assert foreign_names(files, path) == []
    (tmp_path / "data" / "__cluster_metadata-0" / f"{0:020d}.log").touch()
    assert foreign_names(files, path) == ["__cluster_metadata-0"]


@pytest.mark.parametrize(
    ("roles", "words", "listeners"),
    [
        ("broker,controller", [], "CONTROLLER://c:1,PLAINTEXT://p:2"),
        ("broker,controller", ["--port", "0"], "CONTROLLER://c:1,PLAINTEXT://p:0"),
        (
            "broker,controller",
            ["--port", "9", "--host", "::1"],
            "CONTROLLER://c:1,PLAINTEXT://[::1]:9",
        ),
        ("controller", ["--host", "h"], "CONTROLLER://h:1"),
    ],
)
def test_options_override_the_listener_of_the_file(
    tmp_path: Path, roles: str, words: list[str], listeners: str
) -> None:
    """They set host and port of the first client listener, or of a controller's only one."""
    listed = ["CONTROLLER://c:1", "PLAINTEXT://p:2"][: len(roles.split(","))]
    file = tmp_path / "server.properties"
    file.write_text(
        f"process.roles={roles}\nnode.id=1\nlisteners={','.join(listed)}\nlog.dirs=/d\n"
        "controller.listener.names=CONTROLLER\ncontroller.quorum.voters=1@c:1\n"
    )
    settings, _ = read_settings(options_of([str(file), *words]))
    assert ",".join(map(str, settings.listeners)) == listeners


def test_a_log_line_is_written_in_one_call(tmp_path: Path) -> None:
    """Otherwise the lines of nodes that share a terminal could mix."""
    reader, writer = os.pipe2(os.O_DIRECT)  # each read returns the bytes of one write
    node = subprocess.Popen(
        [sys.executable, "-m", "kraftlog", "start", "--data", str(tmp_path), "--port", "0"],
        stdout=writer,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    os.close(writer)
    try:
        assert re.fullmatch(rb"kraftlog ready on 127\.0\.0\.1:\d+\n", os.read(reader, 4096))
    finally:
        node.kill()
        node.wait()
        os.close(reader)


def test_unsupported_protection_prevents_the_start(tmp_path: Path) -> None:
    """Nothing is created, and one line names the key."""
    data = tmp_path / "data"
    command = [sys.executable, "-m", "kraftlog", "start", "--data", str(data), "--port", "0"]
    protection = ["--override", "authorizer.class.name=org.example.Guard"]
    ended = subprocess.run([*command, *protection], check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, data.exists()) == (1, "", False)
    assert ended.stderr.splitlines()[-1].startswith(
        "kraftlog: authorizer.class.name=org.example.Guard: expected org.apache.kafka."
    )


def test_a_short_fetch_timeout_prevents_the_start(tmp_path: Path) -> None:
    """Nothing is created, and one line names the key, its value and the smallest valid value."""
    data, key = tmp_path / "data", "controller.quorum.fetch.timeout.ms"
    for nodes in ([], ["--nodes", "3"]):
        command = [sys.executable, "-m", "kraftlog", "start", "--data", str(data), "--port", "0"]
        command += [*nodes, "--override", f"{key}=100"]
        ended = subprocess.run(command, check=False, capture_output=True, text=True)
        assert (ended.returncode, ended.stdout, data.exists()) == (1, "", False)
        [line] = ended.stderr.splitlines()
        assert line.startswith(f"kraftlog: {key}=100: expected at least 750")


def test_a_node_runs_with_closed_output(tmp_path: Path) -> None:
    """Here its standard error is closed, so a warning about an unknown key cannot be written."""
    start = [sys.executable, "-m", "kraftlog", "start", "--data", str(tmp_path), "--port", "0"]
    words = [*start, "--override", "strange.key=1"]
    node = subprocess.Popen(["bash", "-c", 'exec "$@" 2>&-', "-", *words], stdout=subprocess.PIPE)
    assert node.stdout
    try:
        assert node.stdout.readline().startswith(b"kraftlog ready on ")
        node.terminate()
        assert node.wait(LIMIT_S) == 0
    finally:
        node.kill()
        node.communicate()


def test_the_ready_line_has_the_first_client_listener(tmp_path: Path) -> None:
    first, second, controllers = free_ports(3)
    listeners = [
        f"CONTROLLER://127.0.0.1:{controllers}",
        f"PLAINTEXT://127.0.0.1:{first}",
        f"INSIDE://127.0.0.1:{second}",
    ]
    file = tmp_path / "server.properties"
    file.write_text(
        "process.roles=broker,controller\n"
        "node.id=1\n"
        f"listeners={','.join(listeners)}\n"
        "listener.security.protocol.map=INSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
        "controller.listener.names=CONTROLLER\n"
        f"controller.quorum.voters=1@127.0.0.1:{controllers}\n"
        f"log.dirs={tmp_path / 'data'}\n"
    )
    format_node(str(file))
    node = NodeProcess(None, str(file), errors=str(tmp_path / "errors.txt"), topics={})
    try:
        assert node.address == f"127.0.0.1:{first}"
    finally:
        assert node.stop() == 0


def test_a_broker_without_controllers_logs_why_it_is_not_ready(tmp_path: Path) -> None:
    quorum = Quorum(tmp_path)
    node = subprocess.Popen(
        [sys.executable, "-m", "kraftlog", "start", quorum.file(BROKER)],
        bufsize=0,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert node.stderr
    try:
        lines = sorted([read_line(node.stderr), read_line(node.stderr)])
        assert lines[0] == "not ready yet: the broker is starting"
        assert "needs 2 of the voters 1, 2, 3; this node sees 0 of them" in lines[1]
        node.terminate()
        assert node.wait(LIMIT_S) == 0
    finally:
        node.kill()
        node.communicate()
