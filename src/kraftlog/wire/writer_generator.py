"""Generates the source of writers; see `compiler`."""

from __future__ import annotations

import struct

from kraftlog.errors import UnsupportedVersionError, shortened
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire import primitives
from kraftlog.wire.primitives import FIXED, NUMBERS
from kraftlog.wire.source import Source, begin_steps, count_item
from kraftlog.wire.versioned_schema import item_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.wire.schema import Field, Message
    from kraftlog.wire.versioned_schema import VersionedSchema


#: Fields with messages for people, which are shortened, as they may quote long names and values.
SHORTENED_FIELDS = frozenset(("error_message", "batch_index_error_message"))


class WriterGenerator:
    """Generates the source of a writer or a stepwise writer."""

    def __init__(self, schema: VersionedSchema, *, stepwise: bool = False) -> None:
        self.schema = schema
        self.stepwise = stepwise
        self.source = Source("def write(m, put):")
        self.source.scope |= {
            "uvarint": primitives.uvarint,
            "put_string": primitives.put_string,
            "put_compact_string": primitives.put_compact_string,
            "shortened": shortened,
            "uvarints": primitives.UVARINT,
            "refuse_field": _refuse_field,
            "refuse_null": _refuse_null,
            "put_tags": _put_tags,
        }
        # Fixed-width writes, to be merged into one: (struct code, expression).
        self.pending: list[tuple[str, str]] = []

    def write(self, part: type[Message] | None = None) -> Source:
        """Generate a writer of the message, or of a struct in it."""
        cls = part or self.schema.cls
        if self.stepwise:
            begin_steps(self.source)
        self.struct(cls, "m", cls.__name__)
        self.flush()
        if self.stepwise:
            self.source.line("yield work")
        if len(self.source.lines) == 1:
            self.source.line("pass")
        return self.source

    def flush(self) -> None:
        if not self.pending:
            return
        out = self.source
        codes = "".join([code for code, _ in self.pending])
        values = [value for _, value in self.pending]
        self.pending = []
        if all(value.lstrip("-").isdigit() for value in values):
            out.line(f"put({struct.pack('>' + codes, *map(int, values))!r})")
            return
        name = "P_" + codes.replace("?", "x")
        out.scope[name] = struct.Struct(">" + codes).pack
        out.line(f"put({name}({', '.join(values)}))")

    def struct(self, cls: type[Message], name: str, path: str) -> None:
        out = self.source
        for field in self.schema.absent(cls):
            if not field.ignorable:
                default = self.constant(field.default)
                where = f"{path}.{field.name}"
                value = f"{name}.{field.name}"
                out.line(
                    f"if {self.differs(field, value, default)}: "
                    f"refuse_field({where!r}, {self.schema.version}, {value})"
                )
        for field in self.schema.plain(cls):
            self.field(field, f"{name}.{field.name}", f"{path}.{field.name}")
        if self.schema.flexible:
            self.tags(cls, name, path)

    @staticmethod
    def differs(field: Field, value: str, default: str) -> str:
        """The test for a value other than the default; structs by identity first: it is faster."""
        is_struct = field.struct is not None and not field.is_array
        return (
            f"{value} is not {default} and {value} != {default}"
            if is_struct
            else (f"{value} != {default}")
        )

    def constant(self, value: Any) -> str:
        if isinstance(value, (int, str, bytes, float, type(None))) or value == ():
            return repr(value)
        return self.source.refer("D", value)

    def field(self, field: Field, value: str, path: str) -> None:
        if field.is_array:
            self.array(field, value, path)
        elif field.kind in FIXED:
            self.pending.append((FIXED[field.kind][0], value))
        elif field.struct is not None:
            self.nested(field, value, path)
        else:
            self.variable_length(field, value, path)

    def null(self, field: Field, value: str, path: str, null: bytes) -> None:
        """Emit the branch for None, and the `else:` that the caller must fill."""
        out = self.source
        with out.block(f"if {value} is None:"):
            if field.nullable_in(self.schema.version):
                out.line(f"put({null!r})")
            else:
                out.line(f"refuse_null({path!r}, {self.schema.version})")
        out.line("else:")

    def as_local(self, value: str) -> str:
        """Emit a local variable for an attribute that is used more than once."""
        if value.isidentifier():
            return value
        name = self.source.fresh("v")
        self.source.line(f"{name} = {value}")
        return name

    def variable_length(self, field: Field, value: str, path: str) -> None:
        """Emit the write of a string, bytes or batches."""
        self.flush()
        out = self.source
        value = self.as_local(value)
        compact = self.schema.compact(field)
        if field.kind == "string":
            self.null(field, value, path, b"\0" if compact else b"\xff\xff")
            put = "put_compact_string" if compact else "put_string"
            if field.name in SHORTENED_FIELDS:
                value = f"shortened({value})"
            out.lines[-1] += f" put({put}({value}))"
            return
        self.null(field, value, path, b"\0" if compact else b"\xff\xff\xff\xff")
        out.depth += 1
        size = out.fresh("n")
        out.line(f"{size} = len({value})")
        self.size(size, compact)
        out.line(f"put({value})")
        out.depth -= 1

    def size(self, count: str, compact: bool) -> None:
        out = self.source
        if compact:
            table = len(primitives.UVARINT) - 1
            out.line(f"put(uvarints[{count} + 1] if {count} < {table} else uvarint({count} + 1))")
        else:
            self.pending.append(("i", count))
            self.flush()

    def nested(self, field: Field, value: str, path: str) -> None:
        out = self.source
        assert field.struct is not None
        if not field.nullable_in(self.schema.version):
            name = out.fresh("s")
            out.line(f"{name} = {value}")
            out.line(f"if {name} is None: refuse_null({path!r}, {self.schema.version})")
            self.struct(field.struct, name, path)
            return
        self.flush()
        name = self.as_local(value)
        self.null(field, name, path, field.null_struct.to_bytes(1, "big", signed=True))
        out.depth += 1
        self.pending.append(("b", "1"))
        self.struct(field.struct, name, path)
        self.flush()
        out.depth -= 1

    def array(self, field: Field, value: str, path: str) -> None:
        self.flush()
        out = self.source
        value = self.as_local(value)
        compact = self.schema.compact(field)
        self.null(field, value, path, b"\0" if compact else b"\xff\xff\xff\xff")
        out.depth += 1
        if field.struct is None and field.kind in FIXED:
            kind = NUMBERS[field.kind]
            known = kind.encoded_compact if compact else kind.encoded
            make = kind.put_compact if compact else kind.put
            out.line(
                f"put(type({value}) is tuple and {out.refer('known', known)}.get({value})"
                f" or {out.refer('make', make)}({value}))"
            )
        else:
            count, item = out.fresh("n"), out.fresh("i")
            out.line(f"{count} = len({value})")
            self.size(count, compact)
            with out.block(f"for {item} in {value}:"):
                if self.stepwise:
                    count_item(out)
                if field.pieces:
                    with out.block(f"if type({item}) is bytes:"):
                        out.line(f"put({item})")
                        out.line("continue")
                    with out.block(f"if type({item}) is tuple:"):
                        part = out.fresh("p")
                        out.line(f"for {part} in {item}: put({part})")
                        out.line("continue")
                if field.struct is not None:
                    self.struct(field.struct, item, f"{path}[]")
                else:
                    self.variable_length(item_of(field), item, f"{path}[]")
                self.flush()
        out.depth -= 1

    def tags(self, cls: type[Message], name: str, path: str) -> None:
        """Emit the tagged section: the fields that differ from their defaults, usually none."""
        out = self.source
        known = self.schema.tagged(cls)
        if not known:
            self.pending.append(("B", "0"))
            return
        self.flush()
        found = out.fresh("f")
        out.line(f"{found} = None")
        for field in known:
            value, pieces = out.fresh("v"), out.fresh("t")
            default = self.constant(field.default)
            out.line(f"{value} = {name}.{field.name}")
            with out.block(f"if {self.differs(field, value, default)}:"):
                out.line(f"{pieces} = []; outer{found} = put; put = {pieces}.append")
                self.field(field, value, f"{path}.{field.name}")
                self.flush()
                out.line(f"put = outer{found}")
                out.line(f"if {found} is None: {found} = []")
                out.line(f"{found}.append(({field.tag}, {pieces}))")
        out.line(f"put(b'\\0') if {found} is None else put_tags({found}, put)")


def _put_tags(fields: list[tuple[int, list[bytes]]], put: Callable[[Any], None]) -> None:
    put(primitives.uvarint(len(fields)))
    for tag, pieces in sorted(fields, key=lambda f: f[0]):
        put(primitives.uvarint(tag))
        put(primitives.uvarint(sum(map(len, pieces))))
        for piece in pieces:
            put(piece)


def _shown(value: Any) -> str:
    """A simple value of a field in an error, with null and true as in JSON."""
    if value is None or isinstance(value, bool):
        return f" = {'null' if value is None else str(value).lower()}"
    return f" = {value}" if isinstance(value, int | float | str) else ""


def _refuse_field(path: str, version: int, value: Any) -> None:
    raise UnsupportedVersionError(f"{path}{_shown(value)} is not supported in version {version}")


def _refuse_null(path: str, version: int) -> None:
    raise UnsupportedVersionError(f"{path} may not be null in version {version}")
