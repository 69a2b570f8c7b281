"""The command line: `kraftlog COMMAND …`. A command's module is imported when it is called."""

from __future__ import annotations

import sys
from importlib import import_module

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Commands and what they do; each is a module here with `run(arguments) -> exit code`.
COMMANDS = {
    "start": "run a node",
    "format": "prepare the directories of a node: storage format in short",
    "storage": "format directories, say what they hold, make ids",
    "quorum": "look after the metadata quorum: repair",
    "simulate": "play a quorum in virtual time, with faults",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of the `kraftlog` script."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in {"-h", "--help", "help"}:
        print(usage())
        return 0 if words else 2
    if words[0] in {"-V", "--version"}:
        from kraftlog import __version__

        print(f"kraftlog {__version__}")
        return 0
    if words[0] not in COMMANDS:
        print(f"kraftlog: no command {words[0]!r}\n\n{usage()}", file=sys.stderr)
        return 2
    run: Callable[[Sequence[str]], int] = import_module(f"kraftlog.cli.{words[0]}").run
    return run(words[1:])


def usage() -> str:
    lines = [f"  {name:<12}{what}" for name, what in COMMANDS.items()]
    return "\n".join(["usage: kraftlog COMMAND [options]", "", *lines])
