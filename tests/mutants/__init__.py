"""Rules of the quorum taken out one by one: each must be missed by somebody.

A mutant is a file here that names a module, a piece of its text as it stands, and another. The
text is replaced in a fresh copy of the modules, so the product holds no switches; a piece that is
no longer there exactly once is an error.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import os
import pkgutil
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kraftlog.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

#: What is loaded anew: the core, and what runs it.
FRESH = ("kraftlog.raft", "kraftlog.simulator.explorer")


class Mutant(Value):
    """`rule` is what is broken, for people. `bound` are fields of an explorer's Bound."""

    rule: str
    module: str
    original: str
    replacement: str
    bound: Any = None

    def mutated(self, source: str) -> str:
        count = source.count(self.original)
        if count != 1:
            raise ValueError(f"{self.module} holds the original {count} times: {self.original!r}")
        return source.replace(self.original, self.replacement)


def all_mutants() -> dict[str, Mutant]:
    """Every mutant by the name of its file."""
    names = sorted([found.name for found in pkgutil.iter_modules(__path__)])
    return {name: importlib.import_module(f"{__name__}.{name}").MUTANT for name in names}


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.SourceLoader):
    """Finds the one module, with the mutant's text in it."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant
        found = importlib.util.find_spec(mutant.module)
        assert found is not None
        assert found.origin is not None
        self.origin = found.origin

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if fullname != self.mutant.module:
            return None
        return importlib.util.spec_from_loader(fullname, self)

    def get_filename(self, fullname: str) -> str:
        return self.origin

    def get_data(self, path: str | bytes) -> bytes:
        if os.fspath(path) != self.origin:
            raise OSError("a mutant has no compiled file")
        with open(path, encoding="utf-8") as file:
            return self.mutant.mutated(file.read()).encode()


@contextmanager
def grown(mutant: Mutant) -> Iterator[None]:
    """While this lasts, importing what is FRESH gives the mutant."""
    finder = _Finder(mutant)
    kept = {name: sys.modules.pop(name) for name in list(sys.modules) if name.startswith(FRESH)}
    parents = {name: sys.modules[name] for name in ("kraftlog", "kraftlog.simulator") if name in sys.modules}
    attributes = {name: dict(vars(parent)) for name, parent in parents.items()}
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in list(sys.modules):
            if name.startswith(FRESH):
                del sys.modules[name]
        sys.modules.update(kept)
        for name, parent in parents.items():
            vars(parent).update(attributes[name])
