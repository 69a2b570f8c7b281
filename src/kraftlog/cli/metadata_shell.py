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
at [OFFSET|TIME]      print the offset, or go to an offset or a time; 'latest' reads the log again
exit                  leave
Paths and names may contain *, ? and [...]; a / in a name is written as %2F."""


class ShellError(KraftlogError):
    """A command line that cannot be executed, such as one with an unknown command or path."""


class MetadataShell:
    """The metadata tree as of an offset or time, and the current directory in it."""

    def __init__(
        self, load: Callable[[str], MetadataState], moment: str, *, is_json: bool = False
    ) -> None:
        self._load = load
        #: Whether each command prints a JSON value on a line.
        self._is_json = is_json
        self._directory: Path = ()
        self._go_to(moment)

    def _go_to(self, moment: str) -> None:
        state = self._load(moment)
        self.offset = state.offset
        self._tree = tree_of(state)

    @property
    def prompt(self) -> str:
        return f"{self.offset}:{_path_text(self._directory)}$ "

    def run(self, line: str) -> int:
        """Run a command line; return its exit code."""
        try:
            words = shlex.split(line, comments=True)
            if words:
                command = _COMMANDS.get(words[0])
                if command is None:
                    raise ShellError(f"unknown command {words[0]!r}; 'help' lists them")
                command(self, words[1:])
        except (KraftlogError, ValueError) as error:
            print(f"kraftlog metadata shell: {error}", file=sys.stderr)
            return 1
        return 0

    # Commands ------------------------------------------------------------------------------------

    def _ls(self, words: list[str]) -> None:
        matches = [match for word in words or ["."] for match in self._matches(word)]
        if self._is_json:
            _print_json({_path_text(path): _names(value) for path, value in matches})
            return
        for number, (path, value) in enumerate(matches):
            if len(matches) > 1 and isinstance(value, dict):
                if number:
                    print()
                print(f"{_path_text(path)}:")
            if isinstance(value, dict):
                for name, child in value.items():
                    print(f"{name}/" if isinstance(child, dict) else name)
            else:
                print(_path_text(path))

    def _cd(self, words: list[str]) -> None:
        [(path, value)] = self._matches(words[0] if words else "/")[:1]
        if not isinstance(value, dict):
            raise ShellError(f"{_path_text(path)} is a file")
        self._directory = path

    def _pwd(self, _: list[str]) -> None:
        path = _path_text(self._directory)
        print(json.dumps(path) if self._is_json else path)

    def _cat(self, words: list[str]) -> None:
        if not words:
            raise ShellError("cat needs a path")
        for word in words:
            for _, value in self._matches(word):
                if self._is_json:
                    _print_json(value)
                elif isinstance(value, str):
                    print(value)
                else:
                    print(json.dumps(value, indent=_json_indent(value)))

    def _print_tree(self, words: list[str]) -> None:
        matches = self._matches(words[0] if words else ".")
        if self._is_json:
            _print_json({_path_text(path): value for path, value in matches})
            return
        for path, value in matches:
            print(_path_text(path))
            for inner_path, child in _below((), value):
                indent = "  " * len(inner_path)
                ending = "/" if isinstance(child, dict) else f": {_value_text(child)}"
                print(f"{indent}{inner_path[-1]}{ending}")

    def _find(self, words: list[str]) -> None:
        name = words[1] if len(words) > 1 else "*"
        found = [
            _path_text(inner_path)
            for path, value in self._matches(words[0] if words else ".")
            for inner_path, _ in _below(path, value)
            if fnmatchcase(inner_path[-1], name)
        ]
        if self._is_json:
            _print_json(found)
        else:
            for path_text in found:
                print(path_text)

    def _at(self, words: list[str]) -> None:
        if words:
            self._go_to(words[0])
        print(self.offset)

    def _help(self, _: list[str]) -> None:
        print(HELP)

    # Paths ---------------------------------------------------------------------------------------

    def _matches(self, text: str) -> list[tuple[Path, Any]]:
        """The files and directories that match a path with wildcards; at least one."""
        parts = [] if text.startswith("/") else list(self._directory)
        for part in text.split("/"):
            if part == "..":
                parts = parts[:-1]
            elif part not in {"", "."}:
                parts.append(part)
        matches: list[tuple[Path, Any]] = [((), self._tree)]
        for part in parts:
            matches = [
                ((*path, name), child)
                for path, value in matches
                if isinstance(value, dict)
                for name, child in _matching(value, part)
            ]
        if not matches:
            raise ShellError(f"no such file or directory: {_path_text(tuple(parts))}")
        return matches


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


def _print_json(data: Any) -> None:
    print(json.dumps(data))


def _names(value: Any) -> list[str] | None:
    """The names in a directory; None for a file."""
    return list(value) if isinstance(value, dict) else None


def _matching(directory: dict[str, Any], part: str) -> Iterator[tuple[str, Any]]:
    if part in directory:
        yield part, directory[part]
    elif any(wildcard in part for wildcard in "*?["):
        for name, value in directory.items():
            if fnmatchcase(name, part):
                yield name, value


def _below(path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict):
        for name, child in value.items():
            yield (*path, name), child
            yield from _below((*path, name), child)


def _path_text(path: Path) -> str:
    return "/" + "/".join(path)


def _json_indent(value: Any) -> int | None:
    """Only directories are printed on several lines."""
    return 2 if isinstance(value, dict) else None


def _value_text(value: Any) -> str:
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
