"""Decides which part of a log to compact, and when; describes this as a task for the cleaner.

A log is clean up to the cleaner's offset: each key occurs at most once there. The records after it
are dirty, up to the first segment that must not be cleaned: the active one, or one with undecided
transactions, or with records that are too young, not replicated or not durable.
"""

from __future__ import annotations

from kraftlog.records.header import HEADER_SIZE, read_header
from kraftlog.storage.config import MAX_RELATIVE_OFFSET
from kraftlog.storage.segment import Segment
from kraftlog.storage.transactions import AbortedTransaction
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from kraftlog.storage.config import LogConfig
    from kraftlog.storage.log import Log

#: The approximate bytes of an entry of the cleaner's dict of keys.
KEY_BYTES = 200


class LogToClean(Value):
    """A log to compact. Logs that are due come first, then those with the highest dirty `ratio`."""

    segments: tuple[Segment, ...]
    dirty_from: int
    limit: int
    ratio: float
    #: whether dirty records have waited for longer than max.compaction.lag.ms
    is_due: bool


def last_stable_offset(log: Log, high_watermark: int) -> int:
    """The offset below which all records are replicated and all transactions decided."""
    producers = log.producers
    producers.high_watermark_moved(high_watermark)
    undecided = producers.first_unstable()
    return high_watermark if undecided < 0 else min(high_watermark, undecided)


def log_to_clean(log: Log, stable_offset: int, now_ms: int) -> LogToClean | None:
    """The segments of a log to compact; None if too little of it is dirty."""
    config = log.config
    segments = _cleanable_segments(log, min(stable_offset, log.recovery_point), now_ms)
    if not config.compacted or not segments:
        return None
    dirty_from = max(log.clean_offset, segments[0].base_offset)
    limit = log.segments[len(segments)].base_offset
    dirty = [segment for segment in segments if segment.end_offset > dirty_from]
    dirty_bytes = sum([segment.size for segment in dirty])
    if not dirty_bytes or dirty_from >= limit:
        return None
    ratio = dirty_bytes / sum([segment.size for segment in segments])
    is_due = now_ms - _first_timestamp(log, dirty) > config.max_compaction_lag_ms
    if ratio <= config.min_cleanable_dirty_ratio and not is_due:
        return None
    return LogToClean(tuple(segments), dirty_from, limit, ratio, is_due)


def _cleanable_segments(log: Log, limit: int, now_ms: int) -> list[Segment]:
    """The segments below the limit that are old enough, without the active one."""
    cleanable = []
    youngest = now_ms - log.config.min_compaction_lag_ms
    for segment, following in zip(log.segments, log.segments[1:], strict=False):
        if following.base_offset > limit:
            break
        if log.config.min_compaction_lag_ms > 0 and segment.max_timestamp > youngest:
            break
        cleanable.append(segment)
    return cleanable


def _first_timestamp(log: Log, dirty: Sequence[Segment]) -> int:
    """The largest timestamp of the first batch in the dirty segments, as in Kafka."""
    segment = next(segment for segment in dirty if segment.size)
    if segment.first_timestamp < 0:  # opened after a crash and not read yet
        head = log.disk.files.pread(segment.log.use(), HEADER_SIZE, 0)
        segment.first_timestamp = read_header(head).max_timestamp
    return segment.first_timestamp


def group_segments(segments: Sequence[Segment], config: LogConfig) -> list[list[Segment]]:
    """Group adjacent segments that together fit into one."""
    groups: list[list[Segment]] = []
    size = index_bytes = time_index_bytes = 0
    for segment in segments:
        size += segment.size
        index_bytes += 8 * len(segment.offsets)
        time_index_bytes += 12 * len(segment.times)
        if (
            not groups
            or size > config.segment_bytes
            or max(index_bytes, time_index_bytes) > config.segment_index_bytes
            or segment.end_offset - groups[-1][0].base_offset > MAX_RELATIVE_OFFSET
        ):
            groups.append([])
            size = segment.size
            index_bytes = 8 * len(segment.offsets)
            time_index_bytes = 12 * len(segment.times)
        groups[-1].append(segment)
    return groups


def describe_task(log: Log, target: LogToClean, now_ms: int, max_keys: int) -> dict[str, Any]:
    """The cleaner's input, as plain data because it runs in another process."""
    config, producers = log.config, log.producers
    first = target.segments[0].base_offset
    return {
        "folder": log.folder,
        "groups": [
            [[segment.base_offset, segment.size] for segment in group]
            for group in group_segments(target.segments, config)
        ],
        "dirty_from": target.dirty_from,
        "limit": target.limit,
        "now_ms": now_ms,
        "delete_retention_ms": config.delete_retention_ms,
        "index_interval_bytes": config.index_interval_bytes,
        "max_keys": max_keys,
        "aborted": [
            [entry.producer_id, entry.first_offset, entry.last_offset, entry.stable_offset]
            for entry in log.aborted_transactions(first, target.limit)
        ],
        "producers": [
            [entry.producer_id, entry.epoch, entry.last_offset]
            for entry in producers.entries.values()
        ],
    }


def new_segment(log: Log, result: dict[str, Any]) -> Segment:
    """The segment that the cleaner reports, whose files are not swapped in yet."""
    # `bases`: the base offsets of the segments that it replaces; it takes the first one's.
    segment = Segment(log.disk, log.folder, result["bases"][0])
    segment.size = result["size"]
    segment.first_timestamp = result["first_timestamp"]
    segment.max_timestamp = result["max_timestamp"]
    segment.max_timestamp_offset = result["max_timestamp_offset"]
    segment.has_index_files = True
    segment.aborted = [AbortedTransaction(*entry) for entry in result["aborted"]]
    return segment
