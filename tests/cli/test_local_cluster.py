"""The plan of `kraftlog start --nodes N`, and the files it writes before any node starts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kraftlog.cli.local_cluster import ClusterPlan, plan, prepare, table
from kraftlog.cli.start import options_of
from kraftlog.config.read_config import read_config
from kraftlog.errors import KraftlogError
from kraftlog.server.files import OsFiles
from kraftlog.storage.format import FIRST_SNAPSHOT, METADATA_FOLDER
from kraftlog.storage.meta_properties import load
from kraftlog.wire.messages.control_records import VotersRecord
from tests.cli.test_storage import messages

if TYPE_CHECKING:
    from pathlib import Path

#: Locks a file until standard input ends.
HOLD_LOCK = """
import fcntl, sys
with open(sys.argv[1], "w") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    print("locked", flush=True)
    sys.stdin.read()
"""


def plan_of(folder: Path, nodes: int, *words: str) -> ClusterPlan:
    return plan(options_of(["--nodes", str(nodes), "--data", str(folder / "data"), *words]))


@pytest.mark.parametrize(
    ("nodes", "controllers"), [(1, 1), (2, 1), (3, 3), (4, 3), (5, 5), (6, 5), (7, 5)]
)
def test_controllers_are_an_odd_number(tmp_path: Path, nodes: int, controllers: int) -> None:
    cluster = plan_of(tmp_path, nodes)
    roles = [node.roles for node in cluster.nodes]
    assert roles == ["broker,controller"] * controllers + ["broker"] * (nodes - controllers)


def test_nodes_have_consecutive_ports_and_their_own_directories(tmp_path: Path) -> None:
    cluster = plan_of(tmp_path, 4, "--port", "19092", "--http-port", "8000")
    assert [node.listener for node in cluster.nodes] == [f"127.0.0.1:{19092 + n}" for n in range(4)]
    assert [node.controller for node in cluster.nodes] == [
        *[f"127.0.0.1:{20092 + n}" for n in range(3)],
        "",
    ]
    configs = [read_config(text, {}) for text in cluster.texts]
    assert [warnings for _, warnings in configs] == [[]] * 4
    for number, (config, _) in enumerate(configs, start=1):
        assert config.node_id == number
        assert config.data_directories == [f"{tmp_path}/data/node-{number}"]
        assert config["kraftlog.http.port"] == 7999 + number
        assert config.bootstrap_servers == [("127.0.0.1", 20092 + n) for n in range(3)]


@pytest.mark.parametrize(
    ("nodes", "replicas", "in_sync"), [(1, 1, 1), (2, 2, 1), (3, 3, 2), (5, 3, 2)]
)
def test_replication_defaults_let_one_node_be_down(
    tmp_path: Path, nodes: int, replicas: int, in_sync: int
) -> None:
    for text in plan_of(tmp_path, nodes).texts:
        config, _ = read_config(text, {})
        assert config["default.replication.factor"] == replicas
        assert config["min.insync.replicas"] == in_sync
        assert config.offsets_topic_replication_factor == replicas


def test_an_override_takes_precedence_on_every_node(tmp_path: Path) -> None:
    """It also replaces the defaults of --nodes, and its value may have any characters."""
    pairs = ["min.insync.replicas=7", "broker.rack=a\\b", "controller.quorum.election.timeout.ms=5"]
    cluster = plan_of(tmp_path, 3, *[word for pair in pairs for word in ("--override", pair)])
    for text in cluster.texts:
        config, _ = read_config(text, {})
        assert config["min.insync.replicas"] == 7
        assert config["broker.rack"] == "a\\b"
        assert config.controller_quorum_election_timeout_ms == 5


@pytest.mark.parametrize(
    ("nodes", "words", "message"),
    [
        (3, ["x.properties"], "cannot be combined with a properties file"),
        (3, ["--node-id", "4"], "cannot be combined with --node-id"),
        (3, ["--bootstrap"], "cannot be combined with --bootstrap"),
        (3, ["--override", "log.dirs=/d"], "--nodes sets this for each node"),
        (3, ["--port", "64534"], "1 to 64533"),
        (3, ["--override", "log.retention.ms=x"], "expected a whole number"),
        (3, ["--override", "authorizer.class.name=x"], "kraftlog has no other"),
        (
            3,
            ["--override", "controller.quorum.fetch.timeout.ms=100"],
            "fetch.timeout.ms=100: expected at least 750",
        ),
        (3, ["--host", "0.0.0.0"], "clients cannot connect"),
    ],
)
def test_invalid_options_are_refused_before_anything_is_written(
    tmp_path: Path, nodes: int, words: list[str], message: str
) -> None:
    with pytest.raises(KraftlogError, match=message):
        prepare(plan_of(tmp_path, nodes, *words))
    assert os.listdir(tmp_path) == []


def cluster_ids(cluster: ClusterPlan) -> set[str | None]:
    return {load(OsFiles(), node.directory).cluster_id for node in cluster.nodes}


def test_all_nodes_are_formatted_for_one_cluster(tmp_path: Path) -> None:
    cluster = plan_of(tmp_path, 3)
    assert prepare(cluster) == []
    [cluster_id] = cluster_ids(cluster)
    second = plan_of(tmp_path, 3)
    assert second.nodes == cluster.nodes
    assert second.texts == cluster.texts
    assert prepare(second) == []
    assert cluster_ids(second) == {cluster_id}


def test_free_ports_are_found_once_and_kept(tmp_path: Path) -> None:
    cluster = plan_of(tmp_path, 3, "--port", "0")
    assert len(cluster.port_reservations) == 6
    prepare(cluster)
    for words in ([], ["--port", "0"]):
        assert plan_of(tmp_path, 3, *words).nodes == cluster.nodes
    for sock in cluster.port_reservations:
        sock.close()


def test_another_port_moves_the_brokers_but_no_controllers(tmp_path: Path) -> None:
    """Voters that have all changed their addresses would not find each other."""
    cluster = plan_of(tmp_path, 3, "--port", "19092")
    prepare(cluster)
    moved = plan_of(tmp_path, 3, "--port", "29092")
    assert [node.listener for node in moved.nodes] == [f"127.0.0.1:{29092 + n}" for n in range(3)]
    assert [node.controller for node in moved.nodes] == [node.controller for node in cluster.nodes]


def test_a_cluster_grows_by_brokers_of_the_same_cluster(tmp_path: Path) -> None:
    prepare(plan_of(tmp_path, 3))
    grown = plan_of(tmp_path, 5)
    assert [node.roles for node in grown.nodes][3:] == ["broker", "broker"]
    assert [node.listener for node in grown.nodes][3:] == ["127.0.0.1:9095", "127.0.0.1:9096"]
    assert prepare(grown) == []
    assert len(cluster_ids(grown)) == 1
    with pytest.raises(KraftlogError, match="holds a cluster of 5 nodes"):
        plan_of(tmp_path, 3)


def test_a_lost_directory_is_formatted_with_another_directory_id(tmp_path: Path) -> None:
    """The node must not vote under the directory id that it has lost."""
    cluster = plan_of(tmp_path, 3)
    prepare(cluster)
    lost = cluster.nodes[1].directory
    before = load(OsFiles(), lost)
    shutil.rmtree(lost)
    [note] = prepare(plan_of(tmp_path, 3))
    assert note.startswith(f"node 2: {lost} was empty")
    after = load(OsFiles(), lost)
    assert after.cluster_id == before.cluster_id
    assert after.directory_id != before.directory_id
    snapshot = messages(f"{lost}/{METADATA_FOLDER}/{FIRST_SNAPSHOT}")
    assert not [each for each in snapshot if isinstance(each, VotersRecord)]


def test_a_second_start_changes_no_file_while_a_node_runs(tmp_path: Path) -> None:
    cluster = plan_of(tmp_path, 3)
    prepare(cluster)
    file = tmp_path / "data" / "node-1.properties"
    before = file.read_text()
    # POSIX locks exclude other processes only.
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_LOCK, f"{cluster.nodes[1].directory}/.lock"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"locked\n"
        with pytest.raises(KraftlogError, match="node 2 is running in"):
            prepare(plan_of(tmp_path, 3, "--port", "20001"))
        assert file.read_text() == before
        running.communicate()
    prepare(plan_of(tmp_path, 3, "--port", "20001"))
    assert file.read_text() != before


def test_an_interrupted_format_is_done_again(tmp_path: Path) -> None:
    """The properties file of node 1 is written last, so without it no node has run."""
    cluster = plan_of(tmp_path, 3)
    prepare(cluster)
    os.remove(cluster.nodes[0].file)
    prepare(plan_of(tmp_path, 3))
    assert len(cluster_ids(cluster)) == 1


def test_data_without_a_properties_file_is_left_alone(tmp_path: Path) -> None:
    cluster = plan_of(tmp_path, 3)
    prepare(cluster)
    with open(f"{cluster.nodes[2].directory}/__cluster_metadata-0/{0:020d}.log", "w"):
        pass
    before = cluster_ids(cluster)
    os.remove(cluster.nodes[0].file)
    with pytest.raises(KraftlogError, match="holds the data of a node"):
        prepare(plan_of(tmp_path, 3))
    assert cluster_ids(cluster) == before


def test_the_directory_of_a_single_node_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").touch()
    with pytest.raises(KraftlogError, match="the directory of a single node"):
        plan_of(tmp_path, 3)


def test_a_file_without_listeners_is_refused(tmp_path: Path) -> None:
    prepare(plan_of(tmp_path, 3))
    (tmp_path / "data" / "node-2.properties").write_text("node.id=2\n")
    with pytest.raises(KraftlogError, match=r"node-2\.properties: the listeners cannot be read"):
        plan_of(tmp_path, 3)


def test_the_table_lists_roles_listeners_directories_and_pids(tmp_path: Path) -> None:
    nodes = [node.replace(directory=f"data/node-{node.id}") for node in plan_of(tmp_path, 2).nodes]
    assert table(nodes, [71, 172]).splitlines() == [
        "node  roles              listener        controller       directory    pid",
        "1     broker,controller  127.0.0.1:9092  127.0.0.1:10092  data/node-1  71",
        "2     broker             127.0.0.1:9093  -                data/node-2  172",
        "kraftlog ready on 127.0.0.1:9092,127.0.0.1:9093",
    ]
