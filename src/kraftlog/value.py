"""`Value`: plain data with named fields, cheap to define, to make and to compare.

Messages, effects and recovered state are values. `dataclass(slots=True)` costs 0.7 ms per class and
imports `inspect`, and a compiled struct library takes 15 ms to import: too much for several hundred
classes and a start-up of 0.2 s. A `Value` class costs about ten microseconds to define; its
constructor is compiled when its first value is created.

    class Span(Value):
        start: int
        size: int = 0

Rules: annotations name the fields, in order; a class attribute is the default, which must be
immutable because it is shared; subclasses add fields after those of their parent; fields are
slots; equality compares type and fields. Values are not frozen, because that would double their
cost, but code that passes a value on must not change it afterwards.
"""

from __future__ import annotations

from operator import attrgetter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ClassVar, Self, dataclass_transform
else:

    def dataclass_transform(**_: object) -> Callable[[type], type]:
        return lambda cls: cls


_IMMUTABLE = (int, str, bytes, float, bool, tuple, frozenset, type(None))


def _compile_at_first_call(self: Any, *args: Any, **kwargs: Any) -> None:
    """The initial constructor of every class, replaced when its first value is created."""
    cls: Any = type(self)
    cls.__init__ = compile_init(cls)
    cls.__init__(self, *args, **kwargs)


@dataclass_transform(kw_only_default=False)
class ValueMeta(type):
    """Turns the annotations of a class into slots and stores the defaults."""

    _fields: tuple[str, ...]
    _defaults: dict[str, Any]

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> ValueMeta:
        annotations = namespace.get("__annotations__", ())
        own = [field for field in annotations if not field.startswith("_")]
        fields: tuple[str, ...] = ()
        defaults: dict[str, Any] = {}
        for base in bases:
            if isinstance(base, ValueMeta):
                fields += base._fields
                defaults.update(base._defaults)
        for field in own:
            if field in namespace:
                defaults[field] = mcs.default_of(name, field, namespace.pop(field))
        namespace["__slots__"] = (*namespace.get("__slots__", ()), *own)
        namespace.setdefault("__init__", _compile_at_first_call)
        namespace["_fields"] = fields + tuple(own)
        namespace["_defaults"] = defaults
        #: Returns the fields for a comparison: a tuple, or the only field itself.
        namespace["_values_of"] = (
            attrgetter(*namespace["_fields"]) if namespace["_fields"] else None
        )
        return super().__new__(mcs, name, bases, namespace)

    @staticmethod
    def default_of(name: str, field: str, default: Any) -> Any:
        if not isinstance(default, _IMMUTABLE):
            raise TypeError(f"{name}.{field}: a shared default must be immutable, not {default!r}")
        return default


class Value(metaclass=ValueMeta):
    """Base class of plain data; see the module for the rules."""

    _fields: ClassVar[tuple[str, ...]]
    _defaults: ClassVar[dict[str, Any]]
    _values_of: ClassVar[Callable[[Value], Any] | None]

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        values_of = type(self)._values_of
        return values_of is None or bool(values_of(self) == values_of(other))

    def __hash__(self) -> int:
        return hash(tuple([getattr(self, field) for field in self._fields]))

    def __repr__(self) -> str:
        shown = ", ".join([f"{field}={getattr(self, field, '?')!r}" for field in self._fields])
        return f"{type(self).__name__}({shown})"

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed."""
        cls = type(self)
        copy = cls.__new__(cls)
        for field in self._fields:
            setattr(copy, field, changes.pop(field) if field in changes else getattr(self, field))
        if changes:
            raise TypeError(f"{cls.__name__} has no field {', '.join(sorted(changes))}")
        return copy

    def __getstate__(self) -> tuple[Any, ...]:
        return tuple([getattr(self, field) for field in self._fields])

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        for field, value in zip(self._fields, state, strict=True):
            setattr(self, field, value)


def compile_init(cls: ValueMeta) -> Callable[..., None]:
    """Compile the constructor: one assignment per field, as one would write it by hand."""
    required = [field for field in cls._fields if field not in cls._defaults]
    optional = [field for field in cls._fields if field in cls._defaults]
    parameters = ["self", *required, *[f"{field}=_defaults[{field!r}]" for field in optional]]
    body = "\n".join([f"    self.{field} = {field}" for field in cls._fields]) or "    pass"
    scope: dict[str, Any] = {"_defaults": cls._defaults}
    exec(f"def __init__({', '.join(parameters)}):\n{body}\n", scope)  # noqa: S102 - our own text
    init: Callable[..., None] = scope["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init
