"""Responses that wait for the disk are sent once their records are durable, not before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraftlog.effects import AppendBatch, DeleteLog, TruncateLog
from kraftlog.errors import ErrorCode
from kraftlog.node.quorum.batches import METADATA_LOG
from kraftlog.records.builder import BatchBuilder
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kraftlog_simulator.files import Fault
from tests.node.frame_client import FrameClient, make_host
from tests.node.test_requests import batch, produce, produce_result

if TYPE_CHECKING:
    from tests.virtual_host import VirtualHost

LOG = ("demo", 0)


def hold_offset(host: VirtualHost, offset: int) -> list[int]:
    """A list that gets the offset once the log is durable up to it."""
    released: list[int] = []
    host.runner._flushes.hold(LOG, offset, lambda: released.append(offset))
    return released


def host_with_records(count: int) -> VirtualHost:
    host = make_host()
    for _ in range(count):
        FrameClient(host).ask(ApiKey.PRODUCE, 9, produce(batch(b"x")))
    return host


def test_one_flush_releases_everything_that_it_covers() -> None:
    host = host_with_records(3)
    responses = [hold_offset(host, offset) for offset in (1, 2, 3)]
    host.files.journal = []
    host.turn()
    assert all(responses)
    assert len([line for line in host.files.journal if ".log" in line]) == 1
    assert host.runner.logs[LOG].recovery_point == 3
    durable = hold_offset(host, 2)
    host.runner.finish_turn(host.now)  # nothing is left to flush
    assert durable


def test_a_response_waits_for_unwritten_records() -> None:
    host = host_with_records(1)
    early = hold_offset(host, 2)
    host.turn()
    assert not early
    FrameClient(host).ask(ApiKey.PRODUCE, 9, produce(batch(b"x")))
    assert early


def test_appends_during_a_flush_are_covered_by_the_next() -> None:
    """The next flush begins without an event; else the second request would wait for ever."""
    host = make_host()
    client = FrameClient(host)
    for name in ("first", "second"):
        topic = CreatableTopic(
            name=name, num_partitions=1, replication_factor=1, assignments=(), configs=()
        )
        client.send(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=[topic]))
        host.one_turn()  # its flush has not run yet
    host.turn()
    assert [number for number, _ in client.take()] == [1, 2]


def test_a_log_may_be_deleted_during_its_flush() -> None:
    host = host_with_records(1)
    pending = hold_offset(host, 1)
    host.one_turn()  # its flush has not run yet
    host.node.emit(DeleteLog(LOG, host.node.replica_manager.by_log[LOG].topic_id))
    host.one_turn()
    host.turn()
    assert not pending
    assert not host.log_lines


def test_a_failed_flush_takes_the_log_offline() -> None:
    host = host_with_records(1)
    pending = hold_offset(host, 1)
    host.files.faults.append(Fault("sync"))
    host.turn()
    assert not pending
    outcome = produce_result(FrameClient(host).ask(ApiKey.PRODUCE, 9, produce(batch(b"y"))))
    assert outcome.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    late = hold_offset(host, 1)
    host.turn()
    assert not late
    assert any("Input/output error" in line for line in host.log_lines)


def test_writes_after_a_truncation_are_flushed_after_an_overtaken_flush() -> None:
    """Q6: a flush in progress at a truncation does not cover later appends."""
    host = make_host()
    log = host.runner.logs[METADATA_LOG]
    end = log.end_offset
    builder = BatchBuilder(base_offset=end, leader_epoch=1)
    builder.append(0, None, b"x")
    data = builder.build()
    host.node.emit(AppendBatch(METADATA_LOG, data))
    host.one_turn()  # the flush begins
    host.node.emit(TruncateLog(METADATA_LOG, end))
    host.node.emit(AppendBatch(METADATA_LOG, data))
    host.turn()
    assert log.recovery_point == log.end_offset == end + 1
