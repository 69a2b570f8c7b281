"""Formatting writes the files of `kafka-storage`, and each side reads the other's directories."""

from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING

import pytest

from kraftlog.cli import main
from kraftlog.metadata.releases import FEATURES, METADATA_VERSIONS
from kraftlog.server.files import OsFiles
from kraftlog.storage.meta_properties import load
from kraftlog.wire.messages import control_records as control
from tests.cli.test_storage import FIRST, SECOND, SNAPSHOT, STATIC, messages, properties
from tests.interop.kafka_broker import start_kafka
from tests.interop.test_dump_log import DUMP
from tests.ports import free_ports

if TYPE_CHECKING:
    from pathlib import Path

    from tests.interop.driver import Driver

TOOL = "kafka.tools.StorageTool"
#: Flags that make Kafka's tool omit the initial records that kraftlog does not write.
SAME_RECORDS = ("-f", "share.version=0", "-f", "streams.version=0")
CASES = {
    "standalone": ("", ["--standalone"]),
    "initial controllers": (
        "",
        ["--initial-controllers", f"3@h:9093:{FIRST},4@h2:9094:{SECOND}"],
    ),
    "no initial controllers": ("", ["--no-initial-controllers"]),
    "static voters": (STATIC, []),
    "fewer features": ("", ["-s", "-f", "group.version=0", "-f", "transaction.version=1"]),
    "by release": ("", ["-N", "-r", "4.3"]),
    "by level": ("", ["-s", "-f", "metadata.version=31"]),
    "advertised listeners": (
        (
            "listeners=PLAINTEXT://:9092,CONTROLLER://:9093 ; "
            "advertised.listeners=PLAINTEXT://a:1,CONTROLLER://b:2"
        ),
        ["-s"],
    ),
    "on all addresses": ("listeners=PLAINTEXT://:9092,CONTROLLER://:9093", ["-s"]),
    "on all addresses of IPv4": ("listeners=PLAINTEXT://:9092,CONTROLLER://0.0.0.0:9093", ["-s"]),
}


@pytest.mark.parametrize("case", CASES)
def test_format_writes_the_files_of_kafka_storage(jvm: Driver, tmp_path: Path, case: str) -> None:
    changes, flags = CASES[case]
    path = properties(tmp_path, changes)
    data = tmp_path / "data"
    assert main(["format", "-c", path, "-t", "abc", *flags]) == 0
    ours = contents(jvm, data)
    shutil.rmtree(data)
    jvm.tool(TOOL, "format", "-c", path, "-t", "abc", *flags, *SAME_RECORDS).ok()
    assert ours == contents(jvm, data)


def contents(jvm: Driver, folder: Path) -> dict[str, object]:
    """Every file as Kafka's tool prints it, without times, checksums and directory ids."""
    files: dict[str, object] = {}
    own_id = ""
    for path in sorted(folder.rglob("*"), key=lambda path: path.suffix != ".properties"):
        name = str(path.relative_to(folder))
        if path.suffix == ".properties":
            lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
            pairs = dict([line.split("=") for line in lines])
            own_id = pairs.pop("directory.id")
            files[name] = pairs
        elif path.is_file():
            shown = jvm.tool(DUMP, "--cluster-metadata-decoder", "--files", str(path)).ok().stdout
            shown = re.sub(r'(Time: |crc: |Timestamp":)[1-9]\d*', r"\1…", shown)
            lines = shown.replace(own_id, "own").splitlines()
            files[name] = [with_sorted_voters(line) for line in lines]
    return files


def with_sorted_voters(line: str) -> str:
    """The line with its voters sorted: Kafka writes them in any order."""
    head, word, text = line.partition("KRaftVoters ")
    if not word:
        return line
    voters = sorted(json.loads(text)["voters"], key=lambda voter: voter["voterId"])
    return head + word + json.dumps(voters)


def test_kraftlog_reads_directories_formatted_by_kafka(jvm: Driver, tmp_path: Path) -> None:
    path = properties(tmp_path)
    jvm.tool(TOOL, "format", "-c", path, "-t", "a:b=c", "-I", f"3@h:9093:{FIRST}").ok()
    data = tmp_path / "data"
    meta = load(OsFiles(), str(data))
    assert (meta.cluster_id, meta.node_id) == ("a:b=c", 3)
    _, _, voters, *records, _ = messages(str(data / SNAPSHOT))
    assert isinstance(voters, control.VotersRecord)
    assert voters.voters[0].voter_directory_id == meta.directory_id
    assert len(records) == 6


@pytest.mark.parametrize(
    "release", ["3.3", "3.9", "4.0", "4.1-IV0", "4.2", "4.3", "4.4-IV1", "4.4"]
)
def test_releases_map_to_the_same_feature_levels_as_in_kafka(
    jvm: Driver, capsys: pytest.CaptureFixture[str], release: str
) -> None:
    assert main(["storage", "version-mapping", "-r", release]) == 0
    ours = capsys.readouterr().out
    assert ours == jvm.tool(TOOL, "version-mapping", "-r", release).ok().stdout


def test_feature_dependencies_equal_kafkas(jvm: Driver, capsys: pytest.CaptureFixture[str]) -> None:
    flags = [f"metadata.version={level}" for level in METADATA_VERSIONS]
    flags += [f"{name}={level}" for name, levels in FEATURES.items() for level in levels]
    words = ["feature-dependencies", *[word for flag in flags for word in ("-f", flag)]]
    assert main(["storage", *words]) == 0
    assert capsys.readouterr().out == jvm.tool(TOOL, *words).ok().stdout


@pytest.mark.slow
def test_kafka_starts_on_a_directory_formatted_by_kraftlog(jvm: Driver, tmp_path: Path) -> None:
    """Its controller is the voter in the checkpoint that kraftlog wrote."""
    client_port, controller_port = free_ports(2)
    path = properties(
        tmp_path,
        f"listeners=PLAINTEXT://127.0.0.1:{client_port},CONTROLLER://127.0.0.1:{controller_port} ; "
        f"controller.quorum.bootstrap.servers=127.0.0.1:{controller_port} ; "
        "offsets.topic.replication.factor=1",
    )
    assert main(["format", "-c", path, "--standalone"]) == 0
    meta = load(OsFiles(), f"{tmp_path}/data")
    assert meta.cluster_id is not None
    with start_kafka(path, str(tmp_path)):
        address = f"127.0.0.1:{client_port}"
        tool = "org.apache.kafka.tools.MetadataQuorumCommand"
        status = jvm.tool(tool, "--bootstrap-server", address, "describe", "--status").ok().stdout
    assert re.search(rf"ClusterId: +{re.escape(meta.cluster_id)}\n", status)
    assert re.search(rf'CurrentVoters:.*"id": 3.*127.0.0.1:{controller_port}', status)
