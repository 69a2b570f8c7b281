"""Q4: `quorum-state`, in Kafka's format."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kraftlog.errors import CorruptLogError
from kraftlog.logstate.voters import ReplicaKey
from kraftlog.storage.quorum_state import NAME, QuorumStateData, decode, encode, load, store
from kraftlog.types import uuid_text
from kraftlog_simulator.files import MemoryFiles, PowerLost

if TYPE_CHECKING:
    from pathlib import Path

    from tests.interop.driver import Driver

ME = ReplicaKey(3, b"d" * 16)
STATES = [
    QuorumStateData(),
    QuorumStateData(leader_id=2, epoch=7),
    QuorumStateData(epoch=7, voted=ME),
    QuorumStateData(3, 8, ME, cluster_id="c", applied_offset=99, voter_ids=(1, 2, 3)),
    QuorumStateData(1, 8, ReplicaKey(1), version=0, cluster_id="c", voter_ids=(1, 2)),
    QuorumStateData(-1, 8, ME, version=0, cluster_id="c", voter_ids=(1, 3)),
]


def files_with_folder() -> MemoryFiles:
    files = MemoryFiles()
    files.make_folder("log")
    files.sync_folder(".")
    return files


@pytest.mark.parametrize("state", STATES)
def test_q4_a_stored_quorum_state_is_loaded(state: QuorumStateData) -> None:
    files = files_with_folder()
    assert load(files, "log") is None
    store(files, "log", state)
    assert load(files, "log") == state


def test_q4_a_crash_at_any_instant_leaves_the_old_or_the_new_file() -> None:
    old, new = STATES[2], STATES[3]
    seen = set()
    for operation in range(100):
        files = files_with_folder()
        store(files, "log", old)
        files.stop_before = files.operations + operation
        try:
            store(files, "log", new)
        except PowerLost:
            files.stop_before = None
            files.power_loss()
            state = load(files, "log")
            assert state is not None
            assert state in (old, new)
            seen.add(state.epoch)
            continue
        break
    else:
        raise AssertionError("the write did not end")
    assert seen >= {old.epoch}
    files.stop_before = None
    files.power_loss()
    assert load(files, "log") == new


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{}",
        encode(STATES[3])[:-5],
        encode(STATES[3]).replace(b'"leaderEpoch":8', b'"leaderEpoch":"8"'),
        encode(STATES[3]).replace(b'"votedDirectoryId":"', b'"votedDirectoryId":"!'),
        encode(STATES[3]).replace(b'"data_version":1', b'"data_version":2'),
    ],
)
def test_q4_a_corrupt_file_stops_the_node_and_is_kept(raw: bytes) -> None:
    """C10."""
    files = files_with_folder()
    files.make_file(f"log/{NAME}", raw)
    with pytest.raises(CorruptLogError, match="log/quorum-state can't be read"):
        load(files, "log")
    assert files.bytes_of(f"log/{NAME}") == raw


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (
            (
                b'{"leaderId":1,"leaderEpoch":4,"votedId":-1,'
                b'"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
            ),
            QuorumStateData(leader_id=1, epoch=4),
        ),
        (
            (
                b'{"clusterId":"","leaderId":-1,"leaderEpoch":2,"votedId":3,"appliedOffset":0,'
                b'"currentVoters":[{"voterId":1},{"voterId":3}],"data_version":0}'
            ),
            QuorumStateData(epoch=2, voted=ReplicaKey(3), version=0, voter_ids=(1, 3)),
        ),
    ],
    ids=["version 1", "version 0"],
)
def test_q4_a_file_that_kafka_wrote_is_read(raw: bytes, expected: QuorumStateData) -> None:
    assert decode(raw, NAME) == expected


@pytest.mark.parametrize("state", STATES)
def test_q4_kafka_reads_what_we_wrote(jvm: Driver, tmp_path: Path, state: QuorumStateData) -> None:
    """Kafka ignores unknown keys, and reads the directory id of a vote in both versions."""
    path = tmp_path / NAME
    path.write_bytes(encode(state))
    voted = state.voted or ReplicaKey(-1)
    assert json.loads(jvm.tool("ElectionOracle", str(path)).ok().stdout) == {
        "epoch": state.epoch,
        "leader": state.leader_id,
        "voted": voted.id,
        "directory": uuid_text(voted.directory_id) if any(voted.directory_id) else "-",
    }


def test_q4_version_0_has_kafkas_keys() -> None:
    """The keys of Kafka before 3.9."""
    content = json.loads(encode(STATES[4]))
    assert content == {
        "clusterId": "c",
        "leaderId": 1,
        "leaderEpoch": 8,
        "votedId": 1,
        "appliedOffset": 0,
        "currentVoters": [{"voterId": 1}, {"voterId": 2}],
        "data_version": 0,
    }
