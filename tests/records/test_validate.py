"""Produce validation and its error codes, compared with Kafka's responses."""

from __future__ import annotations

import pytest

from kraftlog.errors import CorruptBatchError, ErrorCode, RejectedRecordsError
from kraftlog.records.builder import BatchBuilder
from kraftlog.records.header import read_header, stamp_append_time
from kraftlog.records.reader import read_records
from kraftlog.records.validate import (
    MAX_REJECTED,
    ProduceRules,
    check_produced,
    check_records,
)
from tests.records.produce_cases import (
    MAX_TIMESTAMP,
    NOW_MS,
    TOPICS,
    Case,
    batch_of,
    cases,
    with_field,
)

CASES = cases()
#: The default of message.timestamp.before.max.ms.
BEFORE_MAX_MS = ProduceRules().before_max_ms


def code_for(case: Case) -> int:
    """The client's error code if the records of every batch are checked, as in Kafka."""
    rules = TOPICS[case.topic]
    try:
        header = check_produced(case.records, rules, NOW_MS)
        check_records(case.records, header, rules, NOW_MS)
    except CorruptBatchError as error:
        return error.code
    return ErrorCode.NONE


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_error_code_is_the_documented_one(case: Case) -> None:
    assert code_for(case) == case.ours


def test_every_batch_that_kafka_refuses_is_refused() -> None:
    assert [c.name for c in CASES if c.ours == ErrorCode.NONE != c.kafka] == []


def test_the_header_check_finds_all_errors_but_those_of_records() -> None:
    """The list has the invalid cases that `check_produced` accepts: it does not read records."""
    passed = []
    refused = []
    for case in CASES:
        try:
            check_produced(case.records, TOPICS[case.topic], NOW_MS)
        except CorruptBatchError as error:
            refused.append((case.name, error.code))
        else:
            passed.append(case)
    codes = {case.name: case.ours for case in CASES}
    assert refused == [(name, codes[name]) for name, _ in refused]
    assert [case.name for case in passed if case.ours != ErrorCode.NONE] == [
        "a record too many",
        "a byte after the record",
        "a truncated record",
        "offsets swapped",
        "offsets all 0",
        "offset outside",
        "offsets swapped in gzip",
        "a record too many in gzip",
        "a record too few in gzip",
        "bytes after gzip",
        "bytes after lz4",
        "not compressed with snappy",
        "no key",
        "no key in gzip",
    ]


def test_zstd_in_an_old_request_is_refused() -> None:
    batch = batch_of(codec=4)
    check_produced(batch, ProduceRules(), NOW_MS)
    with pytest.raises(CorruptBatchError, match="zstd") as caught:
        check_produced(batch, ProduceRules(allows_zstd=False), NOW_MS)
    assert caught.value.code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_compacted_and_time_bounded_topics_check_records() -> None:
    checked = [name for name, rules in TOPICS.items() if rules.needs_record_checks]
    assert checked == ["compacted", "bounded"]
    assert ProduceRules(checks_every_record=True).needs_record_checks


@pytest.mark.parametrize("codec", [0, 1])
def test_refused_records_are_listed(codec: int) -> None:
    """As in Kafka, the code is INVALID_TIMESTAMP if any timestamp is wrong, else INVALID_RECORD."""
    builder = BatchBuilder(codec=codec)
    for time_ms, key in ((0, b"k"), (0, None), (9_000_000, b"k"), (0, b"k"), (9_000_000, None)):
        builder.append(NOW_MS + time_ms, key, b"v")
    batch = builder.build()
    earliest, latest = NOW_MS - BEFORE_MAX_MS, NOW_MS + 3_600_000
    late = f"timestamp {NOW_MS + 9_000_000} is not within [{earliest}, {latest}]"
    keyless = "a record of a compacted topic must have a key"
    refusals = []
    for rules in (
        ProduceRules(),
        TOPICS["compacted"],
        TOPICS["appendtime"].replace(needs_keys=True),
    ):
        with pytest.raises(RejectedRecordsError) as caught:
            check_records(batch, check_produced(batch, rules, NOW_MS), rules, NOW_MS)
        refusals.append((caught.value.code, caught.value.rejected))
    assert refusals == [
        (ErrorCode.INVALID_TIMESTAMP, [(2, late), (4, late)]),
        (ErrorCode.INVALID_TIMESTAMP, [(1, keyless), (2, late), (4, keyless)]),
        (ErrorCode.INVALID_RECORD, [(1, keyless), (4, keyless)]),
    ]


def test_a_response_lists_a_bounded_number_of_records() -> None:
    batch = batch_of(MAX_REJECTED + 1, key=None)
    header = check_produced(batch, ProduceRules(), NOW_MS)
    with pytest.raises(RejectedRecordsError) as caught:
        check_records(batch, header, TOPICS["compacted"], NOW_MS)
    assert len(caught.value.rejected) == MAX_REJECTED


def test_a_wrong_max_timestamp_is_refused() -> None:
    batch = with_field(batch_of(), MAX_TIMESTAMP, NOW_MS + 9_000_000)
    with pytest.raises(CorruptBatchError, match="not within") as caught:
        check_produced(batch, ProduceRules(), NOW_MS)
    assert caught.value.code == ErrorCode.INVALID_TIMESTAMP


def test_a_decompression_bomb_is_refused() -> None:
    batch = batch_of(1, key=bytes(1 << 20), codec=1)
    header = check_produced(batch, ProduceRules(), NOW_MS)
    with pytest.raises(CorruptBatchError, match="more than 1000 bytes") as caught:
        check_records(batch, header, ProduceRules(), NOW_MS, max_size=1000)
    assert caught.value.code == ErrorCode.INVALID_RECORD


def test_stamping_the_append_time_updates_the_crc() -> None:
    prefix = bytes(7)
    buffer = bytearray(prefix + batch_of(3) + prefix)
    stamp_append_time(buffer, 7, 1234)
    header = read_header(buffer, 7)
    assert (header.max_timestamp, header.has_log_append_time) == (1234, True)
    assert [record.timestamp_ms for record in read_records(buffer, 7)] == [1234] * 3
    assert bytes(buffer[-7:]) == prefix
