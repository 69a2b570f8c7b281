"""The result of a comparison as metrics in Prometheus's text format, for alerts."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kraftlog.spark.lake_check.findings import (
    COLUMNS,
    DELTA_LOG,
    DIFFERENT,
    DUPLICATE,
    MISCOUNTED,
    MISDESCRIBED,
    MISSING,
    NOT_IN_LOG,
    UNREADABLE,
    WITHOUT_POSITION,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraftlog.spark.lake_check.report import PartitionReport, Report

_KINDS = (
    *(MISSING, DUPLICATE, DIFFERENT, NOT_IN_LOG, WITHOUT_POSITION, MISCOUNTED),
    *(UNREADABLE, MISDESCRIBED, COLUMNS, DELTA_LOG),
)


def metrics_text(report: Report, ended_at_s: float, took_s: float) -> str:
    return "".join(f"{line}\n" for line in _lines(report, ended_at_s, took_s))


def _lines(report: Report, ended_at_s: float, took_s: float) -> Iterator[str]:
    found = Counter((each.topic, each.kind) for each in report.findings)
    topics = sorted({*(each.topic for each in report.tables), *(topic for topic, _ in found)})
    yield from _gauge("equal", "1 if the last comparison found nothing wrong.")
    for topic in topics:
        is_equal = not any(count for (of, _), count in found.items() if of == topic)
        yield f'kraftlog_verify_equal{{topic="{topic}"}} {int(is_equal)}'
    yield from _gauge("findings", "Findings of the last comparison.")
    for topic in topics:
        for kind in _KINDS:
            label = f'topic="{topic}",kind="{kind}"'
            yield f"kraftlog_verify_findings{{{label}}} {found[topic, kind]}"
    yield from _gauge("records", "Records that were found in the table and in the log.")
    for part in report.partitions:
        yield f"kraftlog_verify_records{{{_labels(part)}}} {part.lake}"
    yield from _gauge("not_archived_offsets", "Offsets of the log after the table's end.")
    for part in report.partitions:
        later = max(0, part.log_end - part.end)
        yield f"kraftlog_verify_not_archived_offsets{{{_labels(part)}}} {later}"
    yield from _gauge("last_time_seconds", "When the last comparison ended, as Unix time.")
    yield f"kraftlog_verify_last_time_seconds {ended_at_s:.3f}"
    yield from _gauge("duration_seconds", "How long the last comparison took.")
    yield f"kraftlog_verify_duration_seconds {took_s:.3f}"


def _labels(part: PartitionReport) -> str:
    return f'topic="{part.topic}",partition="{part.partition}"'


def _gauge(name: str, text: str) -> Iterator[str]:
    yield f"# HELP kraftlog_verify_{name} {text}"
    yield f"# TYPE kraftlog_verify_{name} gauge"
