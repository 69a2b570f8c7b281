"""Generates and compiles the Python code that reads and writes a message in one version.

A generic codec decides for each field at run time what the version determines. The compiler decides
it once: it generates straight-line code in which adjacent fixed-width fields are one `struct` call,
nested structs are inlined, and every length is checked against the remaining bytes before anything
is allocated. To see the code: `print(reader_source(FetchRequest, 17))`.

A reader is `read(buf, pos, end) -> (message, pos)`; the codec handles its exceptions. A writer is
`write(message, put)`; it calls `put` for each piece of bytes, and passes the buffers of a `batches`
field uncopied.

Giant messages have stepwise readers and writers: generators with the same arguments, which pause
after some array items and yield their number. A stepwise reader reads from any buffer without
copying it, and leaves a giant array as a list.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.reader_generator import ReaderGenerator
from kraftlog.wire.versioned_schema import VersionedSchema
from kraftlog.wire.writer_generator import WriterGenerator

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from typing import Any

    from kraftlog.wire.schema import Message

    Reader = Callable[[Any, int, int], tuple[Any, int]]
    Writer = Callable[[Any, Callable[[Any], None]], None]
    StepwiseReader = Callable[[Any, int, int], Generator[int, None, tuple[Any, int]]]
    StepwiseWriter = Callable[[Any, Callable[[Any], None]], Iterator[int]]


def reader_source(cls: type[Message], version: int) -> str:
    """The source of a reader, for inspection."""
    return ReaderGenerator(VersionedSchema(cls, version)).write().text()


def writer_source(cls: type[Message], version: int) -> str:
    """The source of a writer, for inspection."""
    return WriterGenerator(VersionedSchema(cls, version)).write().text()


def compile_reader(cls: type[Message], version: int, lenient: bool = False) -> Reader:
    source = ReaderGenerator(VersionedSchema(cls, version, lenient)).write()
    reader: Reader = source.build("read", f"read {cls.__name__} v{version}")
    return reader


def compile_writer(
    cls: type[Message],
    version: int,
    part: type[Message] | None = None,
) -> Writer:
    """Compile a writer of the message, or of the struct `part` in it."""
    source = WriterGenerator(VersionedSchema(cls, version)).write(part)
    writer: Writer = source.build("write", f"write {(part or cls).__name__} v{version}")
    return writer


def compile_stepwise_reader(
    cls: type[Message], version: int, lenient: bool = False
) -> StepwiseReader:
    schema = VersionedSchema(cls, version, lenient=lenient)
    schema.zero_copy = True
    source = ReaderGenerator(schema, stepwise=True).write()
    reader: StepwiseReader = source.build("read", f"read {cls.__name__} v{version} stepwise")
    return reader


def compile_stepwise_writer(
    cls: type[Message], version: int, part: type[Message] | None = None
) -> StepwiseWriter:
    source = WriterGenerator(VersionedSchema(cls, version), stepwise=True).write(part)
    what = (part or cls).__name__
    writer: StepwiseWriter = source.build("write", f"write {what} v{version} stepwise")
    return writer
