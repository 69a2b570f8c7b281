"""The tombstones of a deleted group are split into batches below the usual max.message.bytes."""

from __future__ import annotations

from kraftlog.groups.pending_writes import MAX_BATCH_BYTES, MAX_BATCH_RECORDS, _parts
from kraftlog.groups.records import GroupRecord, group_tombstone, offset_tombstone


def parts_of(name: str, count: int) -> list[list[GroupRecord]]:
    records = [offset_tombstone(name, "t", index) for index in range(count)]
    records.append(group_tombstone(name))
    parts = list(_parts(records))
    assert [record for part in parts for record in part] == records
    return parts


def test_batches_of_short_names_are_limited_by_record_count() -> None:
    assert [len(part) for part in parts_of("g", 2 * MAX_BATCH_RECORDS)] == [
        MAX_BATCH_RECORDS,
        MAX_BATCH_RECORDS,
        1,
    ]


def test_batches_of_long_names_are_limited_by_bytes() -> None:
    """The limit is in bytes: each letter of this name has two."""
    for part in parts_of("ä" * 16_000, 100):
        size = sum(len(key) for record in part for key in record.encoded() if key is not None)
        assert size <= MAX_BATCH_BYTES
        assert len(part) in {16, 101 % 16}


def test_no_records_make_no_batch() -> None:
    assert not list(_parts([]))
