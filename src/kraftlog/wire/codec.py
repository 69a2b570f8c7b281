"""Encodes and decodes messages: the interface of the wire package.

Readers and writers are compiled when a message is first read or written in a version, and kept.
"""

from __future__ import annotations

import struct

from kraftlog.errors import ProtocolError, UnsupportedVersionError
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire import compiler
from kraftlog.wire.primitives import Malformed
from kraftlog.wire.versioned_schema import has_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from typing import Any, TypeVar

    from kraftlog.types import Buffer
    from kraftlog.wire.compiler import Reader, StepwiseReader, StepwiseWriter, Writer
    from kraftlog.wire.schema import Message

    M = TypeVar("M", bound=Message)

_readers: dict[tuple[type[Message], int], Reader] = {}
_writers: dict[tuple[type[Message], int], Writer] = {}
_lenient_readers: dict[tuple[type[Message], int], Reader] = {}

_stepwise_readers: dict[tuple[type[Message], int, bool], StepwiseReader] = {}
_stepwise_writers: dict[tuple[type[Message], int, type[Message] | None], StepwiseWriter] = {}
_piece_writers: dict[tuple[type[Message], int, type[Message]], Writer] = {}

#: The errors of writers: numbers out of range, strings too long, lone surrogates, and fields or
#: nulls that the version does not allow.
WRITER_ERRORS = (struct.error, UnicodeEncodeError, UnsupportedVersionError)
_READER_ERRORS = (struct.error, IndexError, Malformed)


def reader(cls: type[Message], version: int) -> Reader:
    """The compiled `read(buf, pos, end) -> (message, pos)`.

    Invalid bytes raise one of _READER_ERRORS or UnicodeDecodeError, or give a `pos` beyond `end`.
    """
    found = _readers.get((cls, version))
    if found is None:
        found = _readers[cls, version] = compiler.compile_reader(cls, version)
    return found


def writer(cls: type[Message], version: int) -> Writer:
    """The compiled `write(message, put)`, which passes the message to `put` piece by piece."""
    found = _writers.get((cls, version))
    if found is None:
        found = _writers[cls, version] = compiler.compile_writer(cls, version)
    return found


def decode(cls: type[M], version: int, buffer: Buffer, pos: int = 0, end: int | None = None) -> M:
    """Decode the message that fills `buffer[pos:end]` exactly; otherwise raise ProtocolError.

    Record batches in it are views of `buffer`; everything else is copied.
    """
    return _decode(cls, version, buffer, pos, end, reader(cls, version))


def decode_request(
    cls: type[M], version: int, buffer: Buffer, pos: int = 0, end: int | None = None
) -> M:
    """Like `decode`, but bytes after the message are ignored."""
    return _decode(cls, version, buffer, pos, end, reader(cls, version), whole=False)


def decode_request_in_steps(
    cls: type[M], version: int, raw: Buffer, pos: int = 0
) -> Generator[int, None, M]:
    """Like `decode_request`, in steps, for a large message without batches, from any buffer.

    Each step yields the number of array items that it has read.
    """
    end = len(raw)
    try:
        try:
            message, after = yield from stepwise_reader(cls, version)(raw, pos, end)
        except UnicodeDecodeError:
            read = stepwise_reader(cls, version, lenient=True)
            message, after = yield from read(raw, pos, end)
        if after <= end:
            return message  # type: ignore[no-any-return]  # the reader was compiled for this class
    except _READER_ERRORS:
        pass
    raise explain(cls, version, bytes(raw), pos, end)


def stepwise_reader(cls: type[Message], version: int, *, lenient: bool = False) -> StepwiseReader:
    key = cls, version, lenient
    found = _stepwise_readers.get(key)
    if found is None:
        found = compiler.compile_stepwise_reader(cls, version, lenient)
        _stepwise_readers[key] = found
    return found


def encode_in_steps(message: Message, version: int, put: Callable[[Any], None]) -> Iterator[int]:
    """Pass a message to `put` in steps; each yields the number of items that it has written."""
    return _stepwise_writer(type(message), version, None)(message, put)


