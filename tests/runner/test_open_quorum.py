"""The metadata log at a start: what a crash left of it, and of a snapshot to replace it."""

from __future__ import annotations

import pytest

from kraftlog.logstate.voters import VoterSet
from kraftlog.node.quorum.batches import METADATA_LOG
from kraftlog.records.builder import BatchBuilder
from kraftlog.runner.quorum import open_quorum
from kraftlog.runner.recovered import METADATA
from kraftlog.simulator.files import MemoryFiles
from kraftlog.storage.batches import describe
from kraftlog.storage.directory import LogDirectory
from kraftlog.storage.metadata_snapshots import MetadataSnapshots
from kraftlog.types import METADATA_TOPIC_ID, OffsetAndEpoch


def batch(offset: int, epoch: int) -> bytes:
    builder = BatchBuilder(base_offset=offset, leader_epoch=epoch)
    builder.append(0, None, b"\x01\x14\x00\x00")  # a NoOpRecord
    return builder.build()


@pytest.mark.parametrize(
    ("epochs", "snapshot", "expected"),
    [
        ([1, 1, 1], OffsetAndEpoch(2, 1), (2, 3, 1)),
        ([1, 1, 1], OffsetAndEpoch(3, 1), (3, 3, 1)),
        ([1, 1, 1], OffsetAndEpoch(5, 2), (5, 5, 2)),
        ([1, 1, 1], OffsetAndEpoch(2, 4), (2, 2, 4)),
    ],
    ids=["within", "at the end", "beyond", "parted"],
)
def test_q38_a_snapshot_that_was_named_before_a_crash_counts(
    epochs: list[int], snapshot: OffsetAndEpoch, expected: tuple[int, int, int]
) -> None:
    """A log that does not reach it, or parts from it, was about to be replaced by it."""
    files = MemoryFiles()
    files.make_directory("data")
    directory = LogDirectory(files, "data")
    log = directory.create(METADATA_LOG, METADATA_TOPIC_ID, METADATA)
    for offset, epoch in enumerate(epochs):
        log.append([batch(offset, epoch)], describe([batch(offset, epoch)]), 0)
    MetadataSnapshots(files, log.folder).store(snapshot, [b""])
    files.kill()
    opened = open_quorum(LogDirectory(files, "data"), VoterSet(), lambda _: None)
    assert (opened.log.start, opened.log.end, opened.log.last_epoch) == expected
    assert (opened.log.snapshot, opened.applied) == (snapshot, snapshot.offset)
