"""Replaces the functions of a loaded module by those of a changed text: for mutants.

A process that has loaded the product and the tests forks a child for each mutant, so a mutant costs
only its run or its test, and no start of Python. What cannot be replaced like this is refused; such
a mutant needs a process that loads the changed module instead of the real one (`altered`).
"""

from __future__ import annotations

import gc
import inspect
from types import CodeType, FunctionType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType


class NotInPlaceError(Exception):
    """The change is not one of loaded functions alone."""


def replace(module: ModuleType, alter: Callable[[str], str]) -> list[str]:
    """Give the functions of `module` the code of its changed text; return the changed ones' names.

    Each function in memory that was compiled from the module's text is replaced, wherever it is
    kept. Raises NotInPlaceError, with nothing replaced, if the module's text differs from what is
    loaded, if anything but the bodies of functions changes (a constant, a default, a decorator), or
    if a changed function is not in memory.
    """
    assert module.__file__ is not None
    with open(module.__file__, encoding="utf-8") as file:
        source = file.read()
    old, new = [
        compile(text, module.__file__, "exec", dont_inherit=True)
        for text in (source, alter(source))
    ]
    if _frame(old) != _frame(new):
        raise NotInPlaceError("it changes more than the bodies of functions")
    pairs = dict(zip(_functions(old), _functions(new), strict=True))
    loaded: dict[CodeType, list[FunctionType]] = {code: [] for code in pairs}
    changed = [code for code, fresh in pairs.items() if _unplaced(code) != _unplaced(fresh)]
    assert changed, f"nothing changes in {module.__name__}"
    nested = {inner: code in changed for code in pairs for inner in _nested(code)}
    for function in gc.get_objects():
        if type(function) is FunctionType and function.__code__.co_filename == module.__file__:
            if function.__code__ in loaded:
                loaded[function.__code__].append(function)
            elif function.__code__ not in nested:
                raise NotInPlaceError(f"the text of {function.__qualname__} is not what is loaded")
            elif nested[function.__code__]:
                raise NotInPlaceError(f"{function.__qualname__} has been made already")
    for code in changed:
        if not loaded[code]:
            raise NotInPlaceError(f"{code.co_qualname} is not in memory")
        if code.co_freevars != pairs[code].co_freevars:
            raise NotInPlaceError(f"{code.co_qualname} closes over other variables")
    for code, functions in loaded.items():
        for function in functions:
            function.__code__ = pairs[code]
    return [code.co_qualname for code in changed]


def _codes(code: CodeType) -> Iterator[CodeType]:
    return (constant for constant in code.co_consts if isinstance(constant, CodeType))


def _functions(code: CodeType) -> Iterator[CodeType]:
    """The outermost functions of a module, also those of its classes."""
    for inner in _codes(code):
        if inner.co_flags & inspect.CO_OPTIMIZED:
            yield inner
        else:
            yield from _functions(inner)


def _nested(code: CodeType) -> Iterator[CodeType]:
    """All functions within a function."""
    for inner in _codes(code):
        yield inner
        yield from _nested(inner)


def _unplaced(code: CodeType) -> CodeType:
    """The code without its place in the text."""
    constants = tuple(
        _unplaced(constant) if isinstance(constant, CodeType) else constant
        for constant in code.co_consts
    )
    return code.replace(co_consts=constants, co_firstlineno=1, co_linetable=b"")


def _frame(code: CodeType) -> CodeType:
    """The code of a module or class with the names of its functions instead of their code."""
    constants = tuple(
        constant
        if not isinstance(constant, CodeType)
        else constant.co_qualname
        if constant.co_flags & inspect.CO_OPTIMIZED
        else _frame(constant)
        for constant in code.co_consts
    )
    return _unplaced(code.replace(co_consts=constants))
