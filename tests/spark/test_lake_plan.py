"""Ranges cover the archived offsets without a gap; checksums do not depend on the ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from kraftlog.spark.lake_check import plan, rows_compared
from kraftlog.spark.lake_check.checksums import Checksums
from kraftlog.spark.lake_check.plan import ranges, tasks
from kraftlog.spark.lake_check.tables import FileSpan
from kraftlog.spark.schema import HEADERS

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)), max_size=12)


@given(spans=SPANS, first=st.integers(0, 30), count=st.integers(1, 50))
def test_every_archived_offset_is_in_one_range(
    spans: list[tuple[int, int]], first: int, count: int
) -> None:
    files = [
        FileSpan(f"file {number}", 0, size + 1, start, start + size, 100)
        for number, (start, size) in enumerate(spans)
    ]
    found = ranges("t", files, {0: (first, first + count)})
    start = min([first, *[file.first for file in files]])
    end = max([first + count, *[file.last + 1 for file in files]])
    assert [each.start for each in found] == [start, *[each.end for each in found[:-1]]]
    assert found[-1].end == end
    for file in files:
        [owner] = [each for each in found if file.path in each.files]
        assert owner.start <= file.first <= file.last < owner.end
    assert [each for task in tasks(found) for each in task] == found


def test_a_large_file_is_cut_between_its_row_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file with a single row group is cut evenly."""
    monkeypatch.setattr(plan, "TASK_RECORDS", 25)
    monkeypatch.setattr(plan, "RANGE_RECORDS", 60)
    path = str(tmp_path / "file.parquet")
    offsets = pa.table({"offset": pa.array(range(100, 200))})
    pq.write_table(offsets, path, row_group_size=10)
    file = FileSpan(path, 3, 100, 100, 199, 1000)
    found = ranges("t", [file], {3: (90, 200)})
    assert [(each.start, each.end) for each in found] == [
        *[(90, 120), (120, 150), (150, 170), (170, 200)]
    ]
    pq.write_table(offsets, path)
    whole = ranges("t", [file], {})
    assert [(each.start, each.end) for each in whole] == [(100, 150), (150, 200)]
    assert [len(task) for task in tasks(whole)] == [1, 1]


@given(
    values=st.lists(st.one_of(st.none(), st.binary(max_size=5)), min_size=1, max_size=20),
    cut=st.integers(0, 20),
    as_parts=st.booleans(),
)
def test_sums_do_not_depend_on_how_rows_are_cut(
    values: list[bytes | None], cut: int, *, as_parts: bool
) -> None:
    columns = {"value": pa.array(values, pa.binary()), "offset": pa.array(range(len(values)))}
    whole, parts = Checksums(), Checksums()
    whole.add(columns)
    for part in (slice(0, cut), slice(cut, len(values))):
        rows = {name: column[part] for name, column in columns.items()}
        if not len(rows["offset"]):
            continue
        if as_parts:
            later = Checksums()
            later.add(rows)
            parts.append(later)
        else:
            parts.add(rows)
    assert parts == whole
    assert parts.text() == whole.text()


@given(
    one=st.lists(st.one_of(st.none(), st.binary(max_size=3)), min_size=1, max_size=4),
    other=st.lists(st.one_of(st.none(), st.binary(max_size=3)), min_size=1, max_size=4),
)
def test_sums_of_different_values_differ(
    one: list[bytes | None], other: list[bytes | None]
) -> None:
    """Also if only the borders between values differ, or if a null stands for an empty value."""
    sums = []
    for values in (one, other):
        sums.append(Checksums())
        sums[-1].add({"value": pa.array(values, pa.binary())})
    assert (sums[0] == sums[1]) == (one == other)


def test_null_headers_are_equal_to_an_empty_list_of_headers() -> None:
    header = {"key": "name", "value": b"1"}
    sums = []
    empties: tuple[None, list[object]] = (None, [])
    for empty in empties:
        sums.append(Checksums())
        sums[-1].add({"headers": pa.array([empty, [header]], HEADERS)})
    assert sums[0] == sums[1]
    assert rows_compared._unequal(
        pa.chunked_array([pa.array([None, [header], None], HEADERS)]),
        pa.chunked_array([pa.array([[], [header], [header]], HEADERS)]),
    ) == [2]
