"""`kraftlog cluster`: the commands of `kafka-cluster`."""

from __future__ import annotations

from kraftlog.cli.common import add_connection, new_parser, run_with_client
from kraftlog.cli.show import print_json, print_table
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from kraftlog.client.client import Client


def _parser() -> argparse.ArgumentParser:
    import argparse

    from kraftlog.client.command_parser import whole_number

    parser = new_parser(
        "cluster",
        "Print the cluster id, endpoints and API versions; unregister a broker or a controller.",
        "list-endpoints --bootstrap-server 127.0.0.1:9092",
        controllers=True,
    )
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="COMMAND", prog=parser.prog
    )
    commands.add_parser("cluster-id", help="print the cluster id")
    endpoints = commands.add_parser(
        "list-endpoints", help="list brokers or controllers with their endpoints"
    )
    endpoints.add_argument(
        "--include-fenced-brokers", action="store_true", help="include fenced brokers"
    )
    versions = commands.add_parser("api-versions", help="show the API versions of each node")
    versions.set_defaults(broker=None)
    for command, node_type in (("unregister", "broker"), ("unregister-controller", "controller")):
        unregister = commands.add_parser(command, help=f"unregister a {node_type}")
        unregister.add_argument("-i", "--id", type=whole_number(), required=True, metavar="N")
    for subparser in commands.choices.values():
        add_connection(subparser, is_subcommand=True, controllers=True)
        subparser.add_argument(
            "--config", dest="command_config", default=argparse.SUPPRESS, help=argparse.SUPPRESS
        )
    return parser


def run(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    return run_with_client("cluster", options, _COMMANDS[options.command])


def _cluster_id(client: Client, options: argparse.Namespace) -> None:
    cluster_id = client.describe_cluster().id
    if options.json:
        print_json({"cluster_id": cluster_id})
    else:
        print(cluster_id)


def _list_endpoints(client: Client, options: argparse.Namespace) -> None:
    described = client.describe_cluster(fenced=options.include_fenced_brokers)
    node_type = "controller" if client.cluster.is_controllers else "broker"
    heads = ("ID", "HOST", "PORT", "RACK", "STATE", "TYPE")
    rows = [
        (
            node.id,
            node.host,
            node.port,
            node.rack,
            "fenced" if node.is_fenced else "unfenced",
            node_type,
        )
        for node in described.brokers
    ]
    if options.json:
        names = [head.lower() for head in heads]
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        print_table(heads, rows)


def _api_versions(client: Client, options: argparse.Namespace) -> None:
    from kraftlog.cli import api_versions

    api_versions.show(client, options)


def _unregister(client: Client, options: argparse.Namespace) -> None:
    client.unregister_broker(options.id)
    _print_unregistered("broker", options)


def _unregister_controller(client: Client, options: argparse.Namespace) -> None:
    client.unregister_controller(options.id)
    _print_unregistered("controller", options)


def _print_unregistered(node_type: str, options: argparse.Namespace) -> None:
    if options.json:
        print_json({"unregistered": options.id})
    else:
        print(f"{node_type} {options.id} is no longer registered")


_COMMANDS = {
    "cluster-id": _cluster_id,
    "list-endpoints": _list_endpoints,
    "api-versions": _api_versions,
    "unregister": _unregister,
    "unregister-controller": _unregister_controller,
}
