"""Writes the Python that reads and writes one message in one version, and compiles it.

A generic codec decides per field, at run time, what was known when the version was negotiated.
Here it is decided once: for a message and a version the compiler writes straight-line code in
which neighbouring fixed-width fields are one `struct` call, nested structs are loops in the same
function, and every length is bounded by the bytes that are left before anything is allocated.
The text can be looked at: `print(reader_source(FetchRequest, 17))`.

A reader is `read(buf, pos, end) -> (message, pos)`; what it raises on a broken message is the
codec's business. A writer is `write(message, put)`, where `put` takes one piece of bytes after
the other; the pieces of a `batches` field are handed on as they are, uncopied.

Of both there is a stepwise form for giant messages: a generator with the same arguments, which
pauses after some items of arrays and yields how many these were. It reads from any buffer, which
need not be copied before, and leaves a giant array the list that it was read into.
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


def reader_source(cls: type[Message], version: int, keep_tags: bool = False) -> str:
    """The text of a reader, to look at."""
    return ReaderGenerator(VersionedSchema(cls, version, keep_tags)).write().text()


def writer_source(cls: type[Message], version: int, keep_tags: bool = False) -> str:
    """The text of a writer, to look at."""
    return WriterGenerator(VersionedSchema(cls, version, keep_tags)).write().text()


def compile_reader(
    cls: type[Message], version: int, keep_tags: bool = False, lenient: bool = False
) -> Reader:
    source = ReaderGenerator(VersionedSchema(cls, version, keep_tags, lenient)).write()
    reader: Reader = source.build("read", f"read {cls.__name__} v{version}")
    return reader


def compile_writer(
    cls: type[Message],
    version: int,
    keep_tags: bool = False,
    part: type[Message] | None = None,
) -> Writer:
    source = WriterGenerator(VersionedSchema(cls, version, keep_tags)).write(part)
    writer: Writer = source.build("write", f"write {(part or cls).__name__} v{version}")
    return writer


def compile_stepwise_reader(
    cls: type[Message], version: int, lenient: bool = False
) -> StepwiseReader:
    form = VersionedSchema(cls, version, lenient=lenient)
    form.zero_copy = True
    source = ReaderGenerator(form, stepwise=True).write()
    reader: StepwiseReader = source.build("read", f"read {cls.__name__} v{version} stepwise")
    return reader


def compile_stepwise_writer(
    cls: type[Message], version: int, part: type[Message] | None = None
) -> StepwiseWriter:
    source = WriterGenerator(VersionedSchema(cls, version), stepwise=True).write(part)
    what = (part or cls).__name__
    writer: StepwiseWriter = source.build("write", f"write {what} v{version} stepwise")
    return writer