def encode_piece_in_steps(cls: type[Message], version: int, part: M) -> Generator[int, None, M]:
    """Like `encode_piece`, in steps."""
    pieces: list[Any] = []
    yield from _stepwise_writer(cls, version, type(part))(part, pieces.append)
    piece: Any = b"".join(pieces)
    return piece  # type: ignore[no-any-return]  # bytes that stand for a struct


def _stepwise_writer(
    cls: type[Message], version: int, part: type[Message] | None
) -> StepwiseWriter:
    found = _stepwise_writers.get((cls, version, part))
    if found is None:
        found = compiler.compile_stepwise_writer(cls, version, part)
        _stepwise_writers[cls, version, part] = found
    return found


def decode_part(
    cls: type[M], version: int, buffer: Buffer, pos: int = 0, end: int | None = None
) -> tuple[M, int]:
    """Decode the message at the start of `buffer[pos:end]`; return it and the position after it."""
    stop = len(buffer) if end is None else end
    source: Any = buffer if type(buffer) is bytes else bytes(memoryview(buffer)[:stop])
    try:
        try:
            message, after = reader(cls, version)(source, pos, stop)
        except UnicodeDecodeError:
            message, after = lenient_reader(cls, version)(source, pos, stop)
        if after <= stop:
            return message, after
    except _READER_ERRORS:
        pass
    raise explain(cls, version, source, pos, stop)


def lenient_reader(cls: type[Message], version: int) -> Reader:
    """A reader that accepts invalid UTF-8 in strings, as Kafka's do; slower and rarely needed."""
    found = _lenient_readers.get((cls, version))
    if found is None:
        found = compiler.compile_reader(cls, version, lenient=True)
        _lenient_readers[cls, version] = found
    return found


def _decode(
    cls: type[M],
    version: int,
    buffer: Buffer,
    pos: int,
    end: int | None,
    read: Reader,
    whole: bool = True,  # whether the message must reach to `end`
) -> M:
    stop = len(buffer) if end is None else end
    source: Any = buffer
    if type(buffer) is not bytes and not has_batches(cls):
        # A message without batches is small and short-lived; bytes are the fastest to read from.
        source, pos, stop = bytes(memoryview(buffer)[pos:stop]), 0, stop - pos
    try:
        try:
            message, after = read(source, pos, stop)
        except UnicodeDecodeError:
            message, after = lenient_reader(cls, version)(source, pos, stop)
        if after == stop or (after < stop and not whole):
            return message  # type: ignore[no-any-return]  # the reader was compiled for this class
    except _READER_ERRORS:
        pass
    raise explain(cls, version, source, pos, stop)


def explain(cls: type[Message], version: int, buffer: Buffer, pos: int, end: int) -> ProtocolError:
    """The error with the field and position at which these bytes are invalid."""
    from kraftlog.wire.explain import read_slowly

    name = f"{cls.__name__} v{version}"
    try:
        _, after = read_slowly(cls, version, buffer, pos, end)
    except ProtocolError as error:
        where = f"{name}: {error.field}" if error.field else name
        return ProtocolError(error.what, field=where, position=error.position - pos)
    return ProtocolError(f"{end - after} bytes too many", field=name, position=after - pos)


def encode(message: Message, version: int) -> bytes:
    """Encode a message, without a header."""
    cls = type(message)
    write = _writers.get((cls, version)) or writer(cls, version)
    pieces: list[Any] = []
    write(message, pieces.append)
    return b"".join(pieces)


def encode_piece(cls: type[Message], version: int, part: M) -> M:
    """Encode a struct as it is encoded in message `cls`; returns bytes, typed as the struct.

    An array field with `pieces` accepts them in place of the struct, so that a struct that is sent
    repeatedly is encoded once.
    """
    key = (cls, version, type(part))
    found = _piece_writers.get(key)
    if found is None:
        found = compiler.compile_writer(cls, version, part=type(part))
        _piece_writers[key] = found
    pieces: list[Any] = []
    found(part, pieces.append)
    piece: Any = b"".join(pieces)
    return piece  # type: ignore[no-any-return]  # bytes that stand for a struct
