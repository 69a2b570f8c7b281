"""Formats records of coordinators as Kafka does: one line of JSON for each record."""

from __future__ import annotations

from kraftlog.cli.message_json import message_json
from kraftlog.errors import ProtocolError
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.record_frames import OFFSETS_LOG, TRANSACTION_LOG

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraftlog.client.model import ConsumedRecord

#: For each formatter, the codec of its topic's records and the record types that it prints.
FORMATTERS = {
    "OffsetsMessageFormatter": (OFFSETS_LOG, (0, 1)),
    "GroupMetadataMessageFormatter": (OFFSETS_LOG, (2,)),
    "TransactionLogMessageFormatter": (TRANSACTION_LOG, (0,)),
}


def formatter(name: str) -> Callable[[ConsumedRecord], bytes]:
    """A formatter for some record types; other and invalid records are skipped."""
    log, printed_types = FORMATTERS[name]

    def format_record(record: ConsumedRecord) -> bytes:
        import json

        try:
            record_type, key = log.decode_key(record.key or b"")
            if record_type not in printed_types:
                return b""
            value = log.decode_value(record_type, record.value)
        except ProtocolError:
            return b""
        result: dict[str, object] = {"key": {"type": record_type, "data": message_json(key, 0)}}
        result["value"] = None
        if value is not None:
            assert record.value is not None
            version = int.from_bytes(record.value[:2], "big")
            result["value"] = {"version": version, "data": message_json(value, version)}
        return json.dumps(result, separators=(",", ":")).encode() + b"\n"

    return format_record
