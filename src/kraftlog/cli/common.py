"""Options, errors and exit codes that the commands share."""

from __future__ import annotations

import sys
from contextlib import contextmanager

from kraftlog.client.properties import DEFAULT_SERVER
from kraftlog.errors import ClientError, ConfigError, EndpointTypeError, KraftlogError, message_of
from kraftlog.value import TYPE_CHECKING
from kraftlog.version import VERSION

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kraftlog.client.client import Client


class UsageError(KraftlogError):
    """An invalid command line, such as an option with an invalid value: exit code 2."""


@contextmanager
def usage_errors(option: str = "") -> Iterator[None]:
    """Turn an error about the value of an option, which it names, into a `UsageError`."""
    try:
        yield
    except (ConfigError, ValueError) as error:
        raise UsageError(f"{option} {error}".strip()) from None


def new_parser(
    name: str,
    description: str,
    example: str,
    *,
    usage: str | None = None,
    controllers: bool = False,
    config_flags: Sequence[str] = ("-c", "--command-config"),
) -> argparse.ArgumentParser:
    """A parser with the connection options; `controllers` adds --bootstrap-controller."""
    from argparse import RawDescriptionHelpFormatter

    from kraftlog.client.command_parser import CommandParser

    parser = CommandParser(
        prog=f"kraftlog {name}",
        usage=usage or f"kraftlog {name} [options]",
        description=description,
        epilog=f"example: kraftlog {name} {example}",
        formatter_class=RawDescriptionHelpFormatter,
    )
    add_version(parser)
    add_connection(parser, controllers=controllers, config_flags=config_flags)
    return parser


def add_version(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--version", action="version", version=f"kraftlog {VERSION}")


def add_connection(
    parser: argparse.ArgumentParser,
    *,
    is_subcommand: bool = False,
    controllers: bool = False,
    config_flags: Sequence[str] = ("-c", "--command-config"),
) -> None:
    """Add the connection options; those of a subcommand keep what was given before its name."""
    import argparse

    from kraftlog.client.command_parser import servers

    def default(value: object) -> object:
        return argparse.SUPPRESS if is_subcommand else value

    group = parser.add_argument_group("cluster")
    group.add_argument(
        *("-b", "--bootstrap-server"),
        type=servers,
        default=default(None),
        metavar="HOST:PORT,...",
        help=f"brokers to bootstrap from; default: {DEFAULT_SERVER}",
    )
    if controllers:
        group.add_argument(
            *("-C", "--bootstrap-controller"),
            type=servers,
            default=default(None),
            metavar="HOST:PORT,...",
            help="controllers to bootstrap from, instead of brokers",
        )
    group.add_argument(
        *config_flags,
        default=default(None),
        metavar="FILE",
        help="client properties file",
    )
    group.add_argument("--json", action="store_true", default=default(False), help="print JSON")


def run_with_client(
    command: str,
    options: argparse.Namespace,
    work: Callable[[Client, argparse.Namespace], int | None],
) -> int:
    """Run a command with a client; an error is one line on standard error."""
    return run_guarded(command, lambda: _with_client(options, work))


def _with_client(
    options: argparse.Namespace, work: Callable[[Client, argparse.Namespace], int | None]
) -> int:
    from kraftlog.client.properties import client_by

    controllers = getattr(options, "bootstrap_controller", None)
    if controllers and options.bootstrap_server:
        raise UsageError("give either --bootstrap-server or --bootstrap-controller, not both")
    pairs = getattr(options, "command_property", ())
    properties = client_properties(options.command_config, pairs)
    servers = controllers or options.bootstrap_server or DEFAULT_SERVER
    client = client_by(properties, servers, controllers=bool(controllers))
    with client:
        try:
            return work(client, options) or 0
        except EndpointTypeError as error:
            has_controller_option = hasattr(options, "bootstrap_controller")
            advice = error.advice(has_controller_option=has_controller_option)
            raise ClientError(f"{error}: {advice}") from None


def run_guarded(command: str, work: Callable[[], int]) -> int:
    """Run a command; return 0 for success, 1 for failure, 2 for an invalid command line."""
    try:
        return work()
    except UsageError as error:
        print(f"kraftlog {command}: {error}; see --help", file=sys.stderr)
        return 2
    except BrokenPipeError:
        raise
    except (KraftlogError, OSError, ValueError) as error:
        print(f"kraftlog {command}: {message_of(error)}", file=sys.stderr)
        return 1


def client_properties(path: str | None, pairs: Iterable[str]) -> dict[str, str]:
    """The properties of a file, overridden by those given as KEY=VALUE."""
    from kraftlog.client.properties import read_properties

    return {**read_properties(path), **parse_pairs(pairs)}


def parse_pairs(texts: Iterable[str]) -> dict[str, str]:
    """Parse repeated KEY=VALUE options."""
    pairs = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError(f"{text}: expected KEY=VALUE")
        pairs[key.strip()] = value
    return pairs


def require_node(client: Client, node_id: int) -> None:
    """Refuse an unknown or fenced node: requests to it would be retried until the timeout."""
    nodes = client.describe_cluster().brokers
    if node_id not in {node.id for node in nodes}:
        kind = "controller" if client.cluster.is_controllers else "broker"
        ids = ", ".join([str(node.id) for node in nodes])
        raise ClientError(f"there is no live {kind} {node_id}, only {ids}")


def require_true_or_false(properties: Mapping[str, str], defaults: Mapping[str, str]) -> None:
    """Refuse other values of properties that are true or false by default."""
    for key, value in properties.items():
        if defaults.get(key) in {"true", "false"} and value not in {"true", "false"}:
            raise UsageError(f"{key}={value}: expected true or false")


def add_consistency(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--consistency",
        choices=("stale", "linearizable"),
        default="stale",
        help="with --list and --describe: stale (default): the metadata that the broker has; "
        "linearizable: with every change that was acknowledged before",
    )


def is_linearizable(options: argparse.Namespace) -> bool:
    return bool(options.consistency == "linearizable")


def matching(names: Iterable[str], pattern: str | None) -> list[str]:
    """Names that fully match a regular expression, where a comma means "or"; None matches all."""
    if pattern is None:
        return sorted(names)
    import re

    try:
        expression = re.compile(pattern.strip().replace(",", "|"))
    except re.error as error:
        raise UsageError(f"{pattern}: expected a regular expression: {error}") from None
    return sorted(name for name in names if expression.fullmatch(name))


def require_options(options: argparse.Namespace, *names: str) -> None:
    for name in names:
        if getattr(options, name.replace("-", "_")) is None:
            raise UsageError(f"--{name} is required")
