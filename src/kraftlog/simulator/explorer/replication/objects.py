"""Copies and keys of object graphs, without knowledge of their classes.

A copy has its own objects all the way down; values (`kraftlog.value`) and functions are shared, as
they never change. A key has everything that the objects hold, except the fields of `OMITTED`: two
graphs with the same key behave alike. A field missing in `OMITTED` makes more states, never fewer.
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
        self._copiers: dict[type, Callable[[Any, Copies], Any] | None] = {}
        self._fields: dict[type, tuple[str, ...]] = {}
        self._key_fields: dict[type, tuple[str, ...]] = {}

    # Copies --------------------------------------------------------------------------------------

    def copy(self, root: Any) -> Any:
        return self._copy(root, {})

    def _copy(self, it: Any, copies: Copies) -> Any:
        cls = type(it)
        try:
            copier = self._copiers[cls]
        except KeyError:
            copier = self._copiers[cls] = self._copier(cls)
        if copier is None:
            return it
        found = copies.get(id(it))
        return copier(it, copies) if found is None else found

    def _copier(self, cls: type) -> Callable[[Any, Copies], Any] | None:
        if cls in _ATOMS or issubclass(cls, type):
            return None
        if issubclass(cls, Value) and cls not in self._copied_values:
            return None
        copier: Callable[[Any, Copies], Any] = _CONTAINERS.get(cls, Objects._copy_object).__get__(
            self
        )
        return copier

    def _copy_tuple(self, it: tuple[Any, ...], copies: Copies) -> Any:
        made = tuple([self._copy(each, copies) for each in it])
        for old, new in zip(it, made, strict=True):
            if old is not new:
                return made
        return it

    def _copy_list(self, it: Any, copies: Copies) -> Any:
        made = copies[id(it)] = type(it)()
        made.extend([self._copy(each, copies) for each in it])
        return made

    def _copy_set(self, it: set[Any], copies: Copies) -> Any:
        made: set[Any] = set()
        copies[id(it)] = made
        made.update([self._copy(each, copies) for each in it])
        return made

    def _copy_dict(self, it: dict[Any, Any], copies: Copies) -> Any:
        made: dict[Any, Any] = {}
        copies[id(it)] = made
        for key, value in it.items():
            made[self._copy(key, copies)] = self._copy(value, copies)
        return made

    def _copy_method(self, it: Any, copies: Copies) -> Any:
        return MethodType(it.__func__, self._copy(it.__self__, copies))

    def _copy_partial(self, it: partial[Any], copies: Copies) -> Any:
        assert not it.keywords, "a partial with keywords is not supported"
        function, *arguments = [self._copy(each, copies) for each in (it.func, *it.args)]
        return partial(function, *arguments)

    def _copy_object(self, it: Any, copies: Copies) -> Any:
        cls: Any = type(it)
        made = copies[id(it)] = cls.__new__(cls)
        for name in self._fields_of(it):
            if hasattr(it, name):
                setattr(made, name, self._copy(getattr(it, name), copies))
        return made

    def _fields_of(self, it: Any) -> tuple[str, ...]:
        """The names of the fields that an object may have."""
        cls = type(it)
        slots = self._fields.get(cls)
        if slots is None:
            names = [vars(base).get("__slots__", ()) for base in cls.__mro__]
            slots = self._fields[cls] = tuple([name for some in names for name in some])
        return (*slots, *getattr(it, "__dict__", ()))

    # Keys ----------------------------------------------------------------------------------------

    def key(self, root: Any) -> tuple[Any, ...]:
        found: list[Any] = []
        self._add_key(root, found, {})
        return tuple(found)

    def _add_key(self, it: Any, found: list[Any], seen: dict[int, int]) -> None:
        cls = type(it)
        if cls is memoryview:
            found.append(bytes(it))
        elif cls in _ATOMS:
            found.append(it)
        elif cls in _SEQUENCES or isinstance(it, Value):
            items = it if cls in _SEQUENCES else [getattr(it, name) for name in self._shown(it)]
            found += (cls, len(items))
            for each in items:
                self._add_key(each, found, seen)
        elif cls is dict:
            found += (cls, len(it))
            for key, value in it.items():
                self._add_key(key, found, seen)
                self._add_key(value, found, seen)
        elif cls is set:
            found += (cls, len(it), *sorted(it))
        elif cls is MethodType:
            found.append(it.__func__)
            self._add_key(it.__self__, found, seen)
        elif cls is partial:
            self._add_key((it.func, *it.args), found, seen)
        elif id(it) in seen:
            found += (cls, seen[id(it)])
        else:
            seen[id(it)] = len(seen)
            found += (cls, -1)
            for name in self._shown(it):
                self._add_key(getattr(it, name, None), found, seen)

    def _shown(self, it: Any) -> tuple[str, ...]:
        """The names of the fields that are in the key."""
        cls = type(it)
        shown = self._key_fields.get(cls)
        if shown is None:
            fields = it._fields if isinstance(it, Value) else self._fields_of(it)
            omitted = self._omitted.get(cls.__name__, frozenset())
            assert omitted <= {*fields}, f"{cls.__name__} has no field {omitted - {*fields}}"
            shown = self._key_fields[cls] = tuple([n for n in fields if n not in omitted])
        return shown


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
