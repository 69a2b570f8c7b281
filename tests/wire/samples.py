"""All messages, and random samples of each."""

from __future__ import annotations

import struct
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

from kraftlog.wire import messages
from kraftlog.wire.schema import Field, Message
from kraftlog.wire.versioned_schema import VersionedSchema

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

RANGES = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
LETTERS = "abcdefghijklmnopqrstuvwxyz.-_0123456789äß€😀"


@cache
def all_messages() -> tuple[type[Message], ...]:
    """Every message class of `wire.messages`, without the structs in them."""
    classes: list[type[Message]] = []
    for module in iter_modules(messages.__path__):
        namespace = vars(import_module(f"{messages.__name__}.{module.name}"))
        classes += [
            member
            for member in namespace.values()
            if isinstance(member, type)
            and issubclass(member, Message)
            and "_versions" in vars(member)
        ]
    return tuple(classes)


def for_every_message(test: Callable[[type[Message]], None]) -> Callable[[], None]:
    """Make one test of all messages; a failure names its message.

    A test for each would take longer to start and report than to run, as there are hundreds.
    """

    def of_every_message() -> None:
        for cls in all_messages():
            try:
                test(cls)
            except BaseException as error:
                error.add_note(f"the message is {cls.__name__}")
                raise

    of_every_message.__name__ = test.__name__
    of_every_message.__doc__ = test.__doc__
    return of_every_message


def versions_of(cls: type[Message]) -> range:
    first, last = cls._versions
    return range(first, last + 1)


#: The first of our own tags, which other codecs do not know.
FIRST_OWN_TAG = 10000


class Sampler:
    """Generates random messages of a version, with many boundary values."""

    def __init__(
        self,
        random: Random,
        *,
        null_share: float = 0.2,
        kio_ranges: bool = False,
        small: bool = False,
        own_tags: bool = False,
    ) -> None:
        self.random = random
        self.null_share = null_share
        #: Only values that kio's types for durations, timestamps and error codes can represent.
        self.kio_ranges = kio_ranges
        #: Short strings, for tests that change every byte of a message.
        self.small = small
        #: With our own tagged fields.
        self.own_tags = own_tags

    def message(self, cls: type[Message], version: int) -> Any:
        return self.struct(cls, VersionedSchema(cls, version))

    def struct(self, cls: type[Message], schema: VersionedSchema) -> Any:
        values = {}
        for field in cls._schema:
            is_present = field.in_version(schema.version) and (
                self.own_tags or field.tag < FIRST_OWN_TAG
            )
            if is_present and (field.tag < 0 or self.random.random() < 0.6):
                values[field.name] = self.value(field, schema)
            else:
                values[field.name] = field.default
        return cls(**values)

    def value(self, field: Field, schema: VersionedSchema) -> Any:
        if field.nullable_in(schema.version) and self.random.random() < self.null_share:
            return None
        if field.is_array:
            count = self.random.choice((0, 1, 1, 2) if self.small else (0, 1, 1, 2, 3))
            return tuple([self.single(field, schema) for _ in range(count)])
        return self.single(field, schema)

    def single(self, field: Field, schema: VersionedSchema) -> Any:
        if field.struct is not None:
            return self.struct(field.struct, schema)
        return self.primitive(field.kind, field.name)

    def size(self) -> int:
        if self.small:
            return self.random.choice((0, 1, 3))
        return self.random.choice((0, 1, 5, 20, 130)) if self.random.random() < 0.9 else 300

    def primitive(self, kind: str, name: str = "") -> Any:
        random = self.random
        if kind == "bool":
            return random.random() < 0.5
        if kind == "float64":
            return struct.unpack(">d", struct.pack(">d", random.uniform(-1e9, 1e9)))[0]
        if kind == "uuid":
            return random.randbytes(16)
        if kind == "string":
            return "".join(random.choices(LETTERS, k=self.size()))
        if kind in {"bytes", "batches"}:
            return random.randbytes(self.size())
        low, high = RANGES[kind]
        if self.kio_ranges and name.endswith("error_code"):
            return random.randint(-1, 133)
        if self.kio_ranges and ("_ms" in name or "timestamp" in name):
            return random.randint(0, min(high, 2**40))
        return random.choice((0, -1 if low else 1, low, high, random.randint(low, high)))


def plain(value: Any) -> Any:
    """Normalize a value for comparison: views to bytes, arrays to tuples, floats to bits."""
    if isinstance(value, Message):
        return (type(value).__name__, *[plain(getattr(value, f)) for f in type(value)._fields])
    if isinstance(value, (list, tuple)):
        return tuple([plain(v) for v in value])
    if isinstance(value, float):
        return struct.pack(">d", value)  # so that NaN equals itself
    return bytes(value) if isinstance(value, memoryview) else value


def has_our_tags(cls: type[Message]) -> bool:
    """Whether the message, or a struct in it, has tagged fields of our own."""
    return any(
        field.tag >= FIRST_OWN_TAG or (field.struct is not None and has_our_tags(field.struct))
        for field in cls._schema
    )


def parts_of(cls: type[Message]) -> list[type[Message]]:
    """The message and every struct in it."""
    parts = [cls]
    for field in cls._schema:
        if field.struct is not None:
            parts += parts_of(field.struct)
    return parts
