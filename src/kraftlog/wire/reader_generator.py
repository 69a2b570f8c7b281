"""Generates the source of readers; see `compiler`."""

from __future__ import annotations

import struct

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire import primitives
from kraftlog.wire.primitives import FIXED, NUMBERS
from kraftlog.wire.source import Source, begin_steps, count_item
from kraftlog.wire.versioned_schema import item_of

if TYPE_CHECKING:
    from kraftlog.wire.schema import Field, Message
    from kraftlog.wire.versioned_schema import VersionedSchema

#: A stepwise reader leaves larger arrays as lists, as a copy to a tuple would take long.
GIANT_ARRAY = 1_000


class ReaderGenerator:
    """Generates the source of a reader or a stepwise reader."""

    def __init__(self, schema: VersionedSchema, *, stepwise: bool = False) -> None:
        self.schema = schema
        self.stepwise = stepwise
        self.source = Source("def read(buf, pos, end):")
        self.source.scope |= {
            "Malformed": primitives.Malformed,
            "rest_of_length": primitives.rest_of_length,
            "rest_of_text_length": primitives.rest_of_text_length,
            "string_as_java": primitives.string_as_java,
            "skip_tags": primitives.skip_tags,
            "read_tags": primitives.read_tags,
            "new": object.__new__,
            "view": memoryview,  # batches are slices of it
        }
        # Fixed-width reads, to be merged into one: (struct code, target).
        self.pending: list[tuple[str, str]] = []

    def write(self) -> Source:
        out = self.source
        if self.schema.zero_copy:
            out.line("whole = view(buf)")
        if self.stepwise:
            begin_steps(out)
        self.struct(self.schema.cls, "m")
        self.flush()
        if self.stepwise:
            out.line("yield work")
        out.line("return m, pos")
        return out

    def flush(self) -> None:
        """Emit one `unpack_from` for the pending fixed-width fields."""
        if not self.pending:
            return
        out = self.source
        codes = [code for code, _ in self.pending]
        targets = [target for _, target in self.pending]
        self.pending = []
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
        for field in self.schema.absent(cls):
            self.default(field, f"{name}.{field.name}")
        for field in self.schema.plain(cls):
            self.field(field, f"{name}.{field.name}")
        if self.schema.flexible:
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
            self.pending.append((FIXED[field.kind][0], target))
        elif field.struct is not None:
            self.nested(field, target)
        else:
            self.variable_length(field, target)

    def length(self, field: Field, fixed_code: str) -> tuple[str, int]:
        """Emit the read of a length; return its variable and its value for zero items."""
        out = self.source
        count = out.fresh("n")
        compact = self.schema.compact(field)
        self.pending.append(("B" if compact else fixed_code, count))
        self.flush()
        if compact:
            rest = "rest_of_text_length" if fixed_code == "h" else "rest_of_length"
            out.line(f"if {count} > 127: {count}, pos = {rest}(buf, pos, {count})")
        return count, int(compact)

    def null(self, field: Field, target: str) -> None:
        """Emit the branch for null, which is any negative count."""
        out = self.source
        with out.block("else:"):
            if field.nullable_in(self.schema.version):
                out.line(f"{target} = None")
            else:
                out.line("raise Malformed('null is not allowed')")

    def variable_length(self, field: Field, target: str) -> None:
        """Emit the read of a string, bytes or batches."""
        out = self.source
        count, zero = self.length(field, "h" if field.kind == "string" else "i")
        stop = out.fresh("e")
        with out.block(f"if {count} > {zero}:"):
            out.line(f"{stop} = pos + {items_in(count, zero)}")
            out.line(f"if {stop} > end: raise Malformed('longer than the message')")
            out.line(f"{target} = {self.content(field.kind, stop)}")
            out.line(f"pos = {stop}")
        with out.block(f"elif {count} == {zero}:"):
            out.line(f"{target} = {self.empty(field)}")
        self.null(field, target)

    @staticmethod
    def empty(field: Field) -> str:
        return {"string": "''", "bytes": "b''", "batches": "whole[:0]"}[field.kind]

    def content(self, kind: str, stop: str) -> str:
        if kind == "batches":
            return f"whole[pos:{stop}]"
        piece = f"buf[pos:{stop}]"
        if kind == "string":
            if self.schema.lenient:
                return f"string_as_java({piece})"
            return f"str({piece}, 'utf-8')" if self.schema.zero_copy else f"{piece}.decode()"
        return f"bytes({piece})" if self.schema.zero_copy else piece

    def nested(self, field: Field, target: str) -> None:
        out = self.source
        assert field.struct is not None
        name = out.fresh("s")
        if not field.nullable_in(self.schema.version):
            self.struct(field.struct, name)
            out.line(f"{target} = {name}")
            return
        self.pending.append(("b", name))
        self.flush()
        with out.block(f"if {name} <= {field.null_struct}:"):
            out.line(f"{target} = None")
        with out.block("else:"):
            self.struct(field.struct, name)
            self.flush()
            out.line(f"{target} = {name}")

    def array(self, field: Field, target: str) -> None:
        out = self.source
        count, zero = self.length(field, "i")
        with out.block(f"if {count} > {zero}:"):
            if field.struct is None and field.kind in FIXED:
                self.numbers(field, items_in(count, zero), target)
            else:
                self.items(field, count, zero, target)
        with out.block(f"elif {count} == {zero}:"):
            out.line(f"{target} = ()")
        self.null(field, target)

    def numbers(self, field: Field, count: str, target: str) -> None:
        out = self.source
        kind = NUMBERS[field.kind]
        stop = out.fresh("e")
        out.line(f"{stop} = pos + ({count}) * {kind.size}")
        out.line(f"if {stop} > end: raise Malformed('array longer than the message')")
        read = out.refer("read", kind.read)
        if self.schema.zero_copy:  # a slice of a mutable buffer cannot be a key of the cache
            out.line(f"{target} = {read}(buf, pos, {count})")
        else:
            known, items = out.refer("known", kind.decoded), out.fresh("r")
            out.line(f"{items} = {known}.get(buf[pos:{stop}])")
            with out.block(f"if {items} is None:"):
                out.line(f"{items} = {read}(buf, pos, {count})")
                limit = kind.LONGEST_CACHED
                out.line(f"if {count} <= {limit}: {known}.keep(buf[pos:{stop}], {items})")
            out.line(f"{target} = {items}")
        out.line(f"pos = {stop}")

    def items(self, field: Field, count: str, zero: int, target: str) -> None:
        """Emit the loop over an array; without `range`, as most arrays have one or two items."""
        out = self.source
        items, item = out.fresh("a"), out.fresh("i")
        min_size = self.schema.min_item_size(field)
        bound = f"({items_in(count, zero)}) * {min_size}" if min_size > 1 else items_in(count, zero)
        out.line(f"if {bound} > end - pos: raise Malformed('array longer than the message')")
        out.line(f"{items} = []")
        with out.block(f"while {count} > {zero}:"):
            out.line(f"{count} -= 1")
            if self.stepwise:
                count_item(out)
            if field.struct is not None:
                self.struct(field.struct, item)
            else:
                self.variable_length(item_of(field), item)
            self.flush()
            out.line(f"{items}.append({item})")
        if self.stepwise:
            out.line(f"{target} = {items} if len({items}) > {GIANT_ARRAY} else tuple({items})")
        else:
            out.line(f"{target} = tuple({items})")

    def tags(self, cls: type[Message], name: str) -> None:
        """Emit the read of the tagged section; unknown fields are skipped."""
        out = self.source
        known = self.schema.tagged(cls)
        count = out.fresh("g")
        self.pending.append(("B", count))
        self.flush()
        for field in known:
            self.default(field, f"{name}.{field.name}")
        if not known:
            out.line(f"if {count}: pos = skip_tags(buf, pos, end, {count})")
            return
        with out.block(f"if {count}:"):
            found, tag, stop = out.fresh("f"), out.fresh("t"), out.fresh("e")
            out.line(f"{found} = []")
            after = out.fresh("p")
            out.line(f"{after} = read_tags(buf, pos, end, {count}, {found})")
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


def items_in(count: str, zero: int) -> str:
    """The expression for the number of items, given a length that is `zero` for no items."""
    return f"{count} - {zero}" if zero else count


def _unpacker(out: Source, packed: struct.Struct) -> str:
    """Name a precompiled struct by its format, so that equal ones share a name."""
    name = "U_" + packed.format[1:].replace("?", "x")
    out.scope[name] = packed.unpack_from
    return name
