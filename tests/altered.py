"""Changes a statement of a named function, without changing its file: for mutants and clauses."""

from __future__ import annotations

import ast
import os
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from tests.house_rules import ROOT, parsed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from importlib.machinery import ModuleSpec
    from types import CodeType, ModuleType


class Change(NamedTuple):
    """Replaces `original`, which must occur exactly once in `function`; white space is ignored.

    `function` is `package.module:Class.method`; a class or a constant has a name, too. The
    replacement is indented as the original is in the file, whatever its own margin is. Without a
    replacement the original is deleted, and its line with it if nothing else is there.
    """

    function: str
    original: str
    replacement: str = ""

    @property
    def module(self) -> str:
        return self.function.partition(":")[0]

    @property
    def path(self) -> str:
        """The module's file, from the root of the repository."""
        return f"src/{self.module.replace('.', '/')}.py"

    def altered_file(self) -> str:
        """The text of the module's file with the change."""
        with open(os.path.join(ROOT, self.path), encoding="utf-8") as file:
            return self.altered(file.read())

    def altered(self, text: str) -> str:
        """The text of the module with the change."""
        definitions = list(_definitions(text, self.function.partition(":")[2]))
        if not definitions:
            raise ValueError(f"there is no {self.function}")
        places = [
            place
            for first, last in definitions
            for place in _places(text, first, last, self.original)
        ]
        if len(places) != 1:
            raise ValueError(f"{self.function} has {self.original!r} {len(places)} times")
        [(first, last)] = places
        if not self.replacement:
            return _without(text, first, last)
        line = text.rfind("\n", 0, first) + 1
        indentation = _indentation(text[line:])
        shift = indentation - _indentation(self.original.strip("\n"))
        lines = [_shifted(row, shift) for row in self.replacement.strip("\n").split("\n")]
        if line + indentation == first:
            first = line
        else:
            lines[0] = lines[0].lstrip()
        return text[:first] + "\n".join(lines) + text[last:]


def _definitions(text: str, name: str) -> Iterator[tuple[int, int]]:
    """Where the lines of what has this qualified name begin and end; a name may be defined twice.

    Without a name: the whole text.
    """
    if not name:
        yield 0, len(text)
        return
    starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
    for node in _named(parsed(text), name):
        first = min([node.lineno, *[d.lineno for d in getattr(node, "decorator_list", ())]])
        assert node.end_lineno is not None
        yield starts[first - 1], starts[node.end_lineno] - 1


def _named(parent: ast.AST, name: str) -> Iterator[ast.stmt]:
    own, _, inner = name.partition(".")
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if node.name != own:
                continue
            if inner:
                yield from _named(node, inner)
            else:
                yield node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if name in {target.id for target in targets if isinstance(target, ast.Name)}:
                yield node
        else:
            yield from _named(node, name)  # of a block, such as an `if`


def _places(text: str, first: int, last: int, original: str) -> Iterator[tuple[int, int]]:
    """Where the original begins and ends, whatever white space is within it."""
    black = [at for at in range(first, last) if not text[at].isspace()]
    squeezed = "".join([text[at] for at in black])
    wanted = "".join(original.split())
    assert wanted, "the original is empty"
    at = squeezed.find(wanted)
    while at >= 0:
        yield black[at], black[at + len(wanted) - 1] + 1
        at = squeezed.find(wanted, at + 1)


def _without(text: str, first: int, last: int) -> str:
    """The text without this part; the white space on one side of it goes, too."""
    before, after = text[:first].rstrip(" "), text[last:].lstrip(" ")
    if before.endswith("\n") and after.startswith("\n"):
        return before + after[1:]
    return before + text[last:] if len(before) < first else before + after


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _shifted(line: str, by: int) -> str:
    if not line.strip():
        return ""
    return line[-by:] if by < 0 else " " * by + line


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
