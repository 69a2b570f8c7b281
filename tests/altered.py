"""Loads one module with a piece of its text replaced, without changing the file: for mutants."""

from __future__ import annotations

from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import CodeType, ModuleType


def replaced_once(module: str, source: str, original: str, replacement: str) -> str:
    """The text with `original` replaced; it must occur exactly once."""
    count = source.count(original)
    if count != 1:
        raise ValueError(f"{module} holds the original {count} times: {original!r}")
    return source.replace(original, replacement)


class _Loader(SourceFileLoader):
    """Compiles the changed text, and ignores compiled files."""

    alter: Callable[[str], str]

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        source = self.get_data(path).decode()
        return compile(self.alter(source), path, "exec", dont_inherit=True)


class AlteredFinder(MetaPathFinder):
    """Finds the changed module; must be first in `sys.meta_path`."""

    def __init__(self, module: str, alter: Callable[[str], str]) -> None:
        self.module = module
        self.alter = alter

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if fullname != self.module:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        assert spec is not None
        assert spec.origin is not None
        loader = _Loader(fullname, spec.origin)
        loader.alter = self.alter
        return spec_from_file_location(fullname, spec.origin, loader=loader)
