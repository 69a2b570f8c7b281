"""False values in a batch header, which the broker does not verify, affect only that batch."""

from __future__ import annotations

import pytest

from kraftlog.config.keys import BROKER, TOPIC
from kraftlog.errors import ErrorCode
from kraftlog.records.header import read_header
from kraftlog.records.reader import read_records
from kraftlog.types import Now
from kraftlog.wire.apis import ApiKey
from tests.node.frame_client import FrameClient, configured_host, make_host, set_config
from tests.node.produce.test_template import RECORD, batch_with_false_header
from tests.node.test_producers import Writer
from tests.node.test_requests import batch, fetch, fetched_partition
from tests.records.produce_cases import MAX_TIMESTAMP, NOW_MS, Case, batch_of, cases, with_field
from tests.virtual_host import VirtualHost

MAX_COUNT = 2**31 - 1
PLAIN_CASES = [case for case in cases() if case.topic == "plain"]


@pytest.mark.parametrize("codec", range(5))
def test_false_record_counts_are_refused(codec: int) -> None:
    """Stored, they would make the next roll fail, and recovery truncate acknowledged records."""
    host = make_host()
    writer = Writer(host)
    for _ in range(2):  # by the ordinary path, then by the fast path
        assert writer.write(batch(b"acknowledged"))[0] == ErrorCode.NONE
        false_batch = batch_with_false_header(codec, RECORD, MAX_COUNT)
        assert writer.write(false_batch) == (ErrorCode.INVALID_RECORD, -1)
    log = host.runner.directory.logs["demo", 0]
    log.roll(host.now.wall_ms)
    assert writer.write(batch(b"acknowledged"))[0] == ErrorCode.NONE
    host.files.kill()
    restarted = VirtualHost(host.files)
    assert restarted.node.replica_manager.by_log["demo", 0].end == 3
    assert restarted.log_lines == []


@pytest.mark.parametrize("case", PLAIN_CASES, ids=lambda case: case.name)
def test_batches_get_the_errors_of_their_records_if_these_are_validated(case: Case) -> None:
    """With `batch.validation=records`, readers can read every stored batch."""
    host = configured_host(batch_validation="records")
    host.now = Now(0, NOW_MS)
    writer = Writer(host)
    assert writer.write(batch_of())[0] == ErrorCode.NONE
    assert writer.write(case.records)[0] == case.ours
    if case.ours == ErrorCode.NONE:
        assert len(writer.values()) == 3 + read_header(case.records).record_count


def test_a_validated_batch_has_the_max_timestamp_of_its_records() -> None:
    """As in Kafka; without validation of records the header's value is kept."""
    raw = with_field(batch_of(), MAX_TIMESTAMP, NOW_MS - 5)
    timestamps = []
    for validation in ("header", "records"):
        host = configured_host(batch_validation=validation)
        host.now = Now(0, NOW_MS)
        assert Writer(host).write(raw) == (ErrorCode.NONE, 0)
        stored = bytes(fetched_partition(FrameClient(host).ask(ApiKey.FETCH, 12, fetch(0))).records)
        timestamps.append(read_header(stored).max_timestamp - NOW_MS)
        assert [record.value for record in read_records(stored)] == [b"v0", b"v1", b"v2"]
    assert timestamps == [-5, 2]


def test_the_brokers_validation_is_the_default_of_topics() -> None:
    host = make_host()
    writer = Writer(host)
    false_batch = batch_with_false_header(
        0, RECORD[:-1] + b"\x01", 1
    )  # the record's bytes do not match the header
    results = [writer.write(false_batch)[0]]
    set_config(host, BROKER, "", "batch.validation", "records")
    results.append(writer.write(false_batch)[0])
    set_config(host, TOPIC, "demo", "batch.validation", "header")
    results.append(writer.write(false_batch)[0])
    assert results == [ErrorCode.NONE, ErrorCode.INVALID_RECORD, ErrorCode.NONE]
