"""The small files of a log directory: round trips, and errors that name a corrupt file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftlog.errors import CorruptLogError
from kraftlog.logstate.producers import ProducerEntry, ProducerState, RetainedBatch
from kraftlog.storage.checkpoints import (
    decode_epochs,
    decode_offsets,
    decode_partition_metadata,
    encode_epochs,
    encode_offsets,
    encode_partition_metadata,
)
from kraftlog.storage.manifest import decode_manifest, decode_marker, encode_manifest, encode_marker
from kraftlog.storage.producer_snapshots import decode_snapshot, encode_snapshot
from kraftlog.storage.transactions import AbortedTransaction, decode_aborted, encode_aborted

TOPIC = st.text("abc.-_9", min_size=1, max_size=8)
LONG = st.integers(-(1 << 63), (1 << 63) - 1)
INT = st.integers(-(1 << 31), (1 << 31) - 1)
OFFSET = st.integers(0, (1 << 63) - 1)


@given(st.dictionaries(st.tuples(TOPIC, st.integers(0, 99)), OFFSET))
def test_offset_checkpoints_round_trip(offsets: dict[tuple[str, int], int]) -> None:
    assert decode_offsets(encode_offsets(offsets), "f") == offsets


@given(st.lists(st.tuples(INT, LONG)))
def test_epoch_checkpoints_round_trip(entries: list[tuple[int, int]]) -> None:
    assert decode_epochs(encode_epochs(entries), "f") == entries


def test_an_empty_checkpoint_has_no_entries() -> None:
    assert decode_offsets(b"", "f") == {}
    assert decode_epochs(b"0\n0\n", "f") == []


@pytest.mark.parametrize(
    "damaged", [b"1\n0\n", b"0\n", b"0\n2\na 0 5\n", b"0\n1\na 0\n", b"0\n1\na 0 x\n", b"\xff\n"]
)
def test_an_error_names_the_corrupt_checkpoint(damaged: bytes) -> None:
    with pytest.raises(CorruptLogError, match=r"^the/file: "):
        decode_offsets(damaged, "the/file")


@given(st.binary(min_size=16, max_size=16))
def test_partition_metadata_round_trips(topic_id: bytes) -> None:
    data = encode_partition_metadata(topic_id)
    assert decode_partition_metadata(data, "f") == topic_id
    with pytest.raises(CorruptLogError, match="the/file"):
        decode_partition_metadata(data[:-3], "the/file")
    with pytest.raises(CorruptLogError, match="version 1"):
        decode_partition_metadata(data.replace(b"0", b"1", 1), "f")


@given(
    st.lists(
        st.builds(
            ProducerEntry,
            st.integers(0, 1 << 60),
            st.integers(-1, 0x7FFF),
            st.tuples(st.builds(RetainedBatch, INT, OFFSET, st.integers(0, 99), st.just(7))),
            st.just(7),
            INT,
            st.integers(-1, 1 << 60),
        ),
        unique_by=lambda entry: (entry.producer_id, entry.transaction_start),
    )
)
def test_producer_snapshots_round_trip(entries: list[ProducerEntry]) -> None:
    state = ProducerState(entries)
    data = encode_snapshot(state)
    assert decode_snapshot(data, "f") == state
    for damaged in (data[:-1], data[:8], b"\x00\x02" + data[2:], data[:-1] + bytes([data[-1] ^ 1])):
        with pytest.raises(CorruptLogError, match="the/file"):
            decode_snapshot(damaged, "the/file")


@given(st.lists(st.builds(AbortedTransaction, LONG, LONG, LONG, LONG)))
def test_transaction_indexes_round_trip(entries: list[AbortedTransaction]) -> None:
    data = encode_aborted(entries)
    assert decode_aborted(data, "f") == entries
    with pytest.raises(CorruptLogError, match="the/file"):
        decode_aborted(data + b"x", "the/file")
    with pytest.raises(CorruptLogError, match="version 1"):
        decode_aborted(b"\x00\x01" + bytes(32), "f")


@given(
    st.dictionaries(st.tuples(TOPIC, st.integers(0, 99)), st.sampled_from([b"{}", b'{"a":" b"}']))
)
def test_manifests_round_trip(rows: dict[tuple[str, int], bytes]) -> None:
    data = encode_manifest(rows)
    assert decode_manifest(data, "f") == rows
    with pytest.raises(CorruptLogError):
        decode_manifest(b"x" + data, "f")


def test_equal_rows_of_a_manifest_are_one_object() -> None:
    """A hundred thousand empty logs have few different rows."""
    rows = {("t", number): b'{"start":%d}' % (number // 2) for number in range(4)}
    decoded = decode_manifest(encode_manifest(rows), "path")
    assert decoded == rows
    assert decoded["t", 0] is decoded["t", 1]
    assert decoded["t", 2] is decoded["t", 3]


def test_clean_shutdown_markers_have_the_manifests_checksum() -> None:
    epoch, checksum = decode_marker(encode_marker(7, b"abc"))
    assert epoch == 7
    assert checksum not in {None, decode_marker(encode_marker(7, b"abd"))[1]}
    assert decode_marker(b'{"version":0,"brokerEpoch":12}') == (12, None)
    for unreadable in (b"", b"[]", b"7", b'{"version":0}'):
        assert decode_marker(unreadable) == (-1, None)
