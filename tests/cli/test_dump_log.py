"""`kraftlog dump-log` prints the same as Kafka's tool."""

from __future__ import annotations

import json
import os
import re
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kraftlog.cli import main
from kraftlog.logstate.voters import ReplicaKey, Voter, VoterSet
from kraftlog.raft.messages import ElectionState
from kraftlog.records.header import LENGTH_OVERHEAD, BatchHeader
from kraftlog.records.walk import walk
from kraftlog.runner.repair import SurvivingDirectory
from kraftlog.server.files import OsFiles
from tests.runner.surviving import T0, write_directory
from tests.runner.test_repair import ME, log_of
from tests.storage.sample import write_sample
from tests.storage.test_kafka_directories import ARCHIVE
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from tests.interop.driver import Driver

QUORUM_OF_ONE = """\
process.roles=controller
node.id=1
listeners=CONTROLLER://127.0.0.1:9093
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:9093
log.dirs={data}
"""
DUMP = "org.apache.kafka.tools.DumpLogSegments"


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_sample(str(tmp_path_factory.mktemp("sample")))


def paths_ending_in(folder: str, ending: str) -> str:
    paths = [f"{folder}/{name}" for name in sorted(os.listdir(folder)) if name.endswith(ending)]
    assert paths
    return ",".join(paths)


def dump_log(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    capsys.readouterr()
    assert main(["dump-log", *words]) == code
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("ending", "flags"),
    [
        (".log", []),
        (".log", ["--deep-iteration"]),
        (".log", ["--print-data-log", "--skip-record-metadata"]),
        (".index", []),
        (".index", ["--index-sanity-check"]),
        (".timeindex", []),
        (".txnindex", []),
        (".snapshot", []),
    ],
)
def test_segments_and_indexes_are_dumped(
    jvm: Driver, capsys: pytest.CaptureFixture[str], sample: str, ending: str, flags: list[str]
) -> None:
    words = [*flags, "--files", paths_ending_in(sample, ending)]
    assert dump_log(capsys, *words) == jvm.tool(DUMP, *words).ok().stdout


