"""flush.messages: records count as written only after a flush."""

from __future__ import annotations

import errno

import pytest

from kraftlog.config.keys import TOPIC
from kraftlog.config.topic import TopicConfig
from kraftlog.effects import ConfigureLog
from kraftlog.errors import ErrorCode
from kraftlog.wire.apis import ApiKey
from kraftlog_simulator.files import Fault
from tests.node.frame_client import FrameClient, configured_host, create_topics, set_config
from tests.node.test_requests import (
    batch,
    fetch,
    fetched_partition,
    produce,
    produce_result,
    values_in,
)
from tests.virtual_host import SETTINGS, VirtualHost

LOG = ("demo", 0)


def send(client: FrameClient, *values: bytes, acks: int = 1) -> None:
    """Send a request and run the turn that writes it, before the disk completes."""
    client.send(ApiKey.PRODUCE, 9, produce(batch(*values), acks))
    client.host.one_turn()


def codes(client: FrameClient) -> list[int]:
    return [produce_result(response).error_code for _, response in client.take()]


@pytest.mark.parametrize("acks", [1, -1])
def test_flush_messages_delays_the_response_until_the_flush(acks: int) -> None:
    """acks=1 waits too; records that arrive during a flush share the next one."""
    host = configured_host(flush_messages=1)
    client, reader = FrameClient(host), FrameClient(host)
    for value in (b"a", b"b", b"c"):
        send(client, value, acks=acks)
    assert codes(client) == []
    host.turn()
    assert fetched_partition(reader.ask(ApiKey.FETCH, 12, fetch(0))).high_watermark == 3
    assert codes(client) == [0, 0, 0]
    assert host.runner.logs[LOG].recovery_point == 3


def test_readers_do_not_see_unflushed_records() -> None:
    host = configured_host(flush_messages=1)
    reader = FrameClient(host)
    send(FrameClient(host), b"a")
    reader.send(ApiKey.FETCH, 12, fetch(0))
    [(_, response)] = reader.take()
    assert (values_in(response), fetched_partition(response).high_watermark) == ([], 0)
    host.turn()
    assert values_in(reader.ask(ApiKey.FETCH, 12, fetch(0))) == [b"a"]


def test_fewer_records_than_flush_messages_need_no_flush() -> None:
    host = configured_host(flush_messages=3)
    client = FrameClient(host)
    send(client, b"a", b"b")
    assert codes(client) == [0]
    send(client, b"c")
    assert codes(client) == []
    host.turn()
    assert codes(client) == [0]
    send(client, b"d")
    assert codes(client) == [0]


def test_the_brokers_setting_applies_to_topics_without_one() -> None:
    """A changed config applies from then on."""
    host = VirtualHost(settings=SETTINGS + "log.flush.interval.messages=1\n")
    create_topics(host, {"demo": 1})
    client = FrameClient(host)
    send(client, b"a")
    assert codes(client) == []
    host.turn()
    assert codes(client) == [0]
    set_config(host, TOPIC, "demo", "flush.messages", 10)
    send(client, b"b")
    assert codes(client) == [0]


def test_a_late_flush_does_not_lower_the_log_end() -> None:
    """V7: flush.messages is reset during a flush, so later records count before it ends."""
    host = configured_host(flush_messages=1)
    send(FrameClient(host), b"a")
    host.node.emit(ConfigureLog(LOG, TopicConfig({}, host.node.config_layers())))
    client = FrameClient(host)
    send(client, b"b")  # the turn writes its records before it applies the settings
    send(client, b"c")
    assert codes(client) == [0, 0]
    partition = host.node.replica_manager.by_log[LOG]
    host.deliver()
    assert (partition.written_end, partition.high_watermark) == (3, 3)
    host.turn()
    assert (partition.written_end, partition.high_watermark) == (3, 3)


def test_a_failing_sync_acknowledges_no_record() -> None:
    host = configured_host(flush_messages=1)
    host.files.faults.append(Fault("sync", path="demo-0"))
    client = FrameClient(host)
    send(client, b"a")
    host.turn()
    assert codes(client) == [ErrorCode.KAFKA_STORAGE_ERROR]


@pytest.mark.parametrize("held_count", [0, 1])
def test_v18_no_offset_is_assigned_twice_on_a_full_disk(held_count: int) -> None:
    """Records that wait for a flush keep their offsets, and the partition stays online."""
    host = configured_host(flush_messages=1)
    first, second = FrameClient(host), FrameClient(host)
    for _ in range(held_count):
        send(first, b"held")
    host.files.faults.append(Fault("pwritev", code=errno.ENOSPC, path="demo-0"))
    send(second, b"no room")
    assert codes(second) == [ErrorCode.KAFKA_STORAGE_ERROR]
    host.turn()
    host.turn()
    assert codes(first) == [0] * held_count
    send(second, b"again")
    host.turn()
    host.turn()
    assert codes(second) == [0]
    assert host.node.replica_manager.by_log[LOG].high_watermark == held_count + 1
