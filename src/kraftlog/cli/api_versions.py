"""`kraftlog api-versions`: what `kafka-broker-api-versions` shows, as a table."""

from __future__ import annotations

from kraftlog.cli.common import new_parser, require_node, run_with_client
from kraftlog.cli.show import print_json, print_table
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import APIS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from kraftlog.client.client import Client
    from kraftlog.wire.messages.api_versions import ApiVersion


def _parser() -> argparse.ArgumentParser:
    from kraftlog.client.command_parser import whole_number

    parser = new_parser(
        "api-versions",
        "Show the APIs of each broker, and the version that this client would use.",
        "--bootstrap-server 127.0.0.1:9092",
        controllers=True,
    )
    parser.add_argument("--broker", type=whole_number(), metavar="N", help="only this broker")
    return parser


def run(arguments: Sequence[str]) -> int:
    return run_with_client("api-versions", _parser().parse_args(arguments), show)


def show(client: Client, options: argparse.Namespace) -> None:
    """Print the versions of each broker, or of `options.broker` alone."""
    brokers = [broker.id for broker in client.describe_cluster().brokers]
    if options.broker is not None:
        require_node(client, options.broker)
        brokers = [options.broker]
    apis_by_broker = {broker: client.api_versions(broker).api_keys for broker in brokers}
    rows = [
        (
            broker,
            each.api_key,
            _api_name(each),
            each.min_version,
            each.max_version,
            _used_version(each),
        )
        for broker, apis in apis_by_broker.items()
        for each in sorted(apis, key=lambda api: api.api_key)
    ]
    heads = ("BROKER", "KEY", "API", "FROM", "TO", "USED")
    if options.json:
        names = [head.lower() for head in heads]
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        print_table(heads, rows)


def _api_name(api: ApiVersion) -> str:
    return APIS[api.api_key].name if api.api_key in APIS else "?"


def _used_version(api: ApiVersion) -> int | None:
    """The version that this client would use; None if it does not support any of the broker's."""
    from kraftlog.client.versions import chosen_version
    from kraftlog.errors import UnsupportedApiError

    if api.api_key not in APIS:
        return None
    supported = {api.api_key: (api.min_version, api.max_version)}
    try:
        return chosen_version(APIS[api.api_key], supported, "")
    except UnsupportedApiError:
        return None