def test_logs_of_kafka_are_dumped(
    jvm: Driver, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    for name in ("codecs-0", "tx-0"):
        words = ["--print-data-log", "--files", paths_ending_in(f"{tmp_path}/clean/{name}", ".log")]
        assert dump_log(capsys, *words) == jvm.tool(DUMP, *words).ok().stdout


def test_records_of_the_metadata_log_are_dumped(
    jvm: Driver, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The log and a snapshot, with all kinds of control records but transaction markers."""
    data = str(tmp_path / "data")
    write_directory(OsFiles(), data, ME, log_of("a", "b"), ElectionState(8, 1))
    survivor = SurvivingDirectory(OsFiles(), data)
    new_voters = VoterSet((Voter(ME), Voter(ReplicaKey(7, b"7" * 16))))
    survivor.repair(new_voters, survivor.state.point, T0)
    survivor.close()
    formatted = str(tmp_path / "formatted")
    config = tmp_path / "server.properties"
    config.write_text(QUORUM_OF_ONE.format(data=formatted))
    assert main(["format", "-c", str(config), "--standalone"]) == 0
    for folder, ending in ((data, ".log"), (formatted, ".checkpoint")):
        files = paths_ending_in(f"{folder}/__cluster_metadata-0", ending)
        words = ["--cluster-metadata-decoder", "--files", files]
        ours = re.sub(
            r',"clusterId":"[^"]+"}', "}", dump_log(capsys, *words)
        )  # Kafka skips the tag
        assert ours == jvm.tool(DUMP, *words).ok().stdout


def whole_batches(segment: Path) -> bytes:
    """The complete batches of a segment to which its broker still appends."""
    data = segment.read_bytes()
    headers = walk(data, may_end_in_batch=True)
    ends = [
        start + LENGTH_OVERHEAD + BatchHeader(*fields).batch_length for start, fields in headers
    ]
    return data[: ends[-1]] if ends else b""


def test_records_of_groups_and_of_kafkas_metadata_are_dumped(
    jvm: Driver, capsys: pytest.CaptureFixture[str], kafka: str, kafka_folder: str, tmp_path: Path
) -> None:
    """The running broker's logs also have records of other tests."""
    from kraftlog import Client

    with Client(kafka, timeout_s=LIMIT_S) as client:
        client.create_topic("dumped", partitions=1)
        client.produce("dumped", "a")
        with client.consume("dumped", "beginning", group="dumped", until_end=True) as records:
            assert len(list(records)) == 1
        client.reset_offsets("gone", {("dumped", 0): 1})
        client.delete_group("gone")
    dumped = ""
    for folder, decoder in (
        ("__consumer_offsets-0", "--offsets-decoder"),
        ("__consumer_offsets-1", "--offsets-decoder"),
        ("__cluster_metadata-0", "--cluster-metadata-decoder"),
    ):
        file = tmp_path / f"{0:020d}.log"
        file.write_bytes(whole_batches(Path(f"{kafka_folder}/data/{folder}/{file.name}")))
        words = [decoder, "--files", str(file)]
        ours = dump_log(capsys, *words)
        assert ours == jvm.tool(DUMP, *words).ok().stdout
        dumped += ours
    for what in ('"topics":["dumped"]', "<DELETE>", '"type":"TOPIC_RECORD"', "KRaftVoters"):
        assert what in dumped


def test_json_output_can_be_parsed(capsys: pytest.CaptureFixture[str], sample: str) -> None:
    first = paths_ending_in(sample, ".log").split(",")[0]
    shown = dump_log(capsys, "--json", "--print-data-log", "--files", first)
    batches = [json.loads(line) for line in shown.splitlines()]
    assert batches[0]["isvalid"] is True
    assert batches[0]["records"][1]["offset"] == 1
    assert any(each["isControl"] and each["records"][0]["control"] for each in batches)
    for ending in (".index", ".snapshot"):
        lines = dump_log(capsys, "--json", "--files", paths_ending_in(sample, ending)).splitlines()
        assert all(json.loads(line) for line in lines)
    assert dump_log(capsys, "--json", "--files", first).count("records") == 0


def test_corruption_is_reported_with_exit_code_1(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = Path(write_sample(str(tmp_path)))
    segment, index = folder / f"{0:020d}.log", folder / f"{0:020d}.index"
    times = folder / f"{0:020d}.timeindex"
    original = segment.read_bytes()
    segment.write_bytes(original[:100] + bytes([original[100] ^ 1]) + original[101:])
    assert "isvalid: false" in dump_log(capsys, "--files", str(segment), code=1)
    segment.write_bytes(original[:-10])
    assert "invalid bytes at the end of" in dump_log(capsys, "--files", str(segment), code=1)
    assert "isvalid: true" in dump_log(capsys, "--max-bytes", "500", "--files", str(segment))
    segment.write_bytes(b"")
    assert dump_log(capsys, "--files", str(segment)).count("\n") == 2
    segment.write_bytes(original)
    index.write_bytes(bytes.fromhex("0000000500000000") + index.read_bytes()[8:] + b"\1")
    shown = dump_log(capsys, "--verify-index-only", "--files", str(index), code=1)
    assert "index offset: 5, log offset: 1" in shown
    assert "1 trailing bytes after the last complete entry" in shown
    times.write_bytes(times.read_bytes()[12:24] + times.read_bytes())
    assert "after" in dump_log(capsys, "--files", str(times), code=1)
    assert main(["dump-log", "--files", "meta.properties"]) == 2
    assert main(["dump-log", "--files", f"{tmp_path}/x.log"]) == 1
    (folder / "x.log").write_bytes(b"")
    assert main(["dump-log", "--files", str(folder / "x.log")]) == 1
    assert "does not begin with an offset" in capsys.readouterr().err
