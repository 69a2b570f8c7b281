"""Opening the metadata log and its snapshots after a crash."""

from __future__ import annotations

import copy
import errno
from itertools import pairwise
from typing import Any

import pytest

from kraftlog import effects
from kraftlog.errors import CorruptBatchError, CorruptLogError
from kraftlog.logstate.voters import VoterSet, voters_by_id
from kraftlog.node.quorum.batches import METADATA_LOG, control_batch
from kraftlog.node.quorum.snapshots import check_snapshot, snapshot_pieces
from kraftlog.raft.messages import Batch
from kraftlog.records.builder import BatchBuilder
from kraftlog.records.walk import walk
from kraftlog.runner.flushes import Flushes
from kraftlog.runner.logs import Logs
from kraftlog.runner.quorum_io import QuorumIO, open_quorum
from kraftlog.runner.recovered_log import METADATA_CONFIG
from kraftlog.runner.runner import REPLAY_BYTES_PER_TURN
from kraftlog.storage import boot_timestamp, meta_properties
from kraftlog.storage.batches import describe
from kraftlog.storage.directory import LogDirectory
from kraftlog.storage.disk import write_whole
from kraftlog.storage.metadata_snapshots import MetadataSnapshots, name_of
from kraftlog.types import METADATA_TOPIC_ID, Now, OffsetAndEpoch
from kraftlog.wire.messages.metadata_records import NoOpRecord
from kraftlog_simulator.files import Fault, MemoryFiles, PowerLost
from tests.node.frame_client import create_topics
from tests.node.quorum.test_snapshots import (
    FOLDER,
    host_with_snapshots,
    host_without_its_first_segment,
)
from tests.virtual_host import InlineIOThread, NoPeers, VirtualHost


def store(snapshots: MetadataSnapshots, end: OffsetAndEpoch, *pieces: bytes) -> None:
    """Write a snapshot as a node does, part by part."""
    position = 0
    for piece in pieces:
        snapshots.write_part(end, position, piece, durably=True)
        position += len(piece)
    snapshots.finish(end)


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
    ids=["within", "at the end", "beyond", "diverging"],
)
def test_q38_a_snapshot_renamed_before_a_crash_is_used(
    epochs: list[int], snapshot: OffsetAndEpoch, expected: tuple[int, int, int]
) -> None:
    """A log that ends or diverges before the snapshot is replaced by it."""
    files = MemoryFiles()
    files.make_folder("data")
    directory = LogDirectory(files, "data")
    log = directory.create(METADATA_LOG, METADATA_TOPIC_ID, METADATA_CONFIG)
    for offset, epoch in enumerate(epochs):
        log.append([batch(offset, epoch)], describe([batch(offset, epoch)]), 0)
    store(MetadataSnapshots(files, log.folder), snapshot, *snapshot_pieces([], VoterSet(), 0, 0))
    files.kill()
    opened = open_quorum(LogDirectory(files, "data"), VoterSet(), lambda _: None)
    assert (opened.log.start, opened.log.end, opened.log.last_epoch) == expected
    assert (opened.log.snapshot, opened.applied) == (snapshot, snapshot.offset)


def node_with_snapshots() -> MemoryFiles:
    """The disk of a killed node: it has two snapshots, and its log starts at the older one."""
    host = host_with_snapshots()
    host.files.kill()
    return host.files


def flip(files: MemoryFiles, name: str) -> None:
    fd = files.open(f"{FOLDER}/{name}")
    [byte] = files.pread(fd, 1, 200)
    files.pwritev(fd, [bytes([byte ^ 1])], 200)
    files.close(fd)


def checkpoints_of(files: MemoryFiles) -> list[str]:
    return sorted(name for name in files.list(FOLDER) if name.endswith(".checkpoint"))


def test_q38_a_damaged_snapshot_is_skipped_where_the_log_covers_it() -> None:
    files = node_with_snapshots()
    older, newest = checkpoints_of(files)
    before = VirtualHost(copy.deepcopy(files)).node.image.topics
    flip(files, newest)
    again = VirtualHost(files)
    assert again.node.image.topics == before
    assert any(newest in line and "corrupt" in line for line in again.log_lines)
    assert older in checkpoints_of(files)


@pytest.mark.parametrize("damage", ["removed", "damaged"])
def test_q38_a_missing_snapshot_before_the_log_prevents_the_start(damage: str) -> None:
    """With incomplete metadata, all logs would become strays. The error names the remedy."""
    host = host_without_its_first_segment()
    host.files.kill()
    files = host.files
    for name in checkpoints_of(files):
        if damage == "removed":
            files.unlink(f"{FOLDER}/{name}")
        else:
            flip(files, name)
    before = set(files.list("data"))
    with pytest.raises(CorruptLogError, match=r"starts at offset \d+.*kraftlog quorum repair"):
        VirtualHost(files)
    assert set(files.list("data")) == before


VOTERS = voters_by_id(1, 2).replace(cluster_id="c")
SNAPSHOT = b"".join(snapshot_pieces([NoOpRecord()] * 3, VOTERS, 4, 0))
#: Where the three batches of the snapshot begin, and where it ends.
BATCH_EDGES = [*(position for position, _ in walk(SNAPSHOT)), len(SNAPSHOT)]


