"""Frames: a length, a request or response header, and the message."""

from __future__ import annotations

import struct

from kraftlog.errors import ProtocolError
from kraftlog.value import TYPE_CHECKING, Value
from kraftlog.wire.apis import APIS
from kraftlog.wire.codec import writer
from kraftlog.wire.primitives import Malformed, skip_tags, string_as_java

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.types import Buffer
    from kraftlog.wire.apis import Api
    from kraftlog.wire.schema import Message

#: The size of a frame's length prefix.
LENGTH_SIZE = 4
#: Pieces of a response up to this many bytes are joined, which is faster than sending each one.
SMALL_PIECE = 16 << 10
_ONLY_BYTES = {bytes}

_REQUEST = struct.Struct(">hhih")
_KEY_TO_CORRELATION = struct.Struct(">hhi")
_LENGTH_AND_CORRELATION = struct.Struct(">ii")


class RequestHead(Value):
    """The header of a request; `body` is the position after it."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    body: int


def read_request_head(buffer: Buffer, pos: int, end: int) -> RequestHead:
    """Read the header of the request in `buffer[pos:end]`, a frame without its length."""
    try:
        key, version, correlation_id, size = _REQUEST.unpack_from(buffer, pos)
        body = pos + _REQUEST.size
        client_id = None
        if size >= 0:
            raw = buffer[body : body + size]
            try:
                client_id = str(raw, "utf-8")
            except UnicodeDecodeError:
                client_id = string_as_java(raw)
            body += size
        api = APIS.get(key)
        if api is not None and api.flexible <= version <= api.last:
            count = buffer[body]
            body = skip_tags(buffer, body + 1, end, count) if count else body + 1
        if body > end:
            raise Malformed("the header is longer than the frame")
    except (struct.error, IndexError, Malformed) as error:
        raise ProtocolError(f"invalid request header: {error}", position=0) from None
    return RequestHead(key, version, correlation_id, client_id, body)


def response_frame(api: Api, version: int, correlation_id: int, response: Message) -> list[Any]:
    """The pieces of a response frame; slices of files remain separate.

    Small pieces are joined, because each piece has a cost when it is sent.
    """
    pieces = _start_frame(api, version)
    writer(type(response), version)(response, pieces.append)
    return _finish_frame(pieces, correlation_id)


def frame_of_encoded(api: Api, version: int, correlation_id: int, body: list[Any]) -> list[Any]:
    """The pieces of a response frame whose body is encoded already."""
    return _finish_frame(_start_frame(api, version) + body, correlation_id)


def _start_frame(api: Api, version: int) -> list[Any]:
    """The pieces before the body: a place for length and correlation id, and no tagged fields."""
    return [b"", b"\0"] if api.response_header_version(version) == 1 else [b""]


def _finish_frame(pieces: list[Any], correlation_id: int) -> list[Any]:
    pieces[0] = _LENGTH_AND_CORRELATION.pack(4 + sum(map(len, pieces)), correlation_id)
    return join_small_pieces(pieces)


def join_small_pieces(pieces: list[Any]) -> list[Any]:
    """Join adjacent `bytes` pieces of at most SMALL_PIECE bytes each."""
    if {*map(type, pieces)} == _ONLY_BYTES and max(map(len, pieces)) <= SMALL_PIECE:
        return [b"".join(pieces)]  # most frames
    joined: list[Any] = []
    small: list[bytes] = []
    for piece in pieces:
        if type(piece) is bytes and len(piece) <= SMALL_PIECE:
            small.append(piece)
            continue
        if small:
            joined.append(b"".join(small))
            small.clear()
        joined.append(piece)
    if small:
        joined.append(b"".join(small))
    return joined


def request_frame(
    api: Api, version: int, correlation_id: int, client_id: str | None, request: Message
) -> list[Any]:
    """The pieces of a request frame."""
    head = _KEY_TO_CORRELATION.pack(api.key, version, correlation_id)
    if client_id is None:
        head += b"\xff\xff"  # the length of a null string
    else:
        raw_id = client_id.encode()
        head += struct.pack(">h", len(raw_id)) + raw_id
    if api.request_header_version(version) == 2:
        head += b"\0"
    pieces: list[Any] = [b"", head]
    writer(type(request), version)(request, pieces.append)
    pieces[0] = struct.pack(">i", sum(map(len, pieces)))
    return pieces
