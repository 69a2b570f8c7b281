"""Kafka's dump tool reads kraftlog's files without complaints."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kraftlog.logstate.voters import ReplicaKey, Voter, VoterSet
from kraftlog.raft.messages import ElectionState
from kraftlog.runner.repair import SurvivingDirectory
from kraftlog.server.files import OsFiles
from tests.runner.surviving import T0, write_directory
from tests.runner.test_repair import ME, log_of
from tests.storage.sample import write_sample

if TYPE_CHECKING:
    from tests.interop.driver import Driver, ToolResult

DUMP = "org.apache.kafka.tools.DumpLogSegments"
#: Words in the tool's output for corrupt files, for which it still exits with 0.
COMPLAINTS = (
    "isvalid: false",
    "mismatch",
    "invalid",
    "corrupt",
    "exception",
    "larger",
    "not found",
)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_sample(str(tmp_path_factory.mktemp("sample")))


def comma_separated_paths(folder: str, ending: str) -> str:
    """The paths of the files with this ending, as the tool expects several files."""
    paths = [f"{folder}/{name}" for name in sorted(os.listdir(folder)) if name.endswith(ending)]
    assert len(paths) > 1
    return ",".join(paths)


def dump_output(jvm: Driver, *arguments: str) -> str:
    result = jvm.tool(DUMP, *arguments).ok()
    assert not complaints(result), result.stdout + result.stderr
    return result.stdout


def complaints(result: ToolResult) -> list[str]:
    output = (result.stdout + result.stderr).lower()
    return [word for word in COMPLAINTS if word in output]


def test_kafkas_dump_tool_reads_segments(jvm: Driver, sample: str) -> None:
    output = dump_output(jvm, "--deep-iteration", "--files", comma_separated_paths(sample, ".log"))
    assert output.count("baseOffset: ") == 613
    assert "partitionLeaderEpoch: 2" in output
    assert "endTxnMarker: ABORT coordinatorEpoch: 7" in output


@pytest.mark.parametrize("ending", [".index", ".timeindex", ".txnindex", ".snapshot"])
def test_kafkas_dump_tool_reads_indexes_and_snapshots(
    jvm: Driver, sample: str, ending: str
) -> None:
    output = dump_output(jvm, "--files", comma_separated_paths(sample, ending))
    if ending == ".snapshot":
        assert "currentTxnFirstOffset: OptionalLong[1512]" in output
    if ending == ".txnindex":
        assert output.count("producerId: 2") == 3


def test_indexes_pass_kafkas_sanity_check(jvm: Driver, sample: str) -> None:
    output = dump_output(
        jvm, "--index-sanity-check", "--files", comma_separated_paths(sample, ".index")
    )
    assert output.count("passed sanity check") == 4


def test_a_wrong_index_is_reported(jvm: Driver, tmp_path: Path) -> None:
    """So the tests above would fail, too: the tool reports a wrong index in its output."""
    folder = Path(write_sample(str(tmp_path)))
    index = next(iter(sorted(folder.glob("*.index"))))
    index.write_bytes(bytes.fromhex("00000005 00000000") + index.read_bytes()[8:])
    assert complaints(jvm.tool(DUMP, "--files", str(index)))


def test_kafka_dumps_a_repaired_metadata_log(jvm: Driver, tmp_path: Path) -> None:
    """R1, Q14: the voter records of the repair are in a new epoch, as Kafka's readers expect."""
    data = str(tmp_path / "data")
    write_directory(OsFiles(), data, ME, log_of("a", "b"), ElectionState(8, 1))
    survivor = SurvivingDirectory(OsFiles(), data)
    new_voters = VoterSet((Voter(ME), Voter(ReplicaKey(7, b"7" * 16))))
    survivor.repair(new_voters, survivor.state.point, T0)
    survivor.close()
    segment = f"{data}/__cluster_metadata-0/{0:020d}.log"
    output = dump_output(jvm, "--cluster-metadata-decoder", "--files", segment)
    assert "partitionLeaderEpoch: 1008" in output
    last = output[output.index("partitionLeaderEpoch: 1008") :]
    assert '"leaderId":3' in last.replace(" ", "")
    assert "KRaftVoters" in last
    assert '"voterId":7' in last.replace(" ", "")
    assert output.count("TOPIC_RECORD") == 2
