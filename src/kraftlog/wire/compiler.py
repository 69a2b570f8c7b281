"""Writes the Python that reads and writes one message in one version, and compiles it.

A generic codec decides per field, at run time, what was known when the version was negotiated.
Here it is decided once: for a message and a version the compiler writes straight-line code in
which neighbouring fixed-width fields are one `struct` call, nested structs are loops in the same
function, and every length is bounded by the bytes that are left before anything is allocated.
The text can be looked at: `print(reader_source(FetchRequest, 17))`.

A reader is `read(buf, pos, end) -> (message, pos)`; what it raises on a broken message is the
codec's business. A writer is `write(message, put)`, where `put` takes one piece of bytes after
the other; the pieces of a `batches` field are handed on as they are, uncopied.
"""

from __future__ import annotations

import struct

from kraftlog.errors import UnsupportedVersionError
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire import primitives
from kraftlog.wire.primitives import FIXED, NUMBERS

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.wire.schema import Field, Message

    Reader = Callable[[Any, int, int], tuple[Any, int]]
    Writer = Callable[[Any, Callable[[Any], None]], None]


class Source:
    """Lines of a function under construction, with the objects that its text refers to."""

    def __init__(self, head: str) -> None:
        self.lines = [head]
        self.depth = 1
        self.scope: dict[str, Any] = {}
        self._named: dict[int, str] = {}
        self._counter = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def fresh(self, stem: str) -> str:
        """A local name that no other part of the function uses."""
        self._counter += 1
        return f"{stem}{self._counter}"

    def refer(self, stem: str, thing: Any) -> str:
        """The name under which the text may use an object."""
        name = self._named.get(id(thing))
        if name is None:
            name = self.fresh(stem)
            self._named[id(thing)] = name
            self.scope[name] = thing
        return name

    def block(self, text: str) -> Block:
        self.line(text)
        return Block(self)

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    def build(self, name: str, title: str) -> Any:
        scope = dict(self.scope)
        exec(compile(self.text(), f"<{title}>", "exec"), scope)  # noqa: S102 - our own text
        return scope[name]


class Block:
    def __init__(self, source: Source) -> None:
        self.source = source

    def __enter__(self) -> None:
        self.source.depth += 1

    def __exit__(self, *_: object) -> None:
        self.source.depth -= 1


class Form:
    """What version and flexibility make of a message: which fields, in which form."""

    def __init__(self, cls: type[Message], version: int, keep_tags: bool = False) -> None:
        first, last = cls._versions
        if not first <= version <= last:
            raise UnsupportedVersionError(
                f"{cls.__name__} has versions {first} to {last}, not {version}"
            )
        self.cls = cls
        self.version = version
        self.flexible = version >= cls._flexible
        self.keep_tags = keep_tags
        self.zero_copy = has_batches(cls)

    def plain(self, cls: type[Message]) -> list[Field]:
        """The fields written one behind the other."""
        return [f for f in cls._schema if f.in_version(self.version) and f.tag < 0]

    def tagged(self, cls: type[Message]) -> list[Field]:
        """The fields of the tagged section, in the order of their tags."""
        found = [f for f in cls._schema if f.in_version(self.version) and f.tag >= 0]
        return sorted(found, key=lambda f: f.tag)

    def absent(self, cls: type[Message]) -> list[Field]:
        return [f for f in cls._schema if not f.in_version(self.version)]

    def compact(self, field: Field) -> bool:
        return self.flexible and field.flexible

    def smallest(self, field: Field) -> int:
        """The fewest bytes that the field can take: what bounds the length of an array."""
        if field.is_array:
            return 1 if self.compact(field) else 4
        return self.smallest_item(field)

    def smallest_item(self, field: Field) -> int:
        if field.struct is not None:
            if not field.is_array and field.nullable_in(self.version):
                return 1
            inner = sum([self.smallest(f) for f in self.plain(field.struct)])
            return max(inner + self.flexible, 1)
        if field.kind in FIXED:
            return FIXED[field.kind][1]
        if self.compact(field):
            return 1
        return 2 if field.kind == "string" else 4


_with_batches: dict[type[Message], bool] = {}


