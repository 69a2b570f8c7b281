"""A message's schema in one version: its fields, their encodings and minimum sizes."""

from __future__ import annotations

from kraftlog.errors import UnsupportedVersionError
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.primitives import FIXED
from kraftlog.wire.schema import Field

if TYPE_CHECKING:
    from kraftlog.wire.schema import Message


class VersionedSchema:
    """The fields of a message in one version, with their encoding."""

    def __init__(self, cls: type[Message], version: int, lenient: bool = False) -> None:
        """With `lenient`, invalid UTF-8 in strings is decoded as in Java."""
        first, last = cls._versions
        if not first <= version <= last:
            raise UnsupportedVersionError(
                f"{cls.__name__} has versions {first} to {last}, not {version}"
            )
        self.cls = cls
        self.version = version
        self.flexible = version >= cls._flexible
        self.lenient = lenient
        #: Whether readers must accept any buffer; otherwise they are given bytes.
        self.zero_copy = has_batches(cls)

    def plain(self, cls: type[Message]) -> list[Field]:
        """The fields outside the tagged section, in the order of their encoding."""
        return [f for f in cls._schema if f.in_version(self.version) and f.tag < 0]

    def tagged(self, cls: type[Message]) -> list[Field]:
        """The fields of the tagged section; a writer sorts them by tag."""
        return [f for f in cls._schema if f.in_version(self.version) and f.tag >= 0]

    def absent(self, cls: type[Message]) -> list[Field]:
        return [f for f in cls._schema if not f.in_version(self.version)]

    def compact(self, field: Field) -> bool:
        return self.flexible and field.flexible

    def min_size(self, field: Field) -> int:
        """The fewest bytes that the field takes."""
        if field.is_array:
            return 1 if self.compact(field) else 4
        return self.min_item_size(field)

    def min_item_size(self, field: Field) -> int:
        """The fewest bytes of one item; the bytes left, divided by it, bound an array's length."""
        if field.struct is not None:
            if not field.is_array and field.nullable_in(self.version):
                return 1
            inner = sum([self.min_size(f) for f in self.plain(field.struct)])
            return max(inner + self.flexible, 1)
        if field.kind in FIXED:
            return FIXED[field.kind][1]
        if self.compact(field):
            return 1
        return 2 if field.kind == "string" else 4


_with_batches: dict[type[Message], bool] = {}


def has_batches(cls: type[Message]) -> bool:
    """Whether the message contains record batches, which are read as views."""
    known = _with_batches.get(cls)
    if known is None:
        known = any(
            f.kind == "batches" or (f.struct is not None and has_batches(f.struct))
            for f in cls._schema
        )
        _with_batches[cls] = known
    return known


def item_of(field: Field) -> Field:
    """A field like one element of an array of primitives, which is never null."""
    return Field(field.kind, None, flexible=field.flexible)
