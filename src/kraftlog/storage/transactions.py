"""The transaction index of a segment: the transactions that its markers abort.

A reader of committed records gets this list and skips their batches.
"""

from __future__ import annotations

import struct

from kraftlog.errors import CorruptLogError
from kraftlog.storage.disk import read_whole
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.ports.files import Files

_ENTRY = struct.Struct(">hqqqq")
_VERSION = 0


class AbortedTransaction(Value):
    """`last_offset` is that of the marker; `stable_offset` is the last stable offset after it."""

    producer_id: int
    first_offset: int
    last_offset: int
    stable_offset: int


def encode_aborted(entries: Sequence[AbortedTransaction]) -> bytes:
    return b"".join(
        [
            _ENTRY.pack(
                _VERSION,
                entry.producer_id,
                entry.first_offset,
                entry.last_offset,
                entry.stable_offset,
            )
            for entry in entries
        ]
    )


def decode_aborted(data: bytes, path: str) -> list[AbortedTransaction]:
    if len(data) % _ENTRY.size:
        raise CorruptLogError(f"{path}: {len(data)} bytes are not a whole number of entries")
    entries = []
    for version, *numbers in _ENTRY.iter_unpack(data):
        if version > _VERSION:
            raise CorruptLogError(
                f"{path}: entries of version {version}, at most {_VERSION} is known"
            )
        entries.append(AbortedTransaction(*numbers))
    return entries


def read_aborted(files: Files, path: str) -> list[AbortedTransaction]:
    """Read the entries of a file; it exists only if there are any."""
    try:
        data = read_whole(files, path)
    except FileNotFoundError:
        return []
    return decode_aborted(data, path)
