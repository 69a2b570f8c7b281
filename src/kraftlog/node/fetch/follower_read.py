"""Reads the changed partitions of a follower's session, without the rare cases.

`Reading.run_in_steps` reads all cases; in the usual ones the result is the same.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode, StorageError
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.fetch import FetchableTopicResponse, FetchResponse

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from kraftlog.node.fetch.reading import Reading
    from kraftlog.node.fetch_sessions import FetchSession, SessionPartition, SessionTopic
    from kraftlog.node.interfaces import ServingNode
    from kraftlog.replication.partition import Partition
    from kraftlog.replication.replica_manager import ReplicaManager
    from kraftlog.wire.messages.fetch import FetchPartition


def read_changed(reading: Reading, node: ServingNode) -> bool:
    """Read the changed partitions; False if any is unusual, and then only `reading` has changed.

    A usual partition is led by this broker in the follower's epoch, and the follower has a prefix
    of its log; no quota applies, and no DeleteRecords waits for the follower.
    """
    session, encode, manager = reading.session, reading.encode_partition, node.replica_manager
    if (
        session is None
        or encode is None
        or reading.reader.pending_positions
        or manager.quotas.leader.is_limited
    ):
        return False
    max_bytes = min(reading.request.max_bytes, node.max_fetch_bytes)
    size, is_soon = 0, False
    reading.partitions, reading.sent_bytes, reading.encoded = partitions, sent_bytes, encoded = (
        [],
        [],
        [],
    )
    unchanged: list[SessionPartition] = []
    by_topic: dict[SessionTopic, list[Any]] = {}
    for session_partition in session.changed:
        partition, part = session_partition.partition, session_partition.request
        if partition is None or not _is_usual(session_partition, partition, part, manager):
            return False
        partitions.append(partition)
        offset, end = part.fetch_offset, partition.written_end
        records, length = None, 0
        room = min(part.partition_max_bytes, max_bytes - size)
        if offset < end and (room > 0 or not size):
            try:
                records = node.logs.locate(partition.log, offset, end, room, not size)
            except StorageError:
                return False
        high_watermark, start = partition.high_watermark, partition.start
        is_new = session_partition.high_watermark != high_watermark
        if records is not None:
            length = len(records)
            size += length
            sent_bytes.append((partition.counts, length))
        elif not is_new and session_partition.start == start:
            if offset == end:
                unchanged.append(session_partition)
            continue
        is_soon |= is_new
        encoded.append((session_partition, high_watermark, start, length > 0))
        piece = encode(part.partition, high_watermark, start, records, length)
        by_topic.setdefault(session_partition.topic, []).append(piece)
    reading.size, reading.is_soon = size, is_soon and manager.selects_by_rack
    reading.has_errors, reading.is_immediate = False, False
    reading.throttle, reading.throttled_bytes = None, 0
    reading.response = _response(session, by_topic)
    _note(session, partitions, unchanged)
    return True


def _is_usual(
    session_partition: SessionPartition,
    partition: Partition,
    part: FetchPartition,
    manager: ReplicaManager,
) -> bool:
    epoch = partition.leader_epoch
    return (
        partition.online
        and not session_partition.is_removed
        and part.current_leader_epoch == part.last_fetched_epoch == epoch
        and partition.start <= part.fetch_offset <= partition.written_end
        and (part.log_start_offset >= partition.start or partition not in manager.deletions)
    )


def _response(session: FetchSession, by_topic: dict[SessionTopic, list[Any]]) -> FetchResponse:
    return FetchResponse(
        error_code=ErrorCode.NONE,
        session_id=session.id,
        responses=[
            FetchableTopicResponse(topic=it.topic, topic_id=it.topic_id, partitions=pieces)
            for it, pieces in by_topic.items()
        ],
    )


def _note(
    session: FetchSession, partitions: Sequence[Partition], unchanged: Sequence[SessionPartition]
) -> None:
    """Note that the partitions are read, and remove the unchanged ones from the session's list."""
    for session_partition, partition in zip(session.changed, partitions, strict=True):
        session_partition.written_bytes = partition.written_bytes
        partition.counts.fetches += 1
    for session_partition in unchanged:
        del session.changed[session_partition]
    session.new_bytes = 0
