"""What a start must find of the metadata log, as the invariants compare it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.node.quorum.batches import summaries
from kraftlog.storage.disk import write_whole
from kraftlog.storage.metadata_snapshots import name_of
from kraftlog.types import OffsetAndEpoch
from kraftlog_simulator.checkers.oracle import NO_CHAIN, Oracle
from kraftlog_simulator.files import MemoryFiles
from kraftlog_simulator.nodes.log_view import DIRECTORY, FOLDER, LogView
from kraftlog_simulator.violation import Violation
from tests.storage.making import batch, new_disk, open_log_on, put

if TYPE_CHECKING:
    from kraftlog.storage.log import Log

#: The epochs of the batches that are committed, of one record each.
COMMITTED = (1, 3, 3)


def stored(epochs: tuple[int, ...], start: int = 0) -> tuple[MemoryFiles, Log]:
    """A durable log of batches of one record each, with these epochs."""
    files = MemoryFiles()
    files.make_folder(DIRECTORY)
    files.make_folder(FOLDER)
    log, _ = open_log_on(new_disk(files), folder=FOLDER)
    log.truncate_fully_and_start_at(start)
    for offset, epoch in enumerate(epochs, start):
        put(log, batch(offset, epoch=epoch))
    log.flush()
    files.write_back()
    return files, log


def world_with_committed_records() -> Any:
    oracle, chain, endings = Oracle(), NO_CHAIN, {}
    for offset, epoch in enumerate(COMMITTED):
        (summary,) = summaries(batch(offset, epoch=epoch))
        summary.payload = bytes(summary.payload)
        chain = oracle.chain(chain, summary)
        endings[OffsetAndEpoch(offset + 1, epoch)] = chain
    return SimpleNamespace(
        oracle=oracle,
        voters=None,
        chain_ending=endings.__getitem__,
        snapshot_seen=lambda *_: None,
        note_chain=lambda *_: None,
        appended=lambda *_: None,
    )


@pytest.mark.parametrize(
    ("before", "snapshot", "after", "is_lost"),
    [
        ((1, 2), (3, 3), (), False),
        ((1, 2), (2, 3), (), False),
        ((1, 2, 2), (2, 3), (), False),
        ((1, 3), (3, 3), (), False),
        ((1, 3), (2, 3), (), False),
        ((1, 3), (1, 1), (), True),
        ((1, 3), (1, 1), (2,), True),
        ((1, 2), None, (1,), True),
        ((1, 2), None, (1, 3), True),
        ((1, 2), None, (1, 2), False),
    ],
    ids=[
        "diverged, replaced by a longer one",
        "diverged, replaced by one as long",
        "diverged, replaced by a shorter one",
        "lagged, replaced",
        "has all of the snapshot",
        "lost after its own snapshot",
        "changed after its own snapshot",
        "lost",
        "changed",
        "unchanged",
    ],
)
def test_q38_only_a_snapshot_that_a_log_lacks_replaces_durable_batches(
    before: tuple[int, ...],
    snapshot: tuple[int, int] | None,
    after: tuple[int, ...],
    *,
    is_lost: bool,
) -> None:
    """A kill may end the turn in which a fetched snapshot replaces a log: no one has seen it."""
    files, log = stored(before)
    replica: Any = SimpleNamespace(
        id=0, core=None, files=files, world=world_with_committed_records()
    )
    view = LogView(replica)
    view.begin(log)
    assert view.durable == len(before)
    replica.files, log = stored(after, snapshot[0] if snapshot else 0)
    if snapshot:
        path = f"{FOLDER}/{name_of(OffsetAndEpoch(*snapshot))}"
        write_whole(replica.files, path, b"")
    if is_lost:
        with pytest.raises(Violation, match="lacks or changed"):
            view.begin(log)
    else:
        view.begin(log)
