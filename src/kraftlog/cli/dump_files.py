"""Prints offset, time and transaction indexes, and producer snapshots, as `kafka-dump-log` does."""

from __future__ import annotations

import json
import os

from kraftlog.errors import CorruptLogError
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    import struct


def _read_file(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def base_offset(path: str) -> int:
    """The base offset in the name of a log file."""
    text = os.path.basename(path).partition(".")[0].partition("-")[0]
    if not text.isdecimal():
        raise CorruptLogError(f"{path}: the file name does not begin with an offset")
    return int(text)


def _print(options: argparse.Namespace, **fields: object) -> None:
    if options.json:
        print(json.dumps(fields))
    else:
        print(" ".join(f"{name}: {value}" for name, value in fields.items()))


def dump_offset_index(path: str, options: argparse.Namespace) -> bool:
    """Print an offset index; if its segment exists, check that the entries point to batches."""
    from kraftlog.records.header import HEADER_SIZE, read_header
    from kraftlog.storage.index import OFFSET_ENTRY

    base, data = base_offset(path), _read_file(path)
    segment = path.removesuffix(".index") + ".log"
    mismatches = _trailing_bytes(path, data, OFFSET_ENTRY.size)
    log = open(segment, "rb") if os.path.exists(segment) else None  # noqa: SIM115 - closed below
    try:
        for number, (relative_offset, position) in enumerate(_entries(data, OFFSET_ENTRY)):
            if position == 0 and number > 0:
                break  # preallocated space
            if not (options.index_sanity_check or options.verify_index_only):
                _print(options, offset=base + relative_offset, position=position)
            if log is not None and not options.index_sanity_check:
                log.seek(position)
                header = log.read(HEADER_SIZE)
                last_offset = read_header(header).last_offset if len(header) == HEADER_SIZE else -1
                if last_offset != base + relative_offset:
                    mismatches.append(
                        f"index offset: {base + relative_offset}, log offset: {last_offset}"
                    )
    finally:
        if log is not None:
            log.close()
    return _report_mismatches(path, mismatches, options)


def dump_time_index(path: str, options: argparse.Namespace) -> bool:
    from kraftlog.storage.index import TIME_ENTRY

    base, data = base_offset(path), _read_file(path)
    mismatches = _trailing_bytes(path, data, TIME_ENTRY.size)
    last_timestamp = -1
    for number, (timestamp, relative_offset) in enumerate(_entries(data, TIME_ENTRY)):
        if number > 0 and timestamp == 0:
            break  # preallocated space
        if not (options.index_sanity_check or options.verify_index_only):
            _print(options, timestamp=timestamp, offset=base + relative_offset)
        if timestamp < last_timestamp:
            mismatches.append(f"timestamp: {timestamp} after {last_timestamp}")
        last_timestamp = timestamp
    return _report_mismatches(path, mismatches, options)


def _entries(data: bytes, entry: struct.Struct) -> list[tuple[int, int]]:
    size = entry.size
    return [entry.unpack_from(data, start) for start in range(0, len(data) - size + 1, size)]


def _trailing_bytes(path: str, data: bytes, size: int) -> list[str]:
    trailing = len(data) % size
    return [f"{path}: {trailing} trailing bytes after the last complete entry"] if trailing else []


def _report_mismatches(path: str, mismatches: list[str], options: argparse.Namespace) -> bool:
    if options.index_sanity_check and not mismatches and not options.json:
        print(f"{path} passed sanity check.")
    if mismatches:
        print(f"Mismatches in :{os.path.abspath(path)}")
        for line in mismatches:
            print(f"  {line}")
    return not mismatches


def dump_transaction_index(path: str, options: argparse.Namespace) -> bool:
    from kraftlog.storage.transactions import decode_aborted

    for entry in decode_aborted(_read_file(path), path):
        _print(
            options,
            version=0,
            producerId=entry.producer_id,
            firstOffset=entry.first_offset,
            lastOffset=entry.last_offset,
            lastStableOffset=entry.stable_offset,
        )
    return True


def dump_producers(path: str, options: argparse.Namespace) -> bool:
    from kraftlog.storage.producer_snapshots import decode_snapshot

    for entry in decode_snapshot(_read_file(path), path).entries.values():
        start = entry.transaction_start
        fields: dict[str, object] = {
            "producerId": entry.producer_id,
            "producerEpoch": entry.epoch,
            "coordinatorEpoch": entry.coordinator_epoch,
            "currentTxnFirstOffset": optional_long(start if start >= 0 else None),
            "lastTimestamp": entry.last_timestamp,
        }
        if entry.batches:
            last = entry.batches[-1]
            fields |= {
                "firstSequence": last.first_sequence,
                "lastSequence": last.last_sequence,
                "lastOffset": last.last_offset,
                "offsetDelta": last.offset_delta,
                "timestamp": last.timestamp,
            }
        _print(options, **fields)
    return True


def optional_long(number: int | None) -> str:
    """An optional number as Java prints it."""
    return "OptionalLong.empty" if number is None else f"OptionalLong[{number}]"
