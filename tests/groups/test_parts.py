"""The tombstones of a deleted group are split into batches that any topic accepts."""

from __future__ import annotations

from kraftlog.groups.pending_writes import BYTES_A_BATCH, RECORDS_A_BATCH, _parts
from kraftlog.groups.records import GroupRecord, no_group_record, no_offset_record


def parts_of(name: str, count: int) -> list[list[GroupRecord]]:
    records = [no_offset_record(name, "t", index) for index in range(count)]
    records.append(no_group_record(name))
    parts = list(_parts(records))
    assert [record for part in parts for record in part] == records
    return parts


def test_short_names_are_bounded_by_their_number() -> None:
    assert [len(part) for part in parts_of("g", 2 * RECORDS_A_BATCH)] == [
        RECORDS_A_BATCH,
        RECORDS_A_BATCH,
        1,
    ]


def test_long_names_are_bounded_by_their_bytes() -> None:
    """Each letter takes two bytes."""
    for part in parts_of("ä" * 16_000, 100):
        size = sum(len(key) for record in part for key in record.encoded() if key is not None)
        assert size <= BYTES_A_BATCH
        assert len(part) in {16, 101 % 16}


def test_nothing_is_no_batch() -> None:
    assert not list(_parts([]))
