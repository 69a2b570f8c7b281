"""Which offsets each job of a replay has, and when it is due; without Spark."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from kraftlog.errors import ConfigError
from kraftlog.spark.replay import schedule
from kraftlog.spark.replay import table as replay_table
from kraftlog.spark.replay.schedule import duration_s, jobs, paced_jobs
from kraftlog.spark.replay.table import ReplayTable, RowFilter, Span

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from kraftlog.spark.positions import Positions

START_S = 1_790_000_000
T = "t"


def times_table(path: Path, seconds: Mapping[int, Sequence[float | None]]) -> ReplayTable:
    """A table with a record for each time, in the order of offsets, by partition."""
    cells = [
        (partition, offset, None if time is None else int((START_S + time) * 1_000_000))
        for partition, times in seconds.items()
        for offset, time in enumerate(times)
    ]
    partitions, offsets, times_us = zip(*cells, strict=True)
    columns = {
        "value": [b"v"] * len(cells),
        "partition": pa.array(partitions, pa.int32()),
        "offset": offsets,
        "timestamp": pa.array(times_us, pa.timestamp("us", tz="UTC")),
    }
    write_deltalake(str(path), pa.table(columns))
    return ReplayTable(str(path))


def paced(table: ReplayTable, pace: float) -> list[tuple[float | None, list[int]]]:
    """When each job is due, and the ends of the partitions."""
    every_row = RowFilter({})
    spans = table.spans(every_row)
    start: Positions = {(T, span.partition): span.first for span in spans}
    end: Positions = {(T, span.partition): span.last + 1 for span in spans}
    planned = list(paced_jobs(table, every_row, spans, pace, start, end))
    assert [planned[0].start, planned[-1].end] == [start, end]
    assert all(first.end == second.start for first, second in pairwise(planned))
    return [(job.due_s, [*job.end.values()]) for job in planned]


def test_records_are_due_as_in_the_original(tmp_path: Path) -> None:
    table = times_table(tmp_path, {0: [0, 1, 5, 60], 1: [4, 4.5, 61]})
    assert paced(table, 1) == [(0, [2, 0]), (4, [3, 2]), (60, [4, 3])]


def test_twice_as_fast_takes_half_the_time(tmp_path: Path) -> None:
    table = times_table(tmp_path, {0: [0, 1, 5, 60], 1: [4, 4.5, 61]})
    assert paced(table, 2) == [(0, [2, 0]), (2, [3, 2]), (30, [4, 3])]
    spans = table.spans(RowFilter({}))
    assert [duration_s(spans, None, pace) for pace in (1, 2)] == [61, 30.5]
    assert duration_s(spans, 3.5, None) == 2
    assert duration_s(spans, None, None) is None


def test_the_order_of_offsets_is_kept_at_a_pace(tmp_path: Path) -> None:
    """A record whose time is before that of an earlier record is due with the earlier one."""
    table = times_table(tmp_path, {0: [10, 0, 30, 11, 31, 50]})
    assert paced(table, 1) == [(10, [2]), (30, [5]), (50, [6])]


def test_records_without_a_time_do_not_wait(tmp_path: Path) -> None:
    """Neither null nor -1, a record without a time, is in 1970."""
    table = times_table(tmp_path, {0: [None, 0, -START_S - 0.001, 20]})
    assert paced(table, 1) == [(0, [3]), (20, [4])]


def test_a_long_replay_has_a_bounded_number_of_periods(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule, "MAX_PERIODS", 10)
    year_s = 365 * 86_400
    table = times_table(tmp_path, {0: [n * year_s / 100 for n in range(101)]})
    assert len(paced(table, 1)) == 11


def test_jobs_grow_unless_the_rate_limits_them() -> None:
    start: Positions = {(T, 0): 0, (T, 1): 1_000_000}
    end: Positions = {(T, 0): 3_000_000, (T, 1): 1_000_000}
    sizes = [job.end[T, 0] - job.start[T, 0] for job in jobs(start, end, None)]
    assert sizes == [100_000, 200_000, 400_000, 800_000, 1_000_000, 500_000]
    assert {job.end[T, 0] - job.start[T, 0] for job in jobs(start, end, 500)} == {1000}
    assert next(jobs(start, end, 0.1)).end[T, 0] == 1


def test_spans_are_those_of_the_selected_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay_table, "_COMBINED", 2)
    table = times_table(tmp_path, {0: range(100), 1: range(50)})
    found = table.spans(RowFilter({("offset", False): 10, ("offset", True): 60}))
    assert [(span.partition, span.first, span.last, span.records) for span in found] == [
        (0, 10, 59, 50),
        (1, 10, 49, 40),
    ]
    time = datetime.fromtimestamp(START_S + 40, UTC)
    assert table.spans(RowFilter({("timestamp", False): time}, None, {0: 95, 1: 45})) == [
        Span(None, 0, 95, 99, 5, (START_S + 95) * 10**6, (START_S + 99) * 10**6),
        Span(None, 1, 45, 49, 5, (START_S + 45) * 10**6, (START_S + 49) * 10**6),
    ]
    assert table.spans(RowFilter({("offset", False): 100})) == []


def test_parquet_files_are_tables_too(tmp_path: Path) -> None:
    """Times without a zone are in UTC; a column that is no time is ignored."""
    columns = {"value": [b"v"], "partition": pa.array([0], pa.int32()), "offset": [7]}
    naive = pa.array([START_S * 10**6], pa.timestamp("us"))
    pq.write_table(pa.table({**columns, "timestamp": naive}), tmp_path / "naive.parquet")
    table = ReplayTable(str(tmp_path / "naive.parquet"))
    limit = RowFilter({("timestamp", False): datetime.fromtimestamp(START_S, UTC)})
    assert [span.first for span in table.spans(limit)] == [7]
    pq.write_table(pa.table({**columns, "timestamp": ["x"]}), tmp_path / "text.parquet")
    table = ReplayTable(str(tmp_path / "text.parquet"))
    assert (table.has_times, table.spans(RowFilter({}))[0].first_us) == (False, None)
    (tmp_path / "no.parquet").write_text("no")
    with pytest.raises(ConfigError, match=r"no\.parquet"):
        ReplayTable(str(tmp_path / "no.parquet"))
