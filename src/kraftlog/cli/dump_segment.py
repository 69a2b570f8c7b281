"""Prints segments and metadata snapshots as `kafka-dump-log` does."""

from __future__ import annotations

import json
import mmap
import os

from kraftlog.cli.dump_files import base_offset, optional_long
from kraftlog.cli.message_json import message_json
from kraftlog.errors import CorruptBatchError, ProtocolError
from kraftlog.records.compression import CODEC_NAMES
from kraftlog.records.control import control_name, decode_control_key
from kraftlog.records.header import NO_SEQUENCE, BatchHeader
from kraftlog.records.reader import check_crc, read_records
from kraftlog.records.walk import walk
from kraftlog.types import ControlType
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from typing import Any

    from kraftlog.records.record import Record
    from kraftlog.types import Buffer
    from kraftlog.wire.schema import Message

    #: Formats the key and the value of a record; a text line omits one that is None.
    Decoder = Callable[[Record], tuple[Any, Any]]

#: Sequence numbers of producers begin again at 0 after this many.
_SEQUENCES = 1 << 31
#: What Kafka prints before the value of control records, which it prints as JSON.
_CONTROL_TITLES = {
    "LEADER_CHANGE": "LeaderChange:",
    "SNAPSHOT_HEADER": "SnapshotHeader",
    "SNAPSHOT_FOOTER": "SnapshotFooter",
    "KRAFT_VERSION": "KRaftVersion",
    "KRAFT_VOTERS": "KRaftVoters",
}


def dump(path: str, options: argparse.Namespace) -> bool:
    """Print every batch, with its records if requested; return whether all batches are valid."""
    if not options.json:
        print(_title(path))
    data = _mapped(path)
    end = min(len(data), max(options.max_bytes, 0))
    shows_data = options.print_data_log or options.decoder or options.skip_record_metadata
    decode = _DECODERS[options.decoder] if shows_data else None
    all_valid = True
    try:
        for position, fields in walk(data, 0, end, may_end_in_batch=end < len(data)):
            header = BatchHeader(*fields)
            is_valid = _is_valid(data, header, position)
            all_valid &= is_valid
            records = []
            if shows_data or options.deep_iteration:
                records = list(read_records(data, position, with_crc=False))
            if options.json:
                print(json.dumps(_batch_json(header, position, is_valid, records, decode)))
                continue
            print(_batch_line(header, position, is_valid))
            for record in records:
                print(_record_line(header, record, decode, options.skip_record_metadata))
    except CorruptBatchError as error:
        invalid_bytes = end - max(error.position, 0)
        print(
            f"Found {invalid_bytes} invalid bytes at the end of {os.path.basename(path)}: {error}"
        )
        return False
    return all_valid


def _title(path: str) -> str:
    if path.endswith(".checkpoint"):
        _, _, epoch = os.path.basename(path).removesuffix(".checkpoint").partition("-")
        return f"Snapshot end offset: {base_offset(path)}, epoch: {int(epoch)}"
    return f"Log starting offset: {base_offset(path)}"


def _mapped(path: str) -> Any:
    """The bytes of the file, memory-mapped."""
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            return b""
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _is_valid(data: Buffer, header: BatchHeader, position: int) -> bool:
    try:
        check_crc(data, header, position)
    except CorruptBatchError:
        return False
    return True


def _batch_fields(header: BatchHeader, position: int, is_valid: bool) -> dict[str, object]:
    return {
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "count": header.record_count,
        "baseSequence": header.base_sequence,
        "lastSequence": header.last_sequence,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "partitionLeaderEpoch": header.leader_epoch,
        "isTransactional": header.is_transactional,
        "isControl": header.is_control,
        "deleteHorizonMs": header.delete_horizon_ms,
        "position": position,
        _time_name(header): header.max_timestamp,
        "size": header.size,
        "magic": header.magic,
        "compresscodec": CODEC_NAMES[header.codec] if header.codec < len(CODEC_NAMES) else "?",
        "crc": header.crc,
        "isvalid": is_valid,
    }


def _time_name(header: BatchHeader) -> str:
    return "LogAppendTime" if header.has_log_append_time else "CreateTime"


def _batch_line(header: BatchHeader, position: int, is_valid: bool) -> str:
    fields = _batch_fields(header, position, is_valid)
    fields["deleteHorizonMs"] = optional_long(header.delete_horizon_ms)
    shown = [
        f"{name}: {str(value).lower() if isinstance(value, bool) else value}"
        for name, value in fields.items()
    ]
    return " ".join(shown)


def _sequence(header: BatchHeader, record: Record) -> int:
    if header.base_sequence == NO_SEQUENCE:
        return NO_SEQUENCE
    return (header.base_sequence + record.offset - header.base_offset) % _SEQUENCES