def test_q38_no_flipped_bit_of_a_snapshot_goes_unnoticed() -> None:
    check_snapshot(SNAPSHOT)
    unchecked = {
        edge + 12 + i for edge in BATCH_EDGES for i in range(4)
    }  # the epoch, which is not read
    for position in set(range(len(SNAPSHOT))) - unchecked:
        for bit in range(8):
            harmed = bytearray(SNAPSHOT)
            harmed[position] ^= 1 << bit
            with pytest.raises(CorruptBatchError):
                check_snapshot(harmed)


@pytest.mark.parametrize(
    "batches", ["", "H", "HR", "RF", "HF", "HRFF", "HRFR", "HHRF", "FRH", "RHF"]
)
def test_q38_a_snapshot_is_header_records_and_footer_without_a_gap(batches: str) -> None:
    pieces = dict(zip("HRF", (SNAPSHOT[a:b] for a, b in pairwise(BATCH_EDGES)), strict=True))
    with pytest.raises(CorruptBatchError):
        check_snapshot(b"".join(pieces[letter] for letter in batches))


@pytest.mark.parametrize("is_whole", [True, False])
def test_q38_only_a_complete_snapshot_replaces_the_log(is_whole: bool) -> None:
    """A corrupt one is deleted; the log and the older snapshot stay."""
    files = node_with_snapshots()
    reports: list[Any] = []
    lines: list[str] = []
    io_thread = InlineIOThread()
    directory = LogDirectory(files, "data")
    end = open_quorum(directory, VoterSet(), lines.append).log.end
    flushes = Flushes(
        files, Logs(files, [directory], directory), io_thread, lambda *_: None, lambda *_: None
    )
    quorum_io = QuorumIO(
        files,
        directory,
        io_thread,
        flushes,
        NoPeers(),
        lines.append,
        lambda report, _: reports.append(report),
    )
    before = checkpoints_of(files)
    new = OffsetAndEpoch(end + 5, 9)
    data = SNAPSHOT if is_whole else SNAPSHOT[: BATCH_EDGES[-2]]
    quorum_io.carry_out[effects.WriteSnapshotPart](
        effects.WriteSnapshotPart(new, 0, data), Now(0, 0)
    )
    quorum_io.carry_out[effects.LoadSnapshot](effects.LoadSnapshot(new, METADATA_LOG), Now(0, 0))
    log = directory.logs[METADATA_LOG]
    if is_whole:
        assert reports == [effects.SnapshotLoaded(new, SNAPSHOT)]
        assert (log.start_offset, log.end_offset) == (new.offset, new.offset)
        assert (checkpoints_of(files), lines) == ([name_of(new)], [])
    else:
        assert reports == [effects.SnapshotCorrupt(new)]
        assert log.end_offset == end
        assert checkpoints_of(files) == before
        assert ["corrupt" in line for line in lines] == [True]
        assert not [name for name in files.list(FOLDER) if name.endswith(".part")]


@pytest.mark.parametrize(
    ("operation", "path"),
    [
        ("pwritev", ".checkpoint.part"),
        ("open", ".log"),
        ("pwritev", "meta.properties"),
    ],
)
def test_fetched_metadata_may_use_the_reserve(operation: str, path: str) -> None:
    """On a full disk a node still installs a fetched snapshot and stores the cluster id."""
    files = node_with_snapshots()
    properties = meta_properties.MetaProperties(None, 1, bytes(16))
    write_whole(files, f"data/{meta_properties.NAME}", meta_properties.encode(properties))
    reports: list[Any] = []
    directory = LogDirectory(files, "data")
    end = open_quorum(directory, VoterSet(), print).log.end
    directory.keep_reserve(10_000)
    io_thread = InlineIOThread()
    flushes = Flushes(files, Logs(files, [directory], directory), io_thread, print, print)
    quorum_io = QuorumIO(
        files,
        directory,
        io_thread,
        flushes,
        NoPeers(),
        print,
        lambda report, _: reports.append(report),
    )
    new, now = OffsetAndEpoch(end + 5, 9), Now(0, 0)
    files.faults.append(Fault(operation, errno.ENOSPC, path))
    quorum_io.carry_out[effects.WriteSnapshotPart](effects.WriteSnapshotPart(new, 0, SNAPSHOT), now)
    quorum_io.carry_out[effects.LoadSnapshot](effects.LoadSnapshot(new, METADATA_LOG), now)
    quorum_io.carry_out[effects.PersistClusterId](effects.PersistClusterId("cluster"), now)
    io_thread.deliver(now)
    assert reports == [effects.SnapshotLoaded(new, SNAPSHOT)]
    assert meta_properties.load(files, "data").cluster_id == "cluster"
    assert files.faults[0].times == 0
    assert directory.disk.has_only_reserve