def has_batches(cls: type[Message]) -> bool:
    """Whether record batches travel in the message, which are read as views."""
    known = _with_batches.get(cls)
    if known is None:
        known = any(
            f.kind == "batches" or (f.struct is not None and has_batches(f.struct))
            for f in cls._schema
        )
        _with_batches[cls] = known
    return known


# Reading -----------------------------------------------------------------------------------------


class ReaderWriter:
    """Writes the text of a reader."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.source = Source("def read(buf, pos, end):")
        self.source.scope |= {
            "Malformed": primitives.Malformed,
            "long": primitives.rest_of_uvarint,
            "skip_tags": primitives.skip_tags,
            "each_tag": primitives.each_tag,
            "new": object.__new__,
            "view": memoryview,
        }
        # Fixed-width reads that wait to be merged into one: (struct code, target).
        self.waiting: list[tuple[str, str]] = []

    def write(self) -> Source:
        out = self.source
        self.struct(self.form.cls, "m")
        self.flush()
        out.line("return m, pos")
        return out

    def flush(self) -> None:
        """One `unpack_from` for the fixed-width fields gathered so far."""
        if not self.waiting:
            return
        out = self.source
        codes = [code for code, _ in self.waiting]
        targets = [target for _, target in self.waiting]
        self.waiting = []
        if codes == ["B"]:
            out.line(f"{targets[0]} = buf[pos]")
            out.line("pos += 1")
            return
        packed = struct.Struct(">" + "".join(codes))
        out.line(f"{', '.join(targets)}, = {_unpacker(out, packed)}(buf, pos)")
        out.line(f"pos += {packed.size}")

    def struct(self, cls: type[Message], name: str) -> None:
        out = self.source
        out.line(f"{name} = new({out.refer('C', cls)})")
        for field in self.form.absent(cls):
            self.default(field, f"{name}.{field.name}")
        for field in self.form.plain(cls):
            self.field(field, f"{name}.{field.name}")
        if self.form.flexible:
            self.tags(cls, name)

    def default(self, field: Field, target: str) -> None:
        value = field.default
        shown = repr(value)
        if not isinstance(value, (int, str, bytes, float, type(None))) and value != ():
            shown = self.source.refer("D", value)
        self.source.line(f"{target} = {shown}")

    def field(self, field: Field, target: str) -> None:
        if field.is_array:
            self.array(field, target)
        elif field.kind in FIXED:
            self.waiting.append((FIXED[field.kind][0], target))
        elif field.struct is not None:
            self.nested(field, target)
        else:
            self.sized(field, target)

    def length(self, field: Field, wide: str) -> str:
        """Read a length; a compact one becomes n - 1, so null is -1 in both forms."""
        out = self.source
        count = out.fresh("n")
        if self.form.compact(field):
            self.waiting.append(("B", count))
            self.flush()
            with out.block(f"if {count} > 127:"):
                out.line(f"{count}, pos = long(buf, pos, {count})")
            out.line(f"{count} -= 1")
        else:
            self.waiting.append((wide, count))
            self.flush()
        return count

    def no_null(self, field: Field, count: str, target: str) -> str:
        """The head of the branch for what has no content; gives the head of the other branch."""
        out = self.source
        if field.nullable_in(self.form.version):
            with out.block(f"if {count} == -1:"):
                out.line(f"{target} = None")
            out.line(f"elif {count} < 0: raise Malformed('negative length')")
        else:
            out.line(f"if {count} < 0: raise Malformed('null where none may be')")
        return "else:"

    def sized(self, field: Field, target: str) -> None:
        """A string, bytes or batches."""
        out = self.source
        count = self.length(field, "h" if field.kind == "string" else "i")
        stop = out.fresh("e")
        with out.block(f"if {count} > 0:"):
            out.line(f"{stop} = pos + {count}")
            out.line(f"if {stop} > end: raise Malformed('longer than the message')")
            out.line(f"{target} = {self.content(field.kind, stop)}")
            out.line(f"pos = {stop}")
        with out.block(f"elif {count} == 0:"):
            out.line(f"{target} = {self.empty(field)}")
        with out.block("else:"):
            self.no_null(field, count, target)

    @staticmethod
    def empty(field: Field) -> str:
        return {"string": "''", "bytes": "b''", "batches": "view(b'')"}[field.kind]

    def content(self, kind: str, stop: str) -> str:
        if kind == "batches":
            return f"view(buf)[pos:{stop}]"
        if self.form.zero_copy:  # the buffer may be of any kind
            piece = f"buf[pos:{stop}]"
            return f"str({piece}, 'utf-8')" if kind == "string" else f"bytes({piece})"
        return f"buf[pos:{stop}].decode()" if kind == "string" else f"buf[pos:{stop}]"

    def nested(self, field: Field, target: str) -> None:
        out = self.source
        assert field.struct is not None
        name = out.fresh("s")
        if not field.nullable_in(self.form.version):
            self.struct(field.struct, name)
            out.line(f"{target} = {name}")
            return
        self.waiting.append(("b", name))
        self.flush()
        with out.block(f"if {name} < 0:"):
            out.line(f"{target} = None")
        with out.block("else:"):
            self.struct(field.struct, name)
            self.flush()
            out.line(f"{target} = {name}")

    def array(self, field: Field, target: str) -> None:
        out = self.source
        count = self.length(field, "i")
        with out.block(f"if {count} > 0:"):
            if field.struct is None and field.kind in FIXED:
                self.numbers(field, count, target)
            else:
                self.items(field, count, target)
        with out.block(f"elif {count} == 0:"):
            out.line(f"{target} = ()")
        with out.block("else:"):
            self.no_null(field, count, target)

    def numbers(self, field: Field, count: str, target: str) -> None:
        out = self.source
        kind = NUMBERS[field.kind]
        stop = out.fresh("e")
        out.line(f"{stop} = pos + {count} * {kind.size}")
        read = out.refer("read", kind.read)
        if self.form.zero_copy:  # slices of such a buffer may not be hashable
            out.line(f"{target} = {read}(buf, pos, end, {count})")
        else:
            known, raw = out.refer("known", kind.read_known), out.fresh("r")
            out.line(f"{raw} = {known}.get(buf[pos:{stop}])")
            with out.block(f"if {raw} is None:"):
                out.line(f"{raw} = {read}(buf, pos, end, {count})")
                limit = kind.LONGEST_REMEMBERED
                out.line(f"if {count} <= {limit}: {known}.keep(buf[pos:{stop}], {raw})")
            out.line(f"{target} = {raw}")
        out.line(f"pos = {stop}")

    def items(self, field: Field, count: str, target: str) -> None:
        out = self.source
        items, item = out.fresh("a"), out.fresh("i")
        smallest = self.form.smallest_item(field)
        bound = count if smallest == 1 else f"{count} * {smallest}"
        out.line(f"if {bound} > end - pos: raise Malformed('array longer than the message')")
        out.line(f"{items} = []")
        with out.block(f"for _ in range({count}):"):
            if field.struct is not None:
                self.struct(field.struct, item)
            else:
                self.sized(_item_of(field), item)
            self.flush()
            out.line(f"{items}.append({item})")
        out.line(f"{target} = tuple({items})")

    def tags(self, cls: type[Message], name: str) -> None:
        """The tagged section: known fields are read where they stand, others stepped over."""
        out = self.source
        known = self.form.tagged(cls)
        count = out.fresh("g")
        self.waiting.append(("B", count))
        self.flush()
        for field in known:
            self.default(field, f"{name}.{field.name}")
        if not known and not self.form.keep_tags:
            out.line(f"if {count}: pos = skip_tags(buf, pos, end, {count})")
            return
        with out.block(f"if {count}:"):
            found, tag, stop = out.fresh("f"), out.fresh("t"), out.fresh("e")
            if self.form.keep_tags:
                out.line(f"{name}.unknown_tags = ()")
            out.line(f"{found} = []")
            after = out.fresh("p")
            out.line(f"{after} = each_tag(buf, pos, end, {count}, {found})")
            with out.block(f"for {tag}, pos, {stop} in {found}:"):
                self.known_tags(known, name, tag, stop)
            out.line(f"pos = {after}")

    def known_tags(self, known: list[Field], name: str, tag: str, stop: str) -> None:
        out = self.source
        word = "if"
        for field in known:
            with out.block(f"{word} {tag} == {field.tag}:"):
                self.field(field, f"{name}.{field.name}")
                self.flush()
                out.line(f"if pos != {stop}: raise Malformed('tagged field of another size')")
            word = "elif"
        if self.form.keep_tags:
            kept = f"{name}.unknown_tags += (({tag}, bytes(buf[pos:{stop}])),)"
            if word == "if":
                out.line(kept)
            else:
                with out.block("else:"):
                    out.line(kept)


def _unpacker(out: Source, packed: struct.Struct) -> str:
    """Name a precompiled struct by its format, so that equal ones share a name."""
    name = "U_" + packed.format[1:].replace("?", "x")
    out.scope[name] = packed.unpack_from
    return name


def _item_of(field: Field) -> Field:
    """The field that one element of an array of strings or bytes would be."""
    from kraftlog.wire.schema import Field

    return Field(field.kind, "", {"flexible": field.flexible})


# Writing -----------------------------------------------------------------------------------------


class WriterWriter:
    """Writes the text of a writer."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.source = Source("def write(m, put):")
        self.source.scope |= {
            "uvarint": primitives.uvarint,
            "put_string": primitives.put_string,
            "put_compact_string": primitives.put_compact_string,
            "uvarints": primitives.UVARINT,
            "no_place": _no_place,
            "bad_null": _bad_null,
            "put_tags": _put_tags,
        }
        # Fixed-width writes that wait to be merged into one: (struct code, expression).
        self.waiting: list[tuple[str, str]] = []

    def write(self) -> Source:
        self.struct(self.form.cls, "m", self.form.cls.__name__)
        self.flush()
        if len(self.source.lines) == 1:
            self.source.line("pass")
        return self.source

    def flush(self) -> None:
        if not self.waiting:
            return
        out = self.source
        codes = "".join([code for code, _ in self.waiting])
        values = [value for _, value in self.waiting]
        self.waiting = []
        if all(value.lstrip("-").isdigit() for value in values):
            out.line(f"put({struct.pack('>' + codes, *map(int, values))!r})")
            return
        name = "P_" + codes.replace("?", "x")
        out.scope[name] = struct.Struct(">" + codes).pack
        out.line(f"put({name}({', '.join(values)}))")

    def struct(self, cls: type[Message], name: str, path: str) -> None:
        out = self.source
        for field in self.form.absent(cls):
            if not field.ignorable:
                default = self.constant(field.default)
                where = f"{path}.{field.name}"
                out.line(
                    f"if {name}.{field.name} != {default}: "
                    f"no_place({where!r}, {self.form.version}, {name}.{field.name})"
                )
        for field in self.form.plain(cls):
            self.field(field, f"{name}.{field.name}", f"{path}.{field.name}")
        if self.form.flexible:
            self.tags(cls, name, path)

    def constant(self, value: Any) -> str:
        if isinstance(value, (int, str, bytes, float, type(None))) or value == ():
            return repr(value)
        return self.source.refer("D", value)

    def field(self, field: Field, value: str, path: str) -> None:
        if field.is_array:
            self.array(field, value, path)
        elif field.kind in FIXED:
            self.waiting.append((FIXED[field.kind][0], value))
        elif field.struct is not None:
            self.nested(field, value, path)
        else:
            self.sized(field, value, path)

    def null(self, field: Field, value: str, path: str, null: bytes) -> None:
        """The branch for None, up to the head of the other one."""
        out = self.source
        with out.block(f"if {value} is None:"):
            if field.nullable_in(self.form.version):
                out.line(f"put({null!r})")
            else:
                out.line(f"bad_null({path!r}, {self.form.version})")
        out.line("else:")

    def held(self, value: str) -> str:
        """A local name for an attribute that is used more than once."""
        if value.isidentifier():
            return value
        name = self.source.fresh("v")
        self.source.line(f"{name} = {value}")
        return name

    def sized(self, field: Field, value: str, path: str) -> None:
        """A string, bytes or batches."""
        self.flush()
        out = self.source
        value = self.held(value)
        compact = self.form.compact(field)
        if field.kind == "string":
            self.null(field, value, path, b"\0" if compact else b"\xff\xff")
            put = "put_compact_string" if compact else "put_string"
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
            self.waiting.append(("i", count))
            self.flush()

    def nested(self, field: Field, value: str, path: str) -> None:
        out = self.source
        assert field.struct is not None
        if not field.nullable_in(self.form.version):
            name = out.fresh("s")
            out.line(f"{name} = {value}")
            out.line(f"if {name} is None: bad_null({path!r}, {self.form.version})")
            self.struct(field.struct, name, path)
            return
        self.flush()
        name = self.held(value)
        self.null(field, name, path, b"\xff")
        out.depth += 1
        self.waiting.append(("b", "1"))
        self.struct(field.struct, name, path)
        self.flush()
        out.depth -= 1

    def array(self, field: Field, value: str, path: str) -> None:
        self.flush()
        out = self.source
        value = self.held(value)
        compact = self.form.compact(field)
        self.null(field, value, path, b"\0" if compact else b"\xff\xff\xff\xff")
        out.depth += 1
        if field.struct is None and field.kind in FIXED:
            kind = NUMBERS[field.kind]
            known = kind.known_compact if compact else kind.known
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
                if field.struct is not None:
                    self.struct(field.struct, item, f"{path}[]")
                else:
                    self.sized(_item_of(field), item, f"{path}[]")
                self.flush()
        out.depth -= 1

    def tags(self, cls: type[Message], name: str, path: str) -> None:
        """The tagged section holds what differs from its default; mostly that is nothing."""
        out = self.source
        known = self.form.tagged(cls)
        if not known and not self.form.keep_tags:
            self.waiting.append(("B", "0"))
            return
        self.flush()
        found = out.fresh("f")
        out.line(f"{found} = None")
        for field in known:
            value, pieces = out.fresh("v"), out.fresh("t")
            default = self.constant(field.default)
            same = f"{value} is not {default} and " if field.struct and not field.is_array else ""
            out.line(f"{value} = {name}.{field.name}")
            with out.block(f"if {same}{value} != {default}:"):
                out.line(f"{pieces} = []; outer{found} = put; put = {pieces}.append")
                self.field(field, value, f"{path}.{field.name}")
                self.flush()
                out.line(f"put = outer{found}")
                out.line(f"if {found} is None: {found} = []")
                out.line(f"{found}.append(({field.tag}, {pieces}))")
        if self.form.keep_tags:
            with out.block(f"for {found}t, {found}b in getattr({name}, 'unknown_tags', ()):"):
                out.line(f"if {found} is None: {found} = []")
                out.line(f"{found}.append(({found}t, [{found}b]))")
        out.line(f"put(b'\\0') if {found} is None else put_tags({found}, put)")


