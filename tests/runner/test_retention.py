"""Retention: segments are deleted by age and size, by their topic's config."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from kraftlog.config.keys import BROKER, TOPIC
from kraftlog.errors import ErrorCode
from kraftlog.records.builder import BatchBuilder
from kraftlog.runner import log_maintenance
from kraftlog.runner.quorum_io import NodeStoppedError
from kraftlog.types import Now
from kraftlog.wire.apis import ApiKey
from kraftlog_simulator.files import Fault
from tests.node.frame_client import (
    FrameClient,
    configured_host,
    create_topics,
    make_host,
    set_config,
)
from tests.node.test_log_ends import offset_at
from tests.node.test_producers import EXPIRATION_CHECK_MS, Writer, idempotent_batch
from tests.node.test_requests import batch, fetch, fetched_partition, produce

if TYPE_CHECKING:
    from tests.virtual_host import VirtualHost

FIRST_CHECK_MS = 30_000
CHECK_MS = 300_000
SIZE = len(batch(b"x" * 100))
#: Two batches make a segment.
SMALL = {"internal_segment_bytes": 2 * SIZE}


def write_records(host: VirtualHost, *timestamps: int) -> VirtualHost:
    for timestamp in timestamps:
        assert Writer(host).write(batch(b"x" * 100, timestamp=timestamp))[0] == ErrorCode.NONE
    return host


def start_of(host: VirtualHost) -> int:
    host.settle()
    return offset_at(host, -2)[0]


def test_expired_segments_are_deleted() -> None:
    host = write_records(
        configured_host(retention_ms=10_000, **SMALL), 0, 20_000, 5_000, 5_001, 25_000
    )
    host.pass_time(FIRST_CHECK_MS)
    assert start_of(host) == 0, "the first segment has a record that is young enough"
    host.pass_time(CHECK_MS)
    assert start_of(host) == 5, "all are too old, the last segment's too"
    assert write_records(host, 330_000).node.replica_manager.by_log["demo", 0].end == 6


def test_segments_expire_one_by_one() -> None:
    host = write_records(
        configured_host(retention_ms=25_000, **SMALL), 1_000, 2_000, 20_000, 20_000
    )
    host.pass_time(FIRST_CHECK_MS)
    assert start_of(host) == 2
    gone = FrameClient(host).ask(ApiKey.FETCH, 12, fetch(1))
    assert fetched_partition(gone).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (
        fetched_partition(FrameClient(host).ask(ApiKey.FETCH, 12, fetch(2))).log_start_offset == 2
    )


def test_surplus_segments_are_deleted() -> None:
    host = write_records(configured_host(retention_bytes=3 * SIZE, **SMALL), *[1000] * 7)
    host.pass_time(FIRST_CHECK_MS)
    assert start_of(host) == 4


def test_changed_configs_apply_at_the_next_check() -> None:
    """For the topic, or as the default."""
    host = write_records(configured_host(**SMALL), *[1000] * 6)
    host.pass_time(FIRST_CHECK_MS)
    assert start_of(host) == 0
    set_config(host, BROKER, "", "log.retention.bytes", 4 * SIZE)
    host.pass_time(CHECK_MS)
    assert start_of(host) == 2
    set_config(host, TOPIC, "demo", "retention.ms", 10_000)
    host.pass_time(CHECK_MS)
    assert start_of(host) == 6


def test_changed_segment_bytes_apply_to_new_segments() -> None:
    host = write_records(configured_host(**SMALL), *[1000] * 4)
    log = host.runner.directory.logs["demo", 0]
    assert [segment.base_offset for segment in log.segments] == [0, 2]
    set_config(host, TOPIC, "demo", "internal.segment.bytes", 3 * SIZE)
    write_records(host, *[1000] * 4)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 5]
    set_config(host, TOPIC, "demo", "segment.ms", 500)
    write_records(host, 1400, 1901)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 5, 8, 9]


def test_a_topic_that_is_only_compacted_keeps_its_segments() -> None:
    host = configured_host(cleanup_policy="compact", retention_ms=1, **SMALL)
    for sequence in range(4):
        raw = keyed(b"k%d" % sequence)
        assert Writer(host).write(raw)[0] == ErrorCode.NONE
    host.pass_time(FIRST_CHECK_MS)
    assert start_of(host) == 0


def keyed(key: bytes) -> bytes:
    builder = BatchBuilder()
    builder.append(1000, key, b"x" * 100)
    return builder.build()


def test_a_wall_clock_that_jumps_back_only_delays_deletion() -> None:
    host = configured_host(retention_ms=10_000, **SMALL)
    host.now = Now(0, 10_000_000)
    host.turn()
    write_records(host, *[10_000_000] * 4)
    host.now = Now(FIRST_CHECK_MS, 1_000)
    assert start_of(host) == 0
    assert write_records(host, 2_000).node.replica_manager.by_log["demo", 0].end == 5
    host.now = Now(FIRST_CHECK_MS + CHECK_MS, 10_020_000)
    assert start_of(host) == 5, "the clock is right again, and all records are expired"


def test_a_log_with_many_expired_segments_delays_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At most two segments are deleted in a turn."""
    monkeypatch.setattr(log_maintenance, "CHECKED_PER_TURN", 2)
    monkeypatch.setattr(log_maintenance, "SEGMENT_COST", 1)
    host = write_records(configured_host(retention_ms=10_000, **SMALL), *[1000] * 10)
    host.now = Now(FIRST_CHECK_MS, FIRST_CHECK_MS)
    starts: list[int] = []
    while not starts or host.runner.has_work:
        host.one_turn()
        starts.append(host.node.replica_manager.by_log["demo", 0].start)
    assert starts == [4, 8, 10]


