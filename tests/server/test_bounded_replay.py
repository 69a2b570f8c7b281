"""A restarted node replays only the records after its newest snapshot."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from bench.quorum import TOPIC, ChangeClient, change

from kraftlog.client.deadline import Deadline
from kraftlog.logstate.voters import VoterSet
from kraftlog.node.quorum.snapshotter import RECORDS
from kraftlog.runner.quorum_io import open_quorum
from kraftlog.server.files import OsFiles
from kraftlog.storage.directory import LogDirectory
from kraftlog.storage.disk import HandleCache
from tests.server.node_process import NodeProcess
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from pathlib import Path

    from kraftlog.node.config import RecoveredMetadata

BATCH = 100


def test_q38_replay_after_a_kill_is_bounded(tmp_path: Path) -> None:
    """The log has more records than a restart may replay, so the node must write a snapshot."""
    data, errors = str(tmp_path / "data"), str(tmp_path / "errors.txt")
    node = NodeProcess(data, errors=errors, topics={TOPIC: 1})
    try:
        with ChangeClient(node.address) as changes:
            for first in range(0, RECORDS + BATCH, BATCH):
                changes.send(b"".join(map(change, range(first, first + BATCH))))
                changes.await_responses(BATCH)
        await_snapshot(f"{data}/__cluster_metadata-0")
        node.kill()
        metadata = recovered(data)
        assert metadata.log.end - metadata.applied <= RECORDS < metadata.log.end
        node = NodeProcess(data, errors=errors, topics={})
        with ChangeClient(node.address) as changes:
            changes.send(change(0))
            changes.await_responses(1)
    finally:
        node.kill_if_running()


def recovered(data: str) -> RecoveredMetadata:
    """What a node reads when it starts on the directory: it will replay from `applied` on."""
    files = OsFiles()
    directory = LogDirectory(files, data, HandleCache(files, 10))
    try:
        return open_quorum(directory, VoterSet(), lambda _: None)
    finally:
        directory.release()


def await_snapshot(folder: str) -> None:
    """Wait for a snapshot other than the one that formatting writes."""
    deadline = Deadline(LIMIT_S)
    while not any(is_snapshot(name) for name in os.listdir(folder)):
        assert not deadline.is_over, os.listdir(folder)
        deadline.pause(0.01)


def is_snapshot(name: str) -> bool:
    return name.endswith(".checkpoint") and int(name.partition("-")[0]) > 0
