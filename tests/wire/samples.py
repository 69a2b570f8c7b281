"""Every message there is, and random values for any of them."""

from __future__ import annotations

import struct
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

from kraftlog.wire import messages
from kraftlog.wire.compiler import Form
from kraftlog.wire.schema import Field, Message

if TYPE_CHECKING:
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
    """Every class of `wire.messages` that is a message of its own, not a part of one."""
    found: list[type[Message]] = []
    for module in iter_modules(messages.__path__):
        namespace = vars(import_module(f"{messages.__name__}.{module.name}"))
        found += [
            thing
            for thing in namespace.values()
            if isinstance(thing, type) and issubclass(thing, Message) and "_versions" in vars(thing)
        ]
    return tuple(found)


def versions_of(cls: type[Message]) -> range:
    first, last = cls._versions
    return range(first, last + 1)


class Sampler:
    """Random messages: what a version can say, with edges more often than chance would have."""

    def __init__(self, random: Random, null_share: float = 0.2, tame: bool = False) -> None:
        self.random = random
        self.null_share = null_share
        #: kio reads durations, moments and error codes as objects that do not hold every number.
        self.tame = tame

    def message(self, cls: type[Message], version: int) -> Any:
        return self.struct(cls, Form(cls, version))

    def struct(self, cls: type[Message], form: Form) -> Any:
        values = {}
        for field in cls._schema:
            there = field.in_version(form.version) and field.tag < OUR_TAGS
            if there and (field.tag < 0 or self.random.random() < 0.6):
                values[field.name] = self.value(field, form)
            else:
                values[field.name] = field.default
        return cls(**values)

    def value(self, field: Field, form: Form) -> Any:
        if field.nullable_in(form.version) and self.random.random() < self.null_share:
            return None
        if field.is_array:
            count = self.random.choice((0, 1, 1, 2, 3))
            return tuple([self.single(field, form) for _ in range(count)])
        return self.single(field, form)

    def single(self, field: Field, form: Form) -> Any:
        if field.struct is not None:
            return self.struct(field.struct, form)
        return self.primitive(field.kind, field.name)

    def primitive(self, kind: str, name: str = "") -> Any:
        random = self.random
        if kind == "bool":
            return random.random() < 0.5
        if kind == "float64":
            return struct.unpack(">d", struct.pack(">d", random.uniform(-1e9, 1e9)))[0]
        if kind == "uuid":
            return random.randbytes(16)
        if kind == "string":
            length = random.choice((0, 1, 5, 20, 130)) if random.random() < 0.9 else 300
            return "".join(random.choices(LETTERS, k=length))
        if kind in {"bytes", "batches"}:
            return random.randbytes(random.choice((0, 1, 7, 130)))
        low, high = RANGES[kind]
        if self.tame and name.endswith("error_code"):
            return random.randint(-1, 133)
        if self.tame and ("_ms" in name or "timestamp" in name):
            return random.randint(0, min(high, 2**40))
        return random.choice((0, -1 if low else 1, low, high, random.randint(low, high)))


#: Tagged fields from here on are our own: no other codec has them.
OUR_TAGS = 10000


def plain(value: Any) -> Any:
    """The same value with views as bytes and every array as a tuple, for comparing."""
    if isinstance(value, Message):
        return (type(value).__name__, *[plain(getattr(value, f)) for f in type(value)._fields])
    if isinstance(value, (list, tuple)):
        return tuple([plain(v) for v in value])
    return bytes(value) if isinstance(value, memoryview) else value
