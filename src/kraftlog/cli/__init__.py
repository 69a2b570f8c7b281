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
    "topics": "list, describe, create, alter and delete topics",
    "produce": "write lines of standard input to a topic",
    "consume": "read topics",
    "groups": "list and describe consumer groups, set their offsets, delete them",
    "configs": "describe and alter settings",
    "offsets": "the offsets of partitions",
    "delete-records": "delete the first records of partitions",
    "log-dirs": "what lies in the directories of brokers",
    "cluster": "the cluster's id and endpoints; forget a broker",
    "features": "the cluster's features and their levels",
    "api-versions": "what brokers serve",
    "quorum": "look after the metadata quorum: describe, its controllers, repair",
    "dump-log": "show what files of logs hold",
    "simulate": "play a quorum in virtual time, with faults",
}


#: What a shell expects of a program that Ctrl-C has ended.
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of the `kraftlog` script. Ctrl-C, or a reader that has gone, end it quietly."""
    try:
        code = _run(list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _forget_output()
        return 0
    return code


def _forget_output() -> None:
    """Who read our output has gone (`| head`): say no more, not even at the end."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(words: Sequence[str]) -> int:
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
    run: Callable[[Sequence[str]], int] = import_module(_module(words[0])).run
    return run(words[1:])


def _module(command: str) -> str:
    return f"kraftlog.cli.{command.replace('-', '_')}"


def usage() -> str:
    lines = [f"  {name:<16}{what}" for name, what in COMMANDS.items()]
    return "\n".join(["usage: kraftlog COMMAND [options]", "", *lines])
