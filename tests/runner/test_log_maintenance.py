"""Log maintenance: deleting files, flushing sealed segments, writing checkpoints."""

from __future__ import annotations

import pytest

from kraftlog.effects import MoveLogStart, TruncatePartition
from kraftlog.runner.log_maintenance import INTERVAL_MS, MAX_UNLINKED
from kraftlog.runner.quorum_io import NodeStoppedError
from kraftlog.storage.checkpoints import HIGH_WATERMARKS, RECOVERY_POINTS, decode_offsets
from kraftlog.types import Now
from kraftlog.wire.apis import ApiKey
from kraftlog_simulator.files import Fault, MemoryFiles
from tests.node.frame_client import FrameClient, configured_host, make_host
from tests.node.test_requests import batch, produce
from tests.virtual_host import VirtualHost


def offsets(files: MemoryFiles, name: str) -> dict[tuple[str, int], int]:
    return decode_offsets(files.bytes_of(f"data/{name}"), name)


def test_v15_checkpoints_are_written_at_intervals() -> None:
    host = make_host()
    FrameClient(host).ask(ApiKey.PRODUCE, 9, produce(batch(b"a", b"b")))
    host.pass_time(INTERVAL_MS)
    assert offsets(host.files, HIGH_WATERMARKS) == {("demo", 0): 2}
    FrameClient(host).ask(ApiKey.PRODUCE, 9, produce(batch(b"c")))
    host.pass_time(INTERVAL_MS - 1)
    assert offsets(host.files, HIGH_WATERMARKS) == {("demo", 0): 2}
    host.pass_time(1)
    assert offsets(host.files, HIGH_WATERMARKS) == {("demo", 0): 3}


def test_sealed_segments_become_durable() -> None:
    """The recovery point passes them, so that recovery need not scan them."""
    raw = batch(b"x" * 100)
    host = configured_host(internal_segment_bytes=3 * len(raw))
    for _ in range(7):
        FrameClient(host).ask(ApiKey.PRODUCE, 9, produce(raw))
    log = host.runner.directory.logs["demo", 0]
    assert log.recovery_point == 0
    host.pass_time(INTERVAL_MS)
    assert log.recovery_point >= log.segments[-1].base_offset == 6
    host.pass_time(INTERVAL_MS)
    assert offsets(host.files, RECOVERY_POINTS)["demo", 0] >= 6


def test_files_deleted_before_a_restart_are_unlinked() -> None:
    files = MemoryFiles()
    files.make_folder("data")
    files.make_folder("data/gone-0.ff-delete")
    files.make_file("data/gone-0.ff-delete/00000000000000000000.log", b"x")
    make_host(files)
    assert not files.exists("data/gone-0.ff-delete")


def test_garbage_is_deleted_in_small_jobs() -> None:
    files = MemoryFiles()
    files.make_folder("data")
    for number in range(3 * MAX_UNLINKED):
        files.make_folder(f"data/gone-{number}.ff-delete")
    host = VirtualHost(files, settled=False)
    host.one_turn()
    garbage = host.runner.directory.take_garbage()
    assert garbage == [], "the first turn has submitted the jobs for all of it"
    host.settle()
    assert not [name for name in files.list("data") if name.endswith("-delete")]


def test_a_folder_that_cannot_be_removed_is_logged_and_kept() -> None:
    files = MemoryFiles()
    files.make_folder("data")
    files.make_folder("data/gone-0.ff-delete")
    files.faults.append(Fault("remove_folder"))
    host = make_host(files)
    assert files.exists("data/gone-0.ff-delete")
    assert any(line.startswith("removing deleted files") for line in host.log_lines)


def test_unwritable_checkpoints_stop_a_node_with_the_metadata_log() -> None:
    host = make_host()
    host.files.faults.append(Fault("pwritev", path="checkpoint", times=10))
    with pytest.raises(NodeStoppedError, match="writing checkpoints"):
        host.pass_time(INTERVAL_MS)


def test_an_offline_directory_has_no_maintenance() -> None:
    """A broker may continue without it, and must not spin for logs that it cannot access."""
    host = make_host()
    host.runner.directory.disk.fail_unless_full("a test", OSError(5, "Input/output error"))
    later = host.now.monotonic_ms + host.node.config.settings.log_retention_check_interval_ms
    host.runner.finish_turn(Now(later, host.now.wall_ms))
    assert not host.runner.has_work


def test_v15_log_start_of_a_truncated_log_is_at_most_its_end() -> None:
    """A log never starts after its end."""
    host = make_host()
    FrameClient(host).ask(ApiKey.PRODUCE, 9, produce(batch(b"a")))
    FrameClient(host).ask(ApiKey.PRODUCE, 9, produce(batch(b"b")))
    log = host.runner.directory.logs["demo", 0]
    assert log.topic_id is not None
    host.node.emit(MoveLogStart(("demo", 0), 2))
    host.node.emit(TruncatePartition(("demo", 0), log.topic_id, 1))
    host.settle()
    assert (log.start_offset, log.end_offset) == (0, 1)


def test_v15_truncation_within_a_batch_lowers_the_stored_high_watermark() -> None:
    """The whole batch is removed, and other records will take its offsets."""
    host = make_host()
    FrameClient(host).ask(ApiKey.PRODUCE, 9, produce(batch(b"a", b"b", b"c")))
    host.pass_time(INTERVAL_MS)
    log = host.runner.directory.logs["demo", 0]
    assert log.topic_id is not None
    host.node.emit(TruncatePartition(("demo", 0), log.topic_id, 2))
    host.one_turn()
    assert log.end_offset == 0
    assert ("demo", 0) not in offsets(host.files, HIGH_WATERMARKS)
