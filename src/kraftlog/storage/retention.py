"""Retention: pure decisions about the segments of one log."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kraftlog.storage.config import LogConfig
    from kraftlog.storage.segment import Segment


def expired_segments(
    segments: Sequence[Segment],
    config: LogConfig,
    now_ms: int,
    limit: int,
    modified_ms: Callable[[Segment], int],
) -> int:
    """How many segments from the start are expired, by time or by size.

    Only segments below `limit`, the high watermark, expire. A segment without timestamps is as old
    as its file.
    """
    surplus = sum([segment.size for segment in segments]) - config.retention_bytes
    count = 0
    for segment in segments:
        if segment.end_offset > limit or (segment.size == 0 and segment is segments[-1]):
            break
        log_is_too_big = config.retention_bytes >= 0 and surplus >= segment.size
        if not log_is_too_big:
            if config.retention_ms < 0:
                break
            newest = segment.max_timestamp
            if now_ms - (newest if newest >= 0 else modified_ms(segment)) <= config.retention_ms:
                break
        surplus -= segment.size
        count += 1
    return count


def segments_below(segments: Sequence[Segment], offset: int) -> int:
    """How many segments from the start have no records at or above `offset`."""
    count = 0
    for following in segments[1:]:
        if following.base_offset > offset:
            break
        count += 1
    if count == len(segments) - 1 and segments[-1].size and segments[-1].end_offset <= offset:
        count += 1
    return count
