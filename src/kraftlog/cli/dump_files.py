"""Prints indexes, producer snapshots and epoch checkpoints as `kafka-dump-log` does."""

from __future__ import annotations

import json
import os

from kraftlog.errors import CorruptLogError
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse


def _read_file(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def base_offset(path: str) -> int:
    """The base offset in the name of a log file."""
    text = os.path.basename(path).partition(".")[0].partition("-")[0]
    if not text.isdigit():
        raise CorruptLogError(f"{path}: the file name does not begin with an offset")
    return int(text)


def _print(options: argparse.Namespace, **fields: object) -> None:
    if options.json:
        print(json.dumps(fields))
    else:
        print(" ".join(f"{name}: {value}" for name, value in fields.items()))


def dump_offset_index(path: str, options: argparse.Namespace) -> bool:
    """Print an offset index; check that entries point to batches, if the segment exists."""
    from kraftlog.records.header import HEADER_SIZE, read_header
    from kraftlog.storage.index import OFFSET_ENTRY

    base, data = base_offset(path), _read_file(path)
    segment = path.removesuffix(".index") + ".log"
    wrong = _out_of_order(path, data, OFFSET_ENTRY.size)
    log = open(segment, "rb") if os.path.exists(segment) else None  # noqa: SIM115 - closed below
    try:
        for number, (relative, position) in enumerate(_entries(data, OFFSET_ENTRY.unpack_from, 8)):
            if position == 0 and number > 0:
                break  # preallocated space
            if not (options.index_sanity_check or options.verify_index_only):
                _print(options, offset=base + relative, position=position)
            if log is not None and not options.index_sanity_check:
                log.seek(position)
                head = log.read(HEADER_SIZE)
                found = read_header(head).last_offset if len(head) == HEADER_SIZE else -1
                if found != base + relative:
                    wrong.append(f"index offset: {base + relative}, log offset: {found}")
    finally:
        if log is not None:
            log.close()
    return _report_mismatches(path, wrong, options)


def dump_time_index(path: str, options: argparse.Namespace) -> bool:
    from kraftlog.storage.index import TIME_ENTRY

    base, data = base_offset(path), _read_file(path)
    wrong = _out_of_order(path, data, TIME_ENTRY.size)
    last = -1
    for number, (timestamp, relative) in enumerate(_entries(data, TIME_ENTRY.unpack_from, 12)):
        if number > 0 and timestamp == 0:
            break
        if not (options.index_sanity_check or options.verify_index_only):
            _print(options, timestamp=timestamp, offset=base + relative)
        if timestamp < last:
            wrong.append(f"timestamp: {timestamp} after {last}")
        last = timestamp
    return _report_mismatches(path, wrong, options)


def _entries(data: bytes, unpack: object, size: int) -> list[tuple[int, int]]:
    assert callable(unpack)
    return [unpack(data, at) for at in range(0, len(data) - size + 1, size)]


def _out_of_order(path: str, data: bytes, size: int) -> list[str]:
    rest = len(data) % size
    return [f"{path}: {rest} trailing bytes after the last complete entry"] if rest else []


def _report_mismatches(path: str, wrong: list[str], options: argparse.Namespace) -> bool:
    if options.index_sanity_check and not wrong and not options.json:
        print(f"{path} passed sanity check.")
    if wrong:
        print(f"Mismatches in :{os.path.abspath(path)}")
        for line in wrong:
            print(f"  {line}")
    return not wrong


def dump_aborted(path: str, options: argparse.Namespace) -> bool:
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
