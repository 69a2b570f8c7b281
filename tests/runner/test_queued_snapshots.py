"""Large producer snapshots are written in the turns after a roll."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kraftlog.records.builder import BatchBuilder
from kraftlog.runner import log_maintenance
from kraftlog.storage import producer_snapshots, producer_tracker
from kraftlog.storage.disk import read_whole
from kraftlog.storage.producer_snapshots import decode_snapshot
from kraftlog.wire.apis import ApiKey
from tests.node.frame_client import FrameClient, configured_host
from tests.node.test_requests import produce
from tests.virtual_host import VirtualHost

if TYPE_CHECKING:
    from kraftlog.storage.log import Log

PRODUCERS = 50


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> VirtualHost:
    """A node whose topic has rolled a segment with 50 producers; more than ten count as many."""
    monkeypatch.setattr(producer_tracker, "FEW_PRODUCERS", 10)
    monkeypatch.setattr(producer_snapshots, "LINES_PER_STEP", 10)
    monkeypatch.setattr(log_maintenance, "STEPS_PER_TURN", 1)
    host = configured_host(segment_bytes=1 << 20)
    client = FrameClient(host)
    for producer_id in range(PRODUCERS):
        builder = BatchBuilder(producer_id=producer_id, producer_epoch=0, base_sequence=0)
        builder.append(0, None, b"value")
        client.ask(ApiKey.PRODUCE, 9, produce(builder.build()))
    for _ in range(2):
        builder = BatchBuilder()
        builder.append(0, None, bytes(600_000))
        client.send(ApiKey.PRODUCE, 9, produce(builder.build()))
        host.one_turn()
    assert [snapshot.offset for snapshot in log_of(host).tracker.queued] == [PRODUCERS + 1]
    return host


def log_of(host: VirtualHost) -> Log:
    return host.runner.directory.logs["demo", 0]


def test_a_large_producer_snapshot_is_written_in_steps(host: VirtualHost) -> None:
    log = log_of(host)
    assert log.tracker.snapshots == []
    turns = 0
    while log.tracker.queued:
        assert host.runner.has_work
        host.one_turn()
        turns += 1
    assert turns >= PRODUCERS // 10
    assert log.tracker.snapshots == [PRODUCERS + 1]
    path = log.tracker.path(PRODUCERS + 1)
    state = decode_snapshot(read_whole(host.files, path), path)
    assert set(state.entries) == set(range(PRODUCERS))
    assert log.needs_flush


def test_a_queued_snapshot_of_a_truncated_log_is_dropped(host: VirtualHost) -> None:
    log = log_of(host)
    log.truncate_to(3)
    host.settle()
    assert log.tracker.snapshots == []
    assert not log.tracker.queued


def test_a_queued_snapshot_is_written_before_its_segment_is_deleted(host: VirtualHost) -> None:
    log = log_of(host)
    log.move_start(log.end_offset)
    assert log.tracker.snapshots == [log.end_offset]
    assert not log.tracker.queued
    host.settle()
    assert not host.runner.has_work


def test_a_snapshot_written_from_the_queue_is_flushed_with_the_log(host: VirtualHost) -> None:
    """As the segments are deleted, only the snapshot has the producers after a power loss."""
    log = log_of(host)
    host.files.write_back()
    log.move_start(log.end_offset)
    log.flush()
    host.files.power_loss()
    path = log.tracker.path(log.end_offset)
    state = decode_snapshot(read_whole(host.files, path), path)
    assert set(state.entries) == set(range(PRODUCERS))


def test_producers_survive_a_crash_before_their_snapshot(host: VirtualHost) -> None:
    host.files.kill()
    again = VirtualHost(host.files)
    builder = BatchBuilder(producer_id=7, producer_epoch=0, base_sequence=0)
    builder.append(0, None, b"value")
    answer = FrameClient(again).ask(ApiKey.PRODUCE, 9, produce(builder.build()))
    outcome = answer.responses[0].partition_responses[0]
    assert outcome.base_offset == 7, "the batch is a known duplicate"
