"""Helpers for compaction tests: a compaction pass, and the records of a log."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kraftlog.records.header import read_header
from kraftlog.records.reader import read_records
from kraftlog.storage.cleaning import clean
from kraftlog.storage.compaction import describe_task, last_stable_offset, log_to_clean, new_segment
from tests.storage.making import SMALL, T0, read_all

if TYPE_CHECKING:
    from kraftlog.storage.log import Log

HORIZON_MS = 1000
COMPACTED = SMALL.replace(
    contiguous=False,
    compacted=True,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=HORIZON_MS,
)


def compact(log: Log, now_ms: int = T0, max_keys: int = 1000) -> bool:
    """Run one pass as a node does; return whether there was anything to compact."""
    target = log_to_clean(log, last_stable_offset(log, log.end_offset), now_ms)
    if target is None:
        return False
    task = json.loads(json.dumps(describe_task(log, target, now_ms, max_keys)))
    result = clean(log.disk.files, task)
    old = {segment.base_offset: segment for segment in target.segments}
    for group in result["groups"]:
        log.replace_segments([old[base] for base in group["bases"]], new_segment(log, group))
    log.disk.files.sync_folder(log.folder)
    log.clean_offset = result["clean_to"]
    return True


Records = list[tuple[int, bytes | None, bytes | None]]


def records_of(log: Log) -> Records:
    """Offset, key and value of each record that a read_committed consumer sees."""
    aborted = log.aborted_transactions(0, log.end_offset)
    records = []
    for batch in read_all(log):
        header = read_header(batch)
        is_aborted = header.is_transactional and any(
            entry.producer_id == header.producer_id
            and entry.first_offset <= header.base_offset < entry.last_offset
            for entry in aborted
        )
        if not header.is_control and not is_aborted:
            records += [(record.offset, record.key, record.value) for record in read_records(batch)]
    return records


def latest(records: Records) -> dict[bytes | None, tuple[int, bytes]]:
    """The latest offset and value of each key, without tombstones."""
    by_key: dict[bytes | None, tuple[int, bytes]] = {}
    for offset, key, value in records:
        by_key.pop(key, None)
        if value is not None:
            by_key[key] = offset, value
    return by_key
