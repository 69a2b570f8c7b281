"""Claims in a batch header that are not verified, and what false ones could cost others."""

from __future__ import annotations

import pytest

from kraftlog.config.keys import BROKER, TOPIC
from kraftlog.errors import ErrorCode
from kraftlog.records.header import read_header
from kraftlog.records.reader import read_records
from kraftlog.simulator.host import VirtualHost
from kraftlog.types import Now
from kraftlog.wire.apis import ApiKey
from tests.node.fast_path.test_produce import RECORD, claiming
from tests.node.frame_client import FrameClient, configured_host, make_host, set_config
from tests.node.test_producers import Writer
from tests.node.test_requests import batch, fetch, found_in
from tests.records.produce_cases import NOW_MS, Case, cases, made, put

MOST = 2**31 - 1
PLAIN_CASES = [case for case in cases() if case.topic == "plain"]


@pytest.mark.parametrize("codec", range(5))
def test_false_record_counts_are_refused(codec: int) -> None:
    """Two of them made the next roll end the node, and its recovery cut acknowledged records."""
    host = make_host()
    writer = Writer(host)
    for _ in range(2):  # the first time the ordinary way, the second time the quick one
        assert writer.write(batch(b"acknowledged"))[0] == ErrorCode.NONE
        liar = claiming(codec, RECORD, MOST)
        assert writer.write(liar) == (ErrorCode.INVALID_RECORD, -1)
    log = host.runner.directory.logs["demo", 0]
    log.roll(host.now.wall_ms)
    assert writer.write(batch(b"acknowledged"))[0] == ErrorCode.NONE
    host.files.kill()
    again = VirtualHost(host.files)
    assert again.node.replica_manager.by_log["demo", 0].end == 3
    assert again.log_lines == []


@pytest.mark.parametrize("case", PLAIN_CASES, ids=lambda case: case.name)
def test_validated_batches_get_the_errors_of_their_records(case: Case) -> None:
    """`batch.validation=records`: what is stored, every reader can read."""
    host = configured_host(batch_validation="records")
    host.now = Now(0, NOW_MS)
    writer = Writer(host)
    assert writer.write(made())[0] == ErrorCode.NONE
    assert writer.write(case.records)[0] == case.ours
    if case.ours == ErrorCode.NONE:
        assert len(writer.values()) == 3 + read_header(case.records).record_count


def test_a_validated_batch_has_the_max_timestamp_of_its_records() -> None:
    """As Kafka's broker does; a header that is only read is believed."""
    raw = put(made(), 35, ">q", NOW_MS - 5)
    found = []
    for form in ("header", "records"):
        host = configured_host(batch_validation=form)
        host.now = Now(0, NOW_MS)
        assert Writer(host).write(raw) == (ErrorCode.NONE, 0)
        stored = bytes(found_in(FrameClient(host).ask(ApiKey.FETCH, 12, fetch(0))).records)
        found.append(read_header(stored).max_timestamp - NOW_MS)
        assert [record.value for record in read_records(stored)] == [b"v0", b"v1", b"v2"]
    assert found == [-5, 2]


def test_the_brokers_validation_is_the_default_of_topics() -> None:
    host = make_host()
    writer = Writer(host)
    liar = claiming(0, RECORD[:-1] + b"\x01", 1)  # a header that the record does not have
    results = [writer.write(liar)[0]]
    set_config(host, BROKER, "", "batch.validation", "records")
    results.append(writer.write(liar)[0])
    set_config(host, TOPIC, "demo", "batch.validation", "header")
    results.append(writer.write(liar)[0])
    assert results == [ErrorCode.NONE, ErrorCode.INVALID_RECORD, ErrorCode.NONE]
