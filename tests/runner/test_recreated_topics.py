"""Recreated topics: nothing of the first log affects the second one.

Both logs have the same name, and so the same folder and the same lines in the checkpoint files.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from kraftlog.effects import LogFailed, LogOpened, LogStartMoved, LogStartNotStored
from kraftlog.errors import ErrorCode
from kraftlog.node.quorum.batches import METADATA_LOG
from kraftlog.runner.log_maintenance import INTERVAL_MS
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.delete_topics import DeleteTopicsRequest
from kraftlog_simulator.files import PowerLost
from tests.node.frame_client import FrameClient, ask_settled, create_topics
from tests.node.test_log_ends import delete_records, delete_request, offset_at
from tests.node.test_producers import Writer
from tests.node.test_requests import batch, fetch, produce, values_in
from tests.virtual_host import VirtualHost

#: Acknowledged records are flushed; a segment holds two batches.
DURABLE: dict[str, object] = {"flush.messages": 1, "internal.segment.bytes": 200}
OLD_ID = b"\x07" * 16


def delete_topic(host: VirtualHost, topic: str = "demo") -> None:
    request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=1000)
    answer = ask_settled(host, ApiKey.DELETE_TOPICS, 5, request)
    assert answer.responses[0].error_code == ErrorCode.NONE


def write(host: VirtualHost, value: bytes) -> None:
    assert Writer(host).write(batch(value))[0] == ErrorCode.NONE


def values(host: VirtualHost) -> list[bytes | None]:
    """All records that a reader finds, segment by segment."""
    fetched: list[bytes | None] = []
    while more := values_in(FrameClient(host).ask(ApiKey.FETCH, 12, fetch(len(fetched)))):
        fetched += more
    return fetched


def write_first_topic(host: VirtualHost) -> None:
    """Write to `demo` and delete records, so that the checkpoint files have entries of its log."""
    create_topics(host, {"demo": 1}, DURABLE)
    for number in range(9):
        write(host, b"old %d" % number)
    assert delete_records(host, 7) == (ErrorCode.NONE, 7)


def recreate_topic(host: VirtualHost, acknowledged: list[bytes]) -> None:
    delete_topic(host)
    create_topics(host, {"demo": 1}, DURABLE)
    for number in range(3):
        write(host, b"new %d" % number)
        acknowledged.append(b"new %d" % number)


def test_records_of_a_recreated_topic_survive_a_kill() -> None:
    """V15: a deleted log's start offset does not truncate the next log of that name."""
    host = VirtualHost()
    write_first_topic(host)
    acknowledged: list[bytes] = []
    recreate_topic(host, acknowledged)
    host.files.kill()
    host = VirtualHost(host.files)
    assert values(host) == acknowledged
    assert (offset_at(host, -2)[0], host.log_lines) == (0, [])


@pytest.mark.parametrize("seed", [None, 1, 2], ids=["only synced", "seed 1", "seed 2"])
def test_recreation_survives_a_power_loss_before_any_operation(seed: int | None) -> None:
    """V15: acknowledged records survive, whichever of the other writes `seed` keeps."""
    stop, is_complete = 0, False
    while not is_complete:
        host = VirtualHost()
        write_first_topic(host)
        host.files.write_back()
        host.files.stop_before = host.files.operations + stop
        acknowledged: list[bytes] = []
        try:
            recreate_topic(host, acknowledged)
            host.pass_time(INTERVAL_MS)
            is_complete = True
        except PowerLost:
            pass
        host.files.power_loss(None if seed is None else Random(1000 * seed + stop))
        host = VirtualHost(host.files)
        if acknowledged:
            assert values(host)[: len(acknowledged)] == acknowledged, f"stopped before {stop}"
        stop += 1 if seed is None else 3
    assert stop > 50


def test_a_folder_keeps_its_name_until_its_flush_ends() -> None:
    """The flush writes the epochs by path: after a rename, into the next log's folder."""
    host = VirtualHost()
    create_topics(host, {"demo": 1}, DURABLE)
    Writer(host).send(ApiKey.PRODUCE, 9, produce(batch(b"old"), -1))
    host.one_turn()  # the flush is submitted, and writes the epochs of the first log
    assert host.runner.directory.logs["demo", 0].is_flushing
    [partition] = host.node.replica_manager.partitions.values()
    host.node.replica_manager.forget(partition)
    host.one_turn()
    assert host.runner.directory.names() == [METADATA_LOG]
    assert "demo-0" in host.files.list("data"), "a job still works in it"
    assert not host.runner.has_work, "only the end of the job is waited for"
    host.settle()
    assert "demo-0" not in host.files.list("data")


@pytest.mark.parametrize(
    "report",
    [
        LogOpened(("demo", 0), OLD_ID, 7, 9),
        LogStartMoved(("demo", 0), OLD_ID, 7, is_stored=True),
        LogFailed(("demo", 0), OLD_ID, "an old failure"),
        LogStartNotStored(("demo", 0), OLD_ID),
    ],
    ids=lambda report: type(report).__name__,
)
def test_a_late_report_about_a_deleted_log_does_not_reach_its_successor(report: Any) -> None:
    """A job of the first log may end after the second topic is replayed."""
    host = VirtualHost()
    create_topics(host, {"demo": 1})
    write(host, b"new")
    waiting = FrameClient(host)
    waiting.send(ApiKey.DELETE_RECORDS, 2, delete_request(1))
    host.node.handle(report, host.now)
    assert waiting.take() == []
    host.settle()
    [(_, answer)] = waiting.take()
    assert answer.topics[0].partitions[0].low_watermark == 1
    write(host, b"newer")
    assert offset_at(host, -1)[0] == 2