def log_with_voters(*voter_ids: int) -> MemoryFiles:
    """A directory whose metadata log has a record of these voters, or is empty."""
    files = MemoryFiles()
    files.make_folder("data")
    log = LogDirectory(files, "data").create(METADATA_LOG, METADATA_TOPIC_ID, METADATA_CONFIG)
    if voter_ids:
        record = [control_batch(Batch(0, 0, 1, 0, voters_by_id(*voter_ids)), 0)]
        log.append(record, describe(record), 0)
    files.kill()
    return files


@pytest.mark.parametrize(
    ("recorded", "configured", "expected"),
    [
        ((1, 2, 3), (1, 2, 3), []),
        ((1, 2, 3), (), []),
        ((), (1, 2, 3), []),
        (
            (1, 2, 4),
            (1, 2, 3),
            ["controller.quorum.voters names 1, 2, 3; the voters in the metadata log are 1, 2, 4"],
        ),
    ],
    ids=["as configured", "none configured", "a new log", "others"],
)
def test_configured_voters_that_differ_from_the_log_are_logged(
    recorded: tuple[int, ...], configured: tuple[int, ...], expected: list[str]
) -> None:
    """C11, C12: the log counts, and the difference is logged."""
    lines: list[str] = []
    directory = LogDirectory(log_with_voters(*recorded), "data")
    opened = open_quorum(directory, voters_by_id(*configured), lines.append)
    assert lines == expected
    assert opened.log.voter_set.ids == (recorded or configured)


@pytest.mark.parametrize("has_reported", [False, True], ids=["broker", "controller"])
def test_q4_a_controller_without_its_metadata_folder_does_not_start(*, has_reported: bool) -> None:
    """Its votes are lost, though its directory id is not. A broker fetches the metadata again."""
    files = MemoryFiles()
    files.make_folder("data")
    if has_reported:
        boot_timestamp.store(files, "data", 1)
    directory = LogDirectory(files, "data")
    if not has_reported:
        assert open_quorum(directory, VoterSet(), print).log.end == 0
        return
    with pytest.raises(CorruptLogError, match="is missing, and with it the votes of this node"):
        open_quorum(directory, VoterSet(), print)
    assert not files.exists("data/__cluster_metadata-0")


OLD, NEW = OffsetAndEpoch(2, 1), OffsetAndEpoch(5, 1)
PIECES = [batch(0, 1), batch(1, 1)]


@pytest.mark.parametrize(
    ("loses_power", "expected"), [(False, {OLD, NEW}), (True, {OLD})], ids=["killed", "power lost"]
)
def test_a_snapshot_becomes_visible_atomically(
    loses_power: bool, expected: set[OffsetAndEpoch]
) -> None:
    """C104: whenever the node crashes, it finds a whole snapshot, and no partial file is left."""
    seen = set()
    for stop in range(100):
        files = MemoryFiles()
        files.make_folder("data")
        snapshots = MetadataSnapshots(files, "data")
        store(snapshots, OLD, *PIECES)
        files.sync_all("data")
        files.stop_before = files.operations + stop
        try:
            store(snapshots, NEW, *PIECES)
        except PowerLost:
            pass
        else:
            break
        files.power_loss() if loses_power else files.kill()
        again = MetadataSnapshots(files, "data")
        again.remove_unfinished()
        latest = again.list_newest_first()[0]
        assert again.read(latest) == b"".join(PIECES)
        assert not [name for name in files.list("data") if name.endswith(".part")]
        seen.add(latest)
    assert seen == expected


def test_q38_snapshots_older_than_the_log_start_are_removed() -> None:
    """A snapshot that ends at the log start or after it stays."""
    files = MemoryFiles()
    files.make_folder("data")
    snapshots = MetadataSnapshots(files, "data")
    store(snapshots, OLD, *PIECES)
    store(snapshots, NEW, *PIECES)
    snapshots.remove_before(OLD.offset)
    assert files.list("data") == [name_of(OLD), name_of(NEW)]
    snapshots.remove_before(NEW.offset)
    assert files.list("data") == [name_of(NEW)]


def test_an_unfinished_download_is_deleted_at_the_start() -> None:
    """C104: the download restarts, and nothing of the old one is read."""
    files = log_with_voters(1)
    folder = "data/__cluster_metadata-0"
    MetadataSnapshots(files, folder).write_part(NEW, 0, PIECES[0])
    assert [name for name in files.list(folder) if ".checkpoint" in name]
    opened = open_quorum(LogDirectory(files, "data"), VoterSet(), lambda _: None)
    assert not [name for name in files.list(folder) if ".checkpoint" in name]
    assert opened.log.snapshot is None


def test_q9a_replay_at_a_start_runs_in_slices() -> None:
    """A controller must answer vote requests during a long replay."""
    before = VirtualHost()
    for number in range(12):
        create_topics(before, {f"{number}-{index}": 1 for index in range(60)})
    log = before.runner.logs[METADATA_LOG]
    assert sum(segment.size for segment in log.segments) > 2 * REPLAY_BYTES_PER_TURN
    before.files.kill()
    host = VirtualHost(before.files, settled=False)
    seen = set[int]()
    while host.node.quorum.applied < log.end_offset:
        host.one_turn()
        host.deliver()
        seen.add(host.node.quorum.applied)
    assert len(seen - {0}) > 2