def _record_line(
    header: BatchHeader, record: Record, decode: Decoder | None, without_metadata: bool
) -> str:
    if header.is_control and without_metadata:
        return ""
    parts = ["|"]
    if not without_metadata:
        names = ",".join([name for name, _ in record.headers])
        parts.append(
            f"offset: {record.offset} {_time_name(header)}: {record.timestamp_ms} "
            f"keySize: {_size(record.key)} valueSize: {_size(record.value)} "
            f"sequence: {_sequence(header, record)} headerKeys: [{names}]"
        )
    if header.is_control:
        parts.append(_control_text(record))
    elif decode is not None:
        key, value = decode(record)
        parts += [
            f"{name}: {_text(item)}"
            for name, item in (("key", key), ("payload", value))
            if item is not None
        ]
    return " ".join(parts)


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _text(data: Any) -> str:
    return data if isinstance(data, str) else json.dumps(data, separators=(",", ":"))


def _control_text(record: Record) -> str:
    kind = decode_control_key(record.key)
    name = control_name(kind)
    if name == "UNKNOWN":
        return "UNKNOWN"
    result = _control_json(record)
    if kind in {ControlType.ABORT, ControlType.COMMIT}:
        return f"endTxnMarker: {name} coordinatorEpoch: {result['coordinatorEpoch']}"
    return f"{_CONTROL_TITLES[name]} {_text(result)}"


def _control_json(record: Record) -> dict[str, Any]:
    from kraftlog.wire.record_frames import decode_control

    _, message = decode_control(record.key or b"", record.value or b"")
    version = int.from_bytes((record.value or b"\0\0")[:2], "big")
    return {"version": version, **message_json(message, version)}


def _batch_json(
    header: BatchHeader,
    position: int,
    is_valid: bool,
    records: list[Record],
    decode: Decoder | None,
) -> dict[str, object]:
    result = _batch_fields(header, position, is_valid)
    if records:
        result["records"] = [_record_json(header, record, decode) for record in records]
    return result


def _record_json(header: BatchHeader, record: Record, decode: Decoder | None) -> dict[str, object]:
    result: dict[str, object] = {
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "keySize": _size(record.key),
        "valueSize": _size(record.value),
        "sequence": _sequence(header, record),
        "headerKeys": [name for name, _ in record.headers],
    }
    if header.is_control:
        name = control_name(decode_control_key(record.key))
        result["control"] = {"type": name} | ({} if name == "UNKNOWN" else _control_json(record))
    elif decode is not None:
        result["key"], result["payload"] = decode(record)
    return result


# Keys and values -------------------------------------------------------------------------------


def _plain(record: Record) -> tuple[str | None, str | None]:
    return _utf8(record.key), _utf8(record.value)


def _utf8(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")


def _metadata(record: Record) -> tuple[Any, Any]:
    """Decode a record of the metadata log, which has no key."""
    from kraftlog.wire.record_frames import decode_metadata

    try:
        message, version = decode_metadata(record.value or b"")
    except ProtocolError as error:
        return None, f"Error at {record.offset}, skipping. {error}"
    name = "".join([f"_{c}" if c.isupper() else c.upper() for c in type(message).__name__])
    return None, {
        "type": name.lstrip("_"),
        "version": version,
        "data": message_json(message, version),
    }


def _coordinator(log_name: str) -> Decoder:
    def decode(record: Record) -> tuple[Any, Any]:
        from kraftlog.wire import record_frames

        log: record_frames.CoordinatorLog = getattr(record_frames, log_name)
        try:
            record_type, key = log.decode_key(record.key or b"")
        except ProtocolError:
            return "<UNKNOWN>", "<UNKNOWN>"
        shown_key = {"type": str(record_type), "data": message_json(key, 0)}
        if record.value is None:
            return shown_key, "<DELETE>"
        try:
            value = log.decode_value(record_type, record.value)
        except ProtocolError:
            return shown_key, "<UNKNOWN>"
        assert value is not None
        version = int.from_bytes(record.value[:2], "big")
        data = message_json(value, version)
        _decode_members(value, data)
        return shown_key, {"version": str(version), "data": data}

    return decode


def _decode_members(value: Message, data: dict[str, Any]) -> None:
    """In `data`, replace the raw subscription and assignment of each member by decoded ones."""
    from kraftlog.wire.messages.consumer_protocol import (
        ConsumerProtocolAssignment,
        ConsumerProtocolSubscription,
    )
    from kraftlog.wire.record_frames import decode_consumer_protocol

    if getattr(value, "protocol_type", None) != "consumer":
        return
    message_types: dict[str, type[Message]] = {
        "subscription": ConsumerProtocolSubscription,
        "assignment": ConsumerProtocolAssignment,
    }
    for member, member_data in zip(getattr(value, "members", ()), data["members"], strict=True):
        for field, message_type in message_types.items():
            raw = getattr(member, field)
            if raw:
                version = min(int.from_bytes(raw[:2], "big"), message_type._versions[1])
                member_data[field] = message_json(
                    decode_consumer_protocol(message_type, raw), version
                )


_DECODERS: dict[str | None, Decoder] = {
    None: _plain,
    "cluster-metadata-decoder": _metadata,
    "offsets-decoder": _coordinator("OFFSETS_LOG"),
    "transaction-log-decoder": _coordinator("TRANSACTION_LOG"),
}