def test_many_logs_are_checked_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_maintenance, "CHECKED_PER_TURN", 2)
    host = configured_host(retention_ms=10_000)
    create_topics(host, {"more": 5}, {"retention.ms": 10_000})
    for index in range(5):
        FrameClient(host).ask(ApiKey.PRODUCE, 9, produce(batch(b"x"), topic="more", index=index))
    host.now = Now(FIRST_CHECK_MS, FIRST_CHECK_MS)
    deleted: list[int] = []
    while not deleted or host.runner.has_work:
        host.one_turn()
        deleted.append(sum(part.start for part in host.node.replica_manager.partitions.values()))
    assert deleted[0] <= 2
    assert deleted == sorted(deleted)
    assert deleted[-1] == 5


def test_a_failed_rename_takes_the_directory_offline() -> None:
    """The node stops, as its metadata log is in that directory."""
    host = write_records(configured_host(retention_ms=10_000, **SMALL), *[1000] * 4)
    host.files.faults.append(Fault("rename", times=100))
    host.now = Now(FIRST_CHECK_MS, FIRST_CHECK_MS)
    with pytest.raises(NodeStoppedError, match="removing old segments"):
        host.turn()
    assert not host.node.replica_manager.by_log["demo", 0].online


def test_a_full_disk_postpones_rolling() -> None:
    host = write_records(configured_host(retention_ms=10_000, **SMALL), 1000)
    host.files.faults.append(Fault("open", errno.ENOSPC, path="0001.log"))
    host.pass_time(FIRST_CHECK_MS)
    assert start_of(host) == 0
    host.pass_time(CHECK_MS)
    assert start_of(host) == 1


def test_the_logs_producer_state_expires_too() -> None:
    host = make_host()
    set_config(host, BROKER, "", "producer.id.expiration.ms", EXPIRATION_CHECK_MS)
    Writer(host).write(idempotent_batch(0, timestamp=1))
    log = host.runner.directory.logs["demo", 0]
    assert list(log.producers.entries) == [7]
    host.pass_time(FIRST_CHECK_MS)
    assert list(log.producers.entries) == [7]
    for _ in range(3):
        host.pass_time(CHECK_MS)
    assert list(log.producers.entries) == []


def test_completed_transactions_are_forgotten_once_replicated() -> None:
    """Each retention check forgets those whose marker is before the high watermark."""
    host = write_records(configured_host(retention_ms=-1), 0)
    Writer(host).write(idempotent_batch(0))
    state = host.runner.directory.logs["demo", 0].tracker.state
    end = host.node.replica_manager.by_log["demo", 0].high_watermark
    state.unreplicated.update({0: end - 1, 1: end})
    host.pass_time(FIRST_CHECK_MS)
    assert state.unreplicated == {1: end}, "its marker is not before the high watermark"
