"""Control records: keys, names and transaction markers."""

from __future__ import annotations

import pytest

from kraftlog.errors import CorruptBatchError
from kraftlog.records import control
from kraftlog.records.header import read_header
from kraftlog.records.reader import read_records
from kraftlog.types import ControlType


def test_a_control_batch_of_the_quorum_is_not_transactional() -> None:
    batch = control.build_control_batch(
        [(ControlType.KRAFT_VERSION, b"v"), (ControlType.KRAFT_VOTERS, b"w")],
        base_offset=7,
        leader_epoch=3,
        timestamp_ms=99,
    )
    header = read_header(batch)
    assert (header.is_control, header.is_transactional, header.leader_epoch) == (True, False, 3)
    decoded = [
        (record.offset, control.decode_control_key(record.key), record.value)
        for record in read_records(batch)
    ]
    assert decoded == [(7, ControlType.KRAFT_VERSION, b"v"), (8, ControlType.KRAFT_VOTERS, b"w")]


def test_unknown_control_types_are_named_unknown() -> None:
    assert control.control_name(ControlType.COMMIT) == "COMMIT"
    assert control.control_name(ControlType.KRAFT_VOTERS) == "KRAFT_VOTERS"
    assert control.control_name(7) == control.control_name(-1) == "UNKNOWN"


def test_fields_of_later_versions_are_skipped() -> None:
    assert control.decode_control_key(b"\0\1\0\2more") == ControlType.LEADER_CHANGE
    assert control.decode_end_marker(b"\0\1\0\0\0\5more") == 5


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", b"\xff\xff\0\0"])
def test_invalid_control_keys_are_refused(key: bytes | None) -> None:
    with pytest.raises(CorruptBatchError, match="control record"):
        control.decode_control_key(key)


def test_errors_show_bytes_as_hexadecimal() -> None:
    with pytest.raises(CorruptBatchError, match="null is not the key of a control record"):
        control.decode_control_key(None)
    with pytest.raises(CorruptBatchError, match="0x0a27 is not the value of an end-of-transaction"):
        control.decode_end_marker(b"\n'")


@pytest.mark.parametrize("value", [None, b"", b"\0\0\0\0\0", b"\xff\xff\0\0\0\0"])
def test_invalid_markers_are_refused(value: bytes | None) -> None:
    with pytest.raises(CorruptBatchError, match="end-of-transaction"):
        control.decode_end_marker(value)
