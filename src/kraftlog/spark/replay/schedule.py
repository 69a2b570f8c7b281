"""When a replay writes which offsets: as fast as it goes, at a rate, or at the original pace.

It is divided into jobs of Spark, each with a range of offsets of every partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kraftlog.spark.positions import prorated

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kraftlog.records.encode_columns import Numbers
    from kraftlog.spark.positions import Positions
    from kraftlog.spark.replay.table import ReplayTable, RowFilter, Span

#: A job has at most this many offsets; with a low rate, fewer. The first one has fewer, so that
#: there is progress to show soon.
MAX_OFFSETS_PER_JOB = 1_000_000
FIRST_JOB = 100_000
#: At a rate or a pace, a job has the records of this many seconds.
SECONDS_PER_JOB = 2
#: At a pace, longer replays have longer periods, to bound the memory.
MAX_PERIODS = 1_000_000
_US = 1_000_000


class Job(NamedTuple):
    """Ranges of offsets, by topic and partition, and when they are due after the beginning."""

    start: Positions
    end: Positions
    #: None: when the rate allows it.
    due_s: float | None = None


def jobs(start: Positions, end: Positions, rate: float | None) -> Iterator[Job]:
    """Successive ranges of all partitions, without pace."""
    if rate is not None:
        size = max(1, min(MAX_OFFSETS_PER_JOB, int(rate * SECONDS_PER_JOB)))
        largest = size
    else:
        size, largest = FIRST_JOB, MAX_OFFSETS_PER_JOB
    while any(start[name] < end[name] for name in end):
        end_of_job = prorated(start, end, size)
        yield Job(start, end_of_job)
        start, size = end_of_job, min(2 * size, largest)


def duration_s(spans: Sequence[Span], rate: float | None, pace: float | None) -> float | None:
    """How long a replay of these records takes at least; None if as long as it takes."""
    if rate is not None:
        return sum(span.records for span in spans) / rate
    if pace is None:
        return None
    first_us, last_us = times_us(spans)
    return (last_us - first_us) / _US / pace


def times_us(spans: Sequence[Span]) -> tuple[int, int]:
    """The time of the oldest and of the newest record."""
    firsts = [span.first_us for span in spans if span.first_us is not None]
    lasts = [span.last_us for span in spans if span.last_us is not None]
    return min(firsts, default=0), max(lasts, default=0)


def paced_jobs(
    table: ReplayTable,
    row_filter: RowFilter,
    spans: Sequence[Span],
    pace: float,
    start: Positions,
    end: Positions,
) -> Iterator[Job]:
    """Successive ranges, each with the records of a period, due as in the original `pace` times.

    A record is due with its own time or, as the order of offsets is kept, with the latest time of
    the records before it in its partition.
    """
    first_us, last_us = times_us(spans)
    period_us = max(int(SECONDS_PER_JOB * pace * _US), (last_us - first_us) // MAX_PERIODS, 1)
    found = table.periods(row_filter, first_us, period_us)
    periods = found.column("period").fill_null(0).to_numpy()
    partitions = found.column("partition").to_numpy()
    offsets = found.column("offset_min").to_numpy()
    later = {
        name: _first_offsets(periods[partitions == name[1]], offsets[partitions == name[1]])
        for name in end
    }
    for period in np.unique(periods).tolist():
        due_s = period * period_us / _US / pace
        end_of_period = {name: _end(later[name], period, end[name]) for name in end}
        end_of_period = {name: max(start[name], end_of_period[name]) for name in end}
        for job in jobs(start, end_of_period, None):
            yield job._replace(due_s=due_s)
        start = end_of_period


def _first_offsets(periods: Numbers, offsets: Numbers) -> tuple[Numbers, Numbers]:
    """The periods in their order, and the first offset that any one from each on has."""
    order = periods.argsort()
    from_the_last = np.minimum.accumulate(offsets[order][::-1])
    return periods[order], from_the_last[::-1]


def _end(later: tuple[Numbers, Numbers], period: int, end: int) -> int:
    """The first offset that belongs to a later period."""
    periods, first_offsets = later
    index = int(periods.searchsorted(period, side="right"))
    return int(first_offsets[index]) if index < len(periods) else end
