"""Log compaction: rewrites segments so that each key keeps its latest value.

It is CPU-bound, so it runs in a worker process: it takes plain data, reads segments and writes
`.cleaned` files, which the log then swaps in. First it collects the latest offset of each key in
the dirty part, then it rewrites all segments. As in Kafka's cleaner, these records are removed:

- A record whose key has a later offset, and one without a key.
- A tombstone, once the delete horizon that its batch got in an earlier pass has passed.
- All records of an aborted transaction; the marker of a transaction without records, once its
  horizon has passed.

Offsets never change. A batch that loses records keeps its first and last offset, and the last batch
of each producer stays even if it is empty, because of its sequence number.
"""

from __future__ import annotations

from hashlib import blake2b

from kraftlog.errors import StorageError
from kraftlog.records.builder import BatchBuilder, build_empty_batch, rebuild_batch
from kraftlog.records.header import HEADER_SIZE, LENGTH_OVERHEAD, BatchHeader, read_checked_header
from kraftlog.records.reader import MAX_RECORDS_SIZE, check_crc, decode_records, records_payload
from kraftlog.records.split import split_records
from kraftlog.storage.batches import read_marker
from kraftlog.storage.config import MAX_POSITION
from kraftlog.storage.disk import Disk, write_all, write_whole
from kraftlog.storage.scan import Scan, scan_file
from kraftlog.storage.segment import INDEX, LOG, TIME_INDEX, TRANSACTION_INDEX
from kraftlog.storage.swaps import CLEANED, discard_cleaned
from kraftlog.storage.transactions import AbortedTransaction, encode_aborted
from kraftlog.types import ControlType
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from kraftlog.ports.files import Files
    from kraftlog.types import Buffer

#: Bytes per read and write.
_CHUNK = 1 << 20
#: Keys of this size or more are kept as a digest of this many bytes.
_DIGEST_SIZE = 16


def clean(files: Files, task: dict[str, Any]) -> dict[str, Any]:
    """Run the task of `compaction.describe_task`; return the rewritten groups and the clean end."""
    undo_stems: list[str] = []
    try:
        return _CleaningPass(files, task).run(undo_stems)
    except BaseException:
        for stem in undo_stems:
            discard_cleaned(files, stem)
        raise


class _CleaningPass:
    """One pass over one log."""

    def __init__(self, files: Files, task: dict[str, Any]) -> None:
        self.files = files
        self.task = task
        self.folder: str = task["folder"]
        self.aborted = [AbortedTransaction(*entry) for entry in task["aborted"]]
        self.keys = LatestOffsets(task["max_keys"])
        self.read_bytes = 0

    def run(self, undo_stems: list[str]) -> dict[str, Any]:
        """Clean the log; add each group's file stem to `undo_stems` before it is written."""
        groups = self.task["groups"]
        clean_to = self._collect_keys([segment for group in groups for segment in group])
        cleaner = Cleaner(
            self.keys,
            Transactions(self.aborted),
            {pid: (epoch, last) for pid, epoch, last in self.task["producers"]},
            self.task["now_ms"],
            self.task["delete_retention_ms"],
        )
        results = []
        for group in groups:
            if group[0][0] >= clean_to:
                break
            stem = self._stem(group[0][0])
            undo_stems.append(stem)
            result = self._rewrite(stem, group, cleaner)
            if result is not None:
                results.append(result)
        return {"groups": results, "clean_to": clean_to, "read_bytes": self.read_bytes}

    def _stem(self, base: int) -> str:
        return f"{self.folder}/{base:020d}"

    def _collect_keys(self, segments: list[list[int]]) -> int:
        """Collect the dirty part's keys while they fit; return the new end of the clean part."""
        dirty_from, limit = self.task["dirty_from"], self.task["limit"]
        transactions = Transactions(self.aborted)
        ends = [base for base, _ in segments[1:]] + [limit]
        for (base, size), end in zip(segments, ends, strict=True):
            if end <= dirty_from:
                continue
            for header, data in read_batches(self.files, self._stem(base) + LOG, size):
                if header.last_offset < dirty_from:
                    continue
                if header.is_control:
                    transactions.is_empty_marker(header, data)  # ends the transaction
                elif not transactions.is_aborted(header):
                    if not self.keys.has_room(header.record_count):
                        return self.keys.end
                    self.keys.add(header, data, dirty_from)
                self.keys.end = header.last_offset + 1
        self.keys.end = limit
        return int(limit)

    def _rewrite(
        self, stem: str, group: list[list[int]], cleaner: Cleaner
    ) -> dict[str, Any] | None:
        """Write a group's new segment, durable but not swapped in; None if nothing changes."""
        output = _Output(self.files, stem, self.task["index_interval_bytes"])
        cleaner.transactions.kept = []
        size, changed = 0, len(group) > 1
        try:
            for base, segment_size in group:
                for header, data in read_batches(self.files, self._stem(base) + LOG, segment_size):
                    cleaned = cleaner.cleaned(header, data)
                    changed |= cleaned is not data
                    if cleaned is not None:
                        output.write(cleaned)
                size += segment_size
            self.read_bytes += size
            if not changed:
                discard_cleaned(self.files, stem)
                return None
            return {
                "bases": [base for base, _ in group],
                "old_size": size,
                **output.finish(cleaner.transactions.kept),
                "aborted": [
                    [entry.producer_id, entry.first_offset, entry.last_offset, entry.stable_offset]
                    for entry in cleaner.transactions.kept
                ],
            }
        finally:
            output.close()


