"""The commands of `kraftlog metadata shell`."""

from __future__ import annotations

import json
import shlex
import sys
from fnmatch import fnmatchcase

from kraftlog.errors import KraftlogError
from kraftlog.metadata.tree import tree_of
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from kraftlog.metadata.history import MetadataState

    Path = tuple[str, ...]

HELP = """\
ls [PATH...]          list directories
cd [PATH]             change the directory
pwd                   print the directory
cat PATH...           print files; a directory is printed as JSON
tree [PATH]           print all below a directory
find [PATH] [NAME]    print the paths below a directory, or those with this name
at [OFFSET|TIME]      go to an offset or a time; 'latest' reads the log again
exit                  leave
Paths and names may contain * and ?; a / in a name is written as %2F."""


class NoSuchPathError(KraftlogError):
    """A path of the command line that the metadata does not have."""


class MetadataShell:
    """The tree as of a moment, and the present directory."""

    def __init__(self, load: Callable[[str], MetadataState], when: str) -> None:
        self._load = load
        self._directory: Path = ()
        self._go_to(when)

    def _go_to(self, when: str) -> None:
        state = self._load(when)
        self.offset = state.offset
        self._tree = tree_of(state)

    @property
    def prompt(self) -> str:
        return f"{self.offset}:{_text(self._directory)}$ "

    def run(self, line: str) -> int:
        """Run a command line; return its exit code."""
        try:
            words = shlex.split(line, comments=True)
            if words:
                command = _COMMANDS.get(words[0])
                if command is None:
                    raise NoSuchPathError(f"unknown command {words[0]!r}; 'help' lists them")
                command(self, words[1:])
        except (KraftlogError, ValueError) as error:
            print(f"kraftlog metadata shell: {error}", file=sys.stderr)
            return 1
        return 0

    # Commands ------------------------------------------------------------------------------------

    def _ls(self, words: list[str]) -> None:
        found = [place for word in words or ["."] for place in self._found(word)]
        for number, (path, value) in enumerate(found):
            if len(found) > 1 and isinstance(value, dict):
                if number:
                    print()
                print(f"{_text(path)}:")
            if isinstance(value, dict):
                for name, each in value.items():
                    print(f"{name}/" if isinstance(each, dict) else name)
            else:
                print(_text(path))

    def _cd(self, words: list[str]) -> None:
        [(path, value)] = self._found(words[0] if words else "/")[:1]
        if not isinstance(value, dict):
            raise NoSuchPathError(f"{_text(path)} is a file")
        self._directory = path

    def _pwd(self, _: list[str]) -> None:
        print(_text(self._directory))

    def _cat(self, words: list[str]) -> None:
        if not words:
            raise NoSuchPathError("cat needs a path")
        for word in words:
            for _, value in self._found(word):
                print(value if isinstance(value, str) else json.dumps(value, indent=_width(value)))

    def _print_tree(self, words: list[str]) -> None:
        for path, value in self._found(words[0] if words else "."):
            print(_text(path))
            for inner, each in _below((), value):
                indent = "  " * len(inner)
                print(f"{indent}{inner[-1]}{'/' if isinstance(each, dict) else f': {_line(each)}'}")

    def _find(self, words: list[str]) -> None:
        name = words[1] if len(words) > 1 else "*"
        for path, value in self._found(words[0] if words else "."):
            for inner, _ in _below(path, value):
                if fnmatchcase(inner[-1], name):
                    print(_text(inner))

    def _at(self, words: list[str]) -> None:
        if words:
            self._go_to(words[0])
        print(self.offset)

    def _help(self, _: list[str]) -> None:
        print(HELP)

    # Paths ---------------------------------------------------------------------------------------

    def _found(self, text: str) -> list[tuple[Path, Any]]:
        """The places that a path, which may have wildcards, names; at least one."""
        parts = [] if text.startswith("/") else list(self._directory)
        for part in text.split("/"):
            if part == "..":
                parts = parts[:-1]
            elif part not in {"", "."}:
                parts.append(part)
        found: list[tuple[Path, Any]] = [((), self._tree)]
        for part in parts:
            found = [
                ((*path, name), each)
                for path, value in found
                if isinstance(value, dict)
                for name, each in _matching(value, part)
            ]
        if not found:
            raise NoSuchPathError(f"no such file or directory: {_text(tuple(parts))}")
        return found


def interact(shell: MetadataShell) -> int:
    """Read commands from standard input, with a prompt on a terminal."""
    is_terminal = sys.stdin.isatty()
    if is_terminal:
        import readline  # noqa: F401 - editing and history for `input`
    code = 0
    while True:
        try:
            line = input(shell.prompt if is_terminal else "")
        except EOFError:
            return 0 if is_terminal else code
        if line.strip() in {"exit", "quit"}:
            return 0 if is_terminal else code
        code = max(code, shell.run(line))


def _matching(directory: dict[str, Any], part: str) -> Iterator[tuple[str, Any]]:
    if part in directory:
        yield part, directory[part]
    elif any(sign in part for sign in "*?["):
        for name, value in directory.items():
            if fnmatchcase(name, part):
                yield name, value


def _below(path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield (*path, name), each
            yield from _below((*path, name), each)


def _text(path: Path) -> str:
    return "/" + "/".join(path)


def _width(value: Any) -> int | None:
    """Only directories are worth several lines."""
    return 2 if isinstance(value, dict) else None


def _line(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


_COMMANDS: dict[str, Callable[[MetadataShell, list[str]], None]] = {
    "ls": MetadataShell._ls,
    "cd": MetadataShell._cd,
    "pwd": MetadataShell._pwd,
    "cat": MetadataShell._cat,
    "tree": MetadataShell._print_tree,
    "find": MetadataShell._find,
    "at": MetadataShell._at,
    "help": MetadataShell._help,
}
