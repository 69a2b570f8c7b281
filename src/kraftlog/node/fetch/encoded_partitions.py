"""Encodes Fetch partitions that have only offsets and records, without an object for each.

The writer of the response copies these bytes. Their layout is found by encoding one partition
normally, so they equal what the writer itself would write.
"""

from __future__ import annotations

from struct import Struct

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.codec import encode_piece
from kraftlog.wire.messages.fetch import FetchResponse, PartitionData
from kraftlog.wire.primitives import uvarint

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.ports.logs import Slice

    #: Encodes index, high watermark, log start, records and their size. The result is bytes or a
    #: tuple of pieces, typed as the struct that they stand for.
    EncodePartition = Callable[[int, int, int, "Slice | bytes | None", int], PartitionData]

_API = APIS[ApiKey.FETCH]
#: The first version with the log start offset.
STARTS_SINCE = 5
_INT32 = Struct(">i")
#: Index, error code, high watermark, last stable offset and log start offset.
_NUMBERS = Struct(">ihqqq")

_encoders: dict[tuple[int, bool], EncodePartition] = {}


def partition_encoder(pending: PendingResponse, lists_aborted: bool) -> EncodePartition | None:
    """The encoder for a response; `lists_aborted`: aborted transactions are empty, not null."""
    version = pending.version
    if version < STARTS_SINCE or not pending.takes_encoded:
        return None
    encoder = _encoders.get((version, lists_aborted))
    if encoder is None:
        encoder = _encoders[version, lists_aborted] = _make_encoder(version, lists_aborted)
    return encoder


def _make_encoder(version: int, lists_aborted: bool) -> EncodePartition:
    is_flexible = version >= _API.flexible
    tail = b"\0" if is_flexible else b""
    length_size = 1 if is_flexible else _INT32.size
    sample = PartitionData(
        partition_index=0,
        error_code=0,
        high_watermark=0,
        aborted_transactions=() if lists_aborted else None,
        records=b"",
    )
    encoded: Any = encode_piece(FetchResponse, version, sample)
    middle = encoded[_NUMBERS.size : len(encoded) - length_size - len(tail)]
    pack = Struct(f"{_NUMBERS.format}{len(middle)}s").pack
    write_length = _compact_length if is_flexible else _INT32.pack
    empty = write_length(0) + tail

    def encode(
        index: int, high_watermark: int, start: int, records: Slice | bytes | None, size: int
    ) -> Any:
        head = pack(index, 0, high_watermark, high_watermark, start, middle)
        if records is None:
            return head + empty
        if tail:
            return head + write_length(size), records, tail
        return head + write_length(size), records

    return encode


def _compact_length(size: int) -> bytes:
    """The length of records as flexible versions encode it."""
    return uvarint(size + 1)
