"""`kraftlog metadata`: browses the metadata of a cluster as of any offset or time."""

from __future__ import annotations

import sys
from contextlib import closing, nullcontext

from kraftlog.cli.common import UsageError, add_connection, new_parser, run_with_client
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from kraftlog.client.client import Client
    from kraftlog.client.metadata_folder import MetadataFolder
    from kraftlog.client.metadata_quorum import MetadataQuorum
    from kraftlog.metadata.history import MetadataState

#: In the shell, -c gives a command, as in other shells; so it is short for nothing else here.
CONFIG_FLAGS = ("--command-config",)


def _parser() -> argparse.ArgumentParser:
    parser = new_parser(
        "metadata",
        "Look into the metadata of a running cluster or of a copied data directory, also of Apache "
        "Kafka.",
        "shell -c 'cat /topics/demo'",
        controllers=True,
        config_flags=CONFIG_FLAGS,
    )
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="COMMAND", prog=parser.prog
    )
    shell = commands.add_parser(
        "shell",
        help="browse the metadata as directories and files",
        description="Browse the metadata as directories and files. Without -c commands are read "
        "from standard input; 'help' lists them.",
    )
    shell.add_argument("directory", nargs="?", metavar="DIR", help="short for --data DIR")
    shell.add_argument(
        "-c", dest="lines", action="append", metavar="COMMAND", help="run this; repeatable"
    )
    shell.add_argument(
        "--as-of", default="latest", metavar="OFFSET|TIME", help="default: latest (UTC or +HH:MM)"
    )
    diff = commands.add_parser(
        "diff",
        help="print the changes between two offsets or times",
        description="Print the changes from A to B: offsets, times (UTC or with +HH:MM) or latest.",
    )
    diff.add_argument("before", metavar="A")
    diff.add_argument("after", metavar="B")
    for subparser in (shell, diff):
        subparser.add_argument(
            "--data",
            metavar="DIR",
            help="a copied data directory instead of a running cluster",
        )
        add_connection(subparser, is_subcommand=True, controllers=True, config_flags=CONFIG_FLAGS)
    return parser


def run(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    return run_with_client(f"metadata {options.command}", options, _COMMANDS[options.command])


def _metadata_log(
    client: Client, data: str | None
) -> AbstractContextManager[MetadataFolder | MetadataQuorum]:
    if data is not None:
        from kraftlog.client.metadata_folder import MetadataFolder

        return nullcontext(MetadataFolder(data))
    from kraftlog.client.metadata_quorum import MetadataQuorum

    return closing(MetadataQuorum(client.cluster))


def _states(client: Client, data: str | None, *texts: str) -> list[MetadataState]:
    """The metadata at each of the offsets or times that `texts` give."""
    from kraftlog.client.metadata_text import moment_of

    try:
        moments = [moment_of(text) for text in texts]
    except ValueError as error:
        raise UsageError(str(error)) from None
    with _metadata_log(client, data) as log:
        states = [log.state_at(moment) for moment in moments]
        if log.damage:
            print(f"kraftlog metadata: {log.damage}", file=sys.stderr)
        return states


def _shell(client: Client, options: argparse.Namespace) -> int:
    from kraftlog.cli.metadata_shell import MetadataShell, interact

    if options.directory is not None and options.data is not None:
        raise UsageError("give the directory only once")
    data = options.data or options.directory
    shell = MetadataShell(
        lambda text: _states(client, data, text)[0], options.as_of, is_json=options.json
    )
    if options.lines is None:
        return interact(shell)
    return max([shell.run(line) for line in options.lines])


def _diff(client: Client, options: argparse.Namespace) -> None:
    from kraftlog.cli.show import print_json
    from kraftlog.client.metadata_text import change_data, diff_text, position
    from kraftlog.metadata.tables import TABLES_OF_IMAGE, differences

    before, after = _states(client, options.data, options.before, options.after)
    changes = list(differences(before, after, list(TABLES_OF_IMAGE)))
    if options.json:
        data = [change_data(each) for each in changes]
        print_json({"from": position(before), "to": position(after), "changes": data})
    else:
        print(diff_text(before, after, changes))


_COMMANDS = {"shell": _shell, "diff": _diff}
