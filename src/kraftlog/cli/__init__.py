"""The command line, `kraftlog COMMAND …`; the module of a command is imported on use."""

from __future__ import annotations

import sys
from importlib import import_module

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: The commands and their help. Each is a module of this package with `run(arguments) -> exit code`.
COMMANDS = {
    "start": "start a node",
    "format": "format the log directories of a node (short for storage format)",
    "storage": "format and inspect log directories, create ids",
    "topics": "list, describe, create, alter and delete topics",
    "reassign": "move replicas to other brokers, balance them",
    "produce": "write lines of standard input to a topic",
    "consume": "print the records of topics",
    "groups": "list, describe and delete consumer groups, reset their offsets",
    "configs": "describe and alter configs",
    "acls": "list, add and remove ACLs",
    "delegation-tokens": "create, renew, expire and describe delegation tokens",
    "offsets": "print the offsets of partitions",
    "delete-records": "delete the oldest records of partitions",
    "leader-election": "elect preferred leaders, or unclean ones",
    "log-dirs": "describe the log directories of brokers",
    "cluster": "print the cluster id and endpoints, unregister a node",
    "decommission": "take a node out of the cluster for good",
    "features": "describe and change feature levels",
    "api-versions": "print the API versions that brokers support",
    "quorum": "describe the metadata quorum, change its voters, repair it",
    "metadata": "look into the metadata, as of any offset or time",
    "dump-log": "print the contents of log segments, indexes and snapshots",
    "demo": "show a cluster, its clients and an archive on Spark, with a broker killed",
    "pipeline": "run a pipeline on Apache Spark",
    "simulate": "simulate a quorum in virtual time, with faults",
}


#: The exit code that a shell expects after Ctrl-C.
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of the `kraftlog` script. Ctrl-C and a closed pipe end it quietly."""
    try:
        code = _run(list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _discard_output()
        return 0
    return code


def _discard_output() -> None:
    """Discard further output after a closed pipe (`| head`)."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(arguments: Sequence[str]) -> int:
    if len(arguments) > 1 and arguments[0] == "help" and arguments[1] in COMMANDS:
        arguments = [arguments[1], "--help"]
    if not arguments or arguments[0] in {"-h", "--help", "help"}:
        print(usage())
        return 0 if arguments else 2
    if arguments[0] in {"-V", "--version"}:
        from kraftlog.version import VERSION

        print(f"kraftlog {VERSION}")
        return 0
    if arguments[0] not in COMMANDS:
        print(_unknown(arguments[0]), file=sys.stderr)
        return 2
    run: Callable[[Sequence[str]], int] = import_module(_module_name(arguments[0])).run
    return run(arguments[1:])


def _unknown(name: str) -> str:
    from difflib import get_close_matches

    similar = get_close_matches(name, COMMANDS, 1)
    advice = f"did you mean {similar[0]}? " if similar else ""
    return f"kraftlog: unknown command {name!r}: {advice}kraftlog --help lists the commands"


def _module_name(command: str) -> str:
    return f"kraftlog.cli.{command.replace('-', '_')}"


def usage() -> str:
    lines = [f"  {name:<18} {command_help}" for name, command_help in COMMANDS.items()]
    return "\n".join(["usage: kraftlog COMMAND [options]", "", *lines])
