"""Copies and keys of object graphs, without knowledge of their classes.

A copy has its own objects all the way down; values (`kraftlog.value`) and functions are shared, as
they never change. A key has everything that the objects hold, except the fields that the caller
omits: two graphs with the same key behave alike. A field that is kept needlessly makes more states,
never fewer.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType

from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Copies = dict[int, Any]

_ATOMS = {
    *(int, str, bytes, float, bool, type(None), frozenset, memoryview),
    *(FunctionType, BuiltinFunctionType, type),
}


class Objects:
    """Copies object graphs and makes their keys.

    `copied_values` are classes of values that are copied nevertheless; `omitted` has, by class
    name, the fields that are left out of keys.
    """

    def __init__(
        self, copied_values: tuple[type, ...], omitted: Mapping[str, frozenset[str]]
    ) -> None:
        self._copied_values = copied_values
        self._omitted = omitted
        #: By class, how to copy its objects; None: they are shared.
        self._copiers: dict[type, Callable[[Any, Copies], Any] | None] = {}
        self._slots: dict[type, tuple[str, ...]] = {}
        self._key_fields: dict[type, tuple[str, ...]] = {}

    # Copies --------------------------------------------------------------------------------------

    def copy(self, root: Any) -> Any:
        return self._copy(root, {})

    def _copy(self, obj: Any, copies: Copies) -> Any:
        cls = type(obj)
        try:
            copier = self._copiers[cls]
        except KeyError:
            copier = self._copiers[cls] = self._copier(cls)
        if copier is None:
            return obj
        existing = copies.get(id(obj))
        return copier(obj, copies) if existing is None else existing

    def _copier(self, cls: type) -> Callable[[Any, Copies], Any] | None:
        if cls in _ATOMS or issubclass(cls, type):
            return None
        if issubclass(cls, Value) and cls not in self._copied_values:
            return None
        copier: Callable[[Any, Copies], Any] = _CONTAINERS.get(cls, Objects._copy_object).__get__(
            self
        )
        return copier

    def _copy_tuple(self, obj: tuple[Any, ...], copies: Copies) -> Any:
        copied = tuple([self._copy(item, copies) for item in obj])
        for old, new in zip(obj, copied, strict=True):
            if old is not new:
                return copied
        return obj

    def _copy_list(self, obj: Any, copies: Copies) -> Any:
        copied = copies[id(obj)] = type(obj)()
        copied.extend([self._copy(item, copies) for item in obj])
        return copied

    def _copy_set(self, obj: set[Any], copies: Copies) -> Any:
        copied: set[Any] = set()
        copies[id(obj)] = copied
        copied.update([self._copy(item, copies) for item in obj])
        return copied

    def _copy_dict(self, obj: dict[Any, Any], copies: Copies) -> Any:
        copied: dict[Any, Any] = {}
        copies[id(obj)] = copied
        for key, value in obj.items():
            copied[self._copy(key, copies)] = self._copy(value, copies)
        return copied

    def _copy_method(self, obj: Any, copies: Copies) -> Any:
        return MethodType(obj.__func__, self._copy(obj.__self__, copies))

    def _copy_partial(self, obj: partial[Any], copies: Copies) -> Any:
        assert not obj.keywords, "a partial with keywords is not supported"
        function, *arguments = [self._copy(item, copies) for item in (obj.func, *obj.args)]
        return partial(function, *arguments)

    def _copy_object(self, obj: Any, copies: Copies) -> Any:
        cls: Any = type(obj)
        copied = copies[id(obj)] = cls.__new__(cls)
        for name in self._fields_of(obj):
            if hasattr(obj, name):
                setattr(copied, name, self._copy(getattr(obj, name), copies))
        return copied

    def _fields_of(self, obj: Any) -> tuple[str, ...]:
        """The names of the fields that an object may have."""
        cls = type(obj)
        slots = self._slots.get(cls)
        if slots is None:
            slots_by_class = [vars(base).get("__slots__", ()) for base in cls.__mro__]
            slots = self._slots[cls] = tuple([name for names in slots_by_class for name in names])
        return (*slots, *getattr(obj, "__dict__", ()))

    # Keys ----------------------------------------------------------------------------------------

    def key(self, root: Any) -> tuple[Any, ...]:
        parts: list[Any] = []
        self._add_key(root, parts, {})
        return tuple(parts)

    def _add_key(self, obj: Any, parts: list[Any], seen: dict[int, int]) -> None:
        cls = type(obj)
        if cls is memoryview:
            parts.append(bytes(obj))
        elif cls in _ATOMS:
            parts.append(obj)
        elif cls in _SEQUENCES or isinstance(obj, Value):
            items = (
                obj
                if cls in _SEQUENCES
                else [getattr(obj, name) for name in self._key_fields_of(obj)]
            )
            parts += (cls, len(items))
            for item in items:
                self._add_key(item, parts, seen)
        elif cls is dict:
            parts += (cls, len(obj))
            for key, value in obj.items():
                self._add_key(key, parts, seen)
                self._add_key(value, parts, seen)
        elif cls is set:
            parts += (cls, len(obj), *sorted(obj))
        elif cls is MethodType:
            parts.append(obj.__func__)
            self._add_key(obj.__self__, parts, seen)
        elif cls is partial:
            self._add_key((obj.func, *obj.args), parts, seen)
        elif id(obj) in seen:
            parts += (cls, seen[id(obj)])
        else:
            seen[id(obj)] = len(seen)
            parts += (cls, -1)
            for name in self._key_fields_of(obj):
                self._add_key(getattr(obj, name, None), parts, seen)

    def _key_fields_of(self, obj: Any) -> tuple[str, ...]:
        """The names of the fields that are in the key."""
        cls = type(obj)
        fields_in_key = self._key_fields.get(cls)
        if fields_in_key is None:
            fields = obj._fields if isinstance(obj, Value) else self._fields_of(obj)
            omitted = self._omitted.get(cls.__name__, frozenset())
            assert omitted <= {*fields}, f"{cls.__name__} has no field {omitted - {*fields}}"
            fields_in_key = self._key_fields[cls] = tuple([n for n in fields if n not in omitted])
        return fields_in_key


_CONTAINERS: dict[type, Any] = {
    tuple: Objects._copy_tuple,
    list: Objects._copy_list,
    deque: Objects._copy_list,
    set: Objects._copy_set,
    dict: Objects._copy_dict,
    MethodType: Objects._copy_method,
    partial: Objects._copy_partial,
}
_SEQUENCES = {tuple, list, deque}