def read_batches(files: Files, path: str, size: int) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Header and bytes of every batch of a segment; a corrupt batch ends the pass."""
    fd = files.open(path, write=False)
    try:
        position, read_size = 0, _CHUNK
        while position < size:
            length = min(read_size, size - position)
            chunk = memoryview(files.pread(fd, length, position))
            in_chunk, read_size = 0, _CHUNK
            while len(chunk) - in_chunk >= HEADER_SIZE:
                length_field = chunk[in_chunk + 8 : in_chunk + 12]
                batch_size = int.from_bytes(length_field, "big") + LENGTH_OVERHEAD
                if batch_size > len(chunk) - in_chunk:
                    read_size = max(read_size, batch_size)
                    break
                header = read_checked_header(chunk, in_chunk)
                check_crc(chunk, header, in_chunk)
                yield header, chunk[in_chunk : in_chunk + batch_size]
                in_chunk += batch_size
            if len(chunk) < length or (not in_chunk and position + read_size > size):
                raise StorageError(f"{path}: no whole record batch at position {position}")
            position += in_chunk
    finally:
        files.close(fd)


class LatestOffsets:
    """The latest offset of each key, below `end`."""

    def __init__(self, max_keys: int) -> None:
        self.max_keys = max_keys
        self.offsets: dict[bytes, int] = {}
        self.end = 0

    def has_room(self, count: int) -> bool:
        """Whether this many more keys fit; the first batch always does, so that a pass proceeds."""
        return not self.offsets or len(self.offsets) + count <= self.max_keys

    def add(self, header: BatchHeader, data: Buffer, first: int) -> None:
        offsets, base = self.offsets, header.base_offset
        for _, _, key, _, delta, _ in split_records(_payload(header, data), header.record_count):
            if key is not None and base + delta >= first:
                offsets[_digest(key)] = base + delta


def _digest(key: bytes) -> bytes:
    """The key itself if it is shorter than a digest, else its digest; so the two never collide."""
    return key if len(key) < _DIGEST_SIZE else blake2b(key, digest_size=_DIGEST_SIZE).digest()


def _payload(header: BatchHeader, data: Buffer) -> bytes:
    return records_payload(data, header, max_size=max(MAX_RECORDS_SIZE, header.size))


class Transactions:
    """Tracks a log's transactions: which are aborted, and which have no records left.

    Pass it each batch once, in order, because its methods also update its state. `kept` are the
    aborted transactions that still had batches: their marker stays, and their index entry with it.
    """

    def __init__(self, aborted: list[AbortedTransaction]) -> None:
        self.kept: list[AbortedTransaction] = []
        self._upcoming = sorted(aborted, key=lambda entry: -entry.first_offset)
        self._aborting: dict[int, AbortedTransaction] = {}
        #: The producers with records in a transaction that will abort, or commit.
        self._seen_aborting: set[int] = set()
        self._seen_committing: set[int] = set()

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether a batch is part of an aborted transaction."""
        self._advance_to(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborting:
            self._seen_aborting.add(header.producer_id)
            return True
        self._seen_committing.add(header.producer_id)
        return False

    def is_empty_marker(self, header: BatchHeader, data: Buffer) -> bool:
        """Whether a control batch is the marker of a transaction without records left."""
        self._advance_to(header.last_offset)
        if not header.record_count:
            return True
        marker = read_marker(data, 0)
        if marker is None:
            return False
        producer_id = header.producer_id
        if marker.kind == ControlType.ABORT:
            entry = self._aborting.pop(producer_id, None)
            if entry is None or producer_id not in self._seen_aborting:
                return True
            self._seen_aborting.discard(producer_id)
            self.kept.append(entry)
            return False
        seen = producer_id in self._seen_committing
        self._seen_committing.discard(producer_id)
        return not seen

    def _advance_to(self, offset: int) -> None:
        while self._upcoming and self._upcoming[-1].first_offset <= offset:
            entry = self._upcoming.pop()
            self._aborting.setdefault(entry.producer_id, entry)


class Cleaner:
    """Decides which records of a batch to keep.

    `producers` has the epoch and last data offset (-1: none) of each producer id.
    """

    def __init__(
        self,
        keys: LatestOffsets,
        transactions: Transactions,
        producers: dict[int, tuple[int, int]],
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        self.keys = keys
        self.transactions = transactions
        self.producers = producers
        self.now_ms = now_ms
        self.delete_retention_ms = delete_retention_ms

    def cleaned(self, header: BatchHeader, data: Buffer) -> Buffer | None:
        """The batch to write, the same bytes if nothing changes, or None if it is removed."""
        if header.is_control:
            return self._cleaned_marker(header, data)
        if self.transactions.is_aborted(header):
            return self._empty_batch(header)
        if header.base_offset >= self.keys.end:
            return data
        return self._cleaned_records(header, data)

    def _cleaned_marker(self, header: BatchHeader, data: Buffer) -> Buffer | None:
        if not self.transactions.is_empty_marker(header, data):
            return data
        horizon = header.delete_horizon_ms
        if not header.record_count or (horizon is not None and horizon <= self.now_ms):
            return self._empty_batch(header)
        return self._with_horizon(header, data, None) if horizon is None else data

    def _cleaned_records(self, header: BatchHeader, data: Buffer) -> Buffer | None:
        horizon = header.delete_horizon_ms
        tombstones_stay = horizon is None or self.now_ms < horizon
        latest, end, base = self.keys.offsets, self.keys.end, header.base_offset
        payload = _payload(header, data)
        kept: list[bytes] = []
        deltas: set[int] = set()
        max_timestamp, has_tombstone = -1, False
        for start, stop, key, has_value, delta, time in split_records(payload, header.record_count):
            if base + delta < end:
                if key is None or latest.get(_digest(key), -1) > base + delta:
                    continue
                if not (has_value or tombstones_stay):
                    continue
            has_tombstone |= not has_value
            kept.append(payload[start:stop])
            deltas.add(delta)
            max_timestamp = max(max_timestamp, time)
        if not kept:
            return self._empty_batch(header)
        if has_tombstone and horizon is None:
            return self._with_horizon(header, data, deltas)
        if len(kept) == header.record_count:
            return data
        if header.has_log_append_time:
            max_timestamp = header.max_timestamp
        else:
            max_timestamp += header.base_timestamp
        return rebuild_batch(header, b"".join(kept), len(kept), max_timestamp)

    def _with_horizon(self, header: BatchHeader, data: Buffer, deltas: set[int] | None) -> bytes:
        """The records with these offset deltas (None: all), with a new delete horizon."""
        builder = BatchBuilder(
            base_offset=header.base_offset,
            leader_epoch=header.leader_epoch,
            codec=header.codec,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            is_transactional=header.is_transactional,
            is_control=header.is_control,
            append_time_ms=header.max_timestamp if header.has_log_append_time else None,
            delete_horizon_ms=self.now_ms + self.delete_retention_ms,
        )
        for record in decode_records(header, _payload(header, data)):
            if deltas is None or record.offset - header.base_offset in deltas:
                builder.append(
                    record.timestamp_ms,
                    record.key,
                    record.value,
                    record.headers,
                    offset=record.offset,
                )
        return builder.build(last_offset=header.last_offset)

    def _empty_batch(self, header: BatchHeader) -> bytes | None:
        """An empty batch that keeps the producer's last sequence and epoch; None if not needed."""
        if not self._is_last_of_producer(header):
            return None
        return build_empty_batch(
            header.base_offset,
            header.last_offset,
            leader_epoch=header.leader_epoch,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            timestamp_ms=header.max_timestamp,
            is_transactional=header.is_transactional,
            is_control=header.is_control,
            has_log_append_time=header.has_log_append_time,
        )

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        producer = self.producers.get(header.producer_id)
        if producer is None:
            return False
        epoch, last_offset = producer
        if last_offset >= 0:
            return header.last_offset == last_offset
        return header.is_control and header.producer_epoch == epoch


class _Output:
    """A new segment under names that end in `.cleaned`."""

    def __init__(self, files: Files, stem: str, interval_bytes: int) -> None:
        self._files = files
        self._stem = stem
        self._base = int(stem[-20:])
        self._interval_bytes = interval_bytes
        self._buffered: list[Buffer] = []
        self._buffered_bytes = 0
        self._size = 0
        discard_cleaned(files, stem)
        self._fd = files.open(stem + LOG + CLEANED, create=True)

    def write(self, batch: Buffer) -> None:
        self._buffered.append(batch)
        self._buffered_bytes += len(batch)
        if self._buffered_bytes >= _CHUNK:
            self._write_out()

    def _write_out(self) -> None:
        self._size += write_all(
            self._files, self._fd, self._buffered, self._size, self._buffered_bytes
        )
        if self._size > MAX_POSITION:
            raise StorageError(f"{self._stem}: compaction would make a segment too large")
        self._buffered, self._buffered_bytes = [], 0

    def finish(self, aborted: list[AbortedTransaction]) -> dict[str, int]:
        """Write the indexes and make all durable; return the segment's size and timestamps."""
        files, stem = self._files, self._stem
        if self._buffered:
            self._write_out()
        files.sync(self._fd)
        scan = Scan(self._base, self._interval_bytes, with_crc=False)
        handle = Disk(files).handle(stem + LOG + CLEANED)
        for _ in scan_file(Disk(files), handle, self._size, scan):
            pass
        handle.release()
        if scan.position != self._size:
            raise StorageError(f"{stem}: compaction has written an invalid segment: {scan.problem}")
        scan.times.append(scan.max_timestamp, scan.max_timestamp_offset - self._base)
        write_whole(files, stem + INDEX + CLEANED, bytes(scan.offsets.load()))
        write_whole(files, stem + TIME_INDEX + CLEANED, bytes(scan.times.load()))
        if aborted:
            write_whole(files, stem + TRANSACTION_INDEX + CLEANED, encode_aborted(aborted))
        return {
            "size": self._size,
            "first_timestamp": scan.first_timestamp,
            "max_timestamp": scan.max_timestamp,
            "max_timestamp_offset": scan.max_timestamp_offset,
        }

    def close(self) -> None:
        self._files.close(self._fd)
