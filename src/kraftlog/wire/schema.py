"""The schema language: a message is one class for all its versions, and the class is the schema.

    class FetchPartition(Message):
        partition: int = int32()
        current_leader_epoch: int = int32(since=9, default=-1, ignorable=True)
        fetch_offset: int = int64()

    class FetchRequest(Message, versions=(4, 18), flexible=12):
        ...

The keywords of a field:

`since`, `until`   the first and last version with the field (by default those of the message)
`default`          the value that a reader sets if the version lacks the field; without a default,
                   the constructor requires the field
`nullable`         True, or the first version that allows null
`tag`              the field's number in the tagged section; it is written only if it differs from
                   its default
`ignorable`        a writer drops the field if the version lacks it; otherwise any value but the
                   default is an error
`pieces`           the array also accepts encoded structs (see `codec.encode_piece`), each as
                   bytes or as a tuple of bytes
`flexible=False`   the string is not compact in flexible versions (the client id in the header)

A class's `flexible` is its first version with compact lengths and tagged sections, or None.
`compiler` turns schemas into code; `explain` finds the invalid field of a malformed message.
"""

from __future__ import annotations

from kraftlog.types import NULL_UUID
from kraftlog.value import TYPE_CHECKING, Value, ValueMeta

if TYPE_CHECKING:
    from typing import Any, ClassVar, dataclass_transform
else:

    def dataclass_transform(**_: object) -> Any:
        return lambda cls: cls


#: A version beyond all: the `until` of a field that never ends, the `null_since` of a field that is
#: never null, the `_flexible` of a message that is never flexible.
FOREVER = 0x7FFF
#: No default: the caller must set the field.
_REQUIRED: Any = object()


class Field:
    """One field of a message: `kind` is its wire type, `struct` the class of a nested struct."""

    __slots__ = (
        "default",
        "flexible",
        "ignorable",
        "is_array",
        "kind",
        "name",
        "null_since",
        "pieces",
        "required",
        "since",
        "struct",
        "tag",
        "until",
    )

    def __init__(
        self,
        kind: str,
        zero: Any,
        struct: type[Message] | None = None,
        is_array: bool = False,
        *,
        since: int = 0,
        until: int = FOREVER,
        nullable: bool | int = FOREVER,
        tag: int = -1,
        ignorable: bool = False,
        flexible: bool = True,
        pieces: bool = False,
        default: Any = _REQUIRED,
    ) -> None:
        self.name = ""
        self.kind = kind
        self.struct = struct
        self.is_array = is_array
        self.since = since
        self.until = until
        self.null_since = 0 if nullable is True else nullable
        self.tag = tag
        self.ignorable = ignorable
        self.flexible = flexible
        self.pieces = pieces
        self.required = default is _REQUIRED
        self.default = zero if default is _REQUIRED else default

    def in_version(self, version: int) -> bool:
        return self.since <= version <= self.until

    def nullable_in(self, version: int) -> bool:
        return version >= self.null_since

    @property
    def null_struct(self) -> int:
        """The int8 of a null struct: as in Kafka, 0 in a tagged field and -1 elsewhere."""
        return 0 if self.tag >= 0 else -1

    def __repr__(self) -> str:
        kind = self.struct.__name__ if self.struct else self.kind
        return f"Field({self.name}: {'[]' if self.is_array else ''}{kind})"


def boolean(**options: Any) -> Any:
    return Field("bool", False, **options)


def int8(**options: Any) -> Any:
    return Field("int8", 0, **options)


def int16(**options: Any) -> Any:
    return Field("int16", 0, **options)


def uint16(**options: Any) -> Any:
    return Field("uint16", 0, **options)


def int32(**options: Any) -> Any:
    return Field("int32", 0, **options)


def uint32(**options: Any) -> Any:
    return Field("uint32", 0, **options)


def int64(**options: Any) -> Any:
    return Field("int64", 0, **options)


def float64(**options: Any) -> Any:
    return Field("float64", 0.0, **options)


def uuid(**options: Any) -> Any:
    return Field("uuid", NULL_UUID, **options)


def string(**options: Any) -> Any:
    return Field("string", "", **options)


def binary(**options: Any) -> Any:
    return Field("bytes", b"", **options)


def batches(**options: Any) -> Any:
    """Record batches: read as a view of the frame, written without a copy."""
    return Field("batches", None, **options)


def array(of: type[Message] | str, **options: Any) -> Any:
    """An array of structs, or of a primitive given by its kind; read as a tuple."""
    if isinstance(of, str):
        return Field(of, (), None, True, **options)
    return Field("struct", (), of, True, **options)


def struct(of: type[Message], **options: Any) -> Any:
    """A nested struct; with `default=EMPTY`, all its fields have their defaults."""
    if options.get("default") is EMPTY:
        options["default"] = blank(of)
    return Field("struct", None, of, **options)


#: The default of a struct field: a struct with the defaults of all its fields.
EMPTY: Any = object()


@dataclass_transform(
    kw_only_default=True,
    field_specifiers=(
        boolean,
        int8,
        int16,
        uint16,
        int32,
        uint32,
        int64,
        float64,
        uuid,
        string,
        binary,
        batches,
        array,
        struct,
    ),
)
class MessageMeta(ValueMeta):
    """Turns the fields of a class body into slots and the message's schema."""

    def __new__(
        mcs,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        versions: tuple[int, int] | None = None,
        flexible: int | None = None,
    ) -> MessageMeta:
        schema = []
        for key in namespace.get("__annotations__", ()):
            field = namespace.get(key)
            if isinstance(field, Field):
                field.name = key
                schema.append(field)
                if field.required:
                    del namespace[key]
                else:
                    namespace[key] = field.default
        namespace["_schema"] = tuple(schema)
        if versions is not None:
            namespace["_versions"] = versions
            namespace["_flexible"] = FOREVER if flexible is None else flexible
        made: Any = super().__new__(mcs, name, bases, namespace)
        return made  # type: ignore[no-any-return]  # made by this metaclass

    @staticmethod
    def default_of(name: str, field: str, default: Any) -> Any:  # noqa: ARG004 - as the parent has it
        # Messages are not changed after their construction, so default structs can be shared.
        return default


class Message(Value, metaclass=MessageMeta):
    """The base of all messages and of the structs in them."""

    __slots__ = ()

    _schema: ClassVar[tuple[Field, ...]]
    _versions: ClassVar[tuple[int, int]]
    _flexible: ClassVar[int]


def blank(cls: type[Message]) -> Any:
    """A struct in which each field has the value that a reader sets if it is absent."""
    return cls(**{field.name: field.default for field in cls._schema})