def _put_tags(found: list[tuple[int, list[bytes]]], put: Callable[[Any], None]) -> None:
    put(primitives.uvarint(len(found)))
    for tag, pieces in sorted(found, key=lambda f: f[0]):
        put(primitives.uvarint(tag))
        put(primitives.uvarint(sum(map(len, pieces))))
        for piece in pieces:
            put(piece)


def _no_place(path: str, version: int, value: Any) -> None:
    raise UnsupportedVersionError(f"{path} = {value!r} can't be said in version {version}")


def _bad_null(path: str, version: int) -> None:
    raise UnsupportedVersionError(f"{path} may not be null in version {version}")


def reader_source(cls: type[Message], version: int, keep_tags: bool = False) -> str:
    """The text of a reader, to look at."""
    return ReaderWriter(Form(cls, version, keep_tags)).write().text()


def writer_source(cls: type[Message], version: int, keep_tags: bool = False) -> str:
    """The text of a writer, to look at."""
    return WriterWriter(Form(cls, version, keep_tags)).write().text()


def compile_reader(cls: type[Message], version: int, keep_tags: bool = False) -> Reader:
    source = ReaderWriter(Form(cls, version, keep_tags)).write()
    reader: Reader = source.build("read", f"read {cls.__name__} v{version}")
    return reader


def compile_writer(cls: type[Message], version: int, keep_tags: bool = False) -> Writer:
    source = WriterWriter(Form(cls, version, keep_tags)).write()
    writer: Writer = source.build("write", f"write {cls.__name__} v{version}")
    return writer
