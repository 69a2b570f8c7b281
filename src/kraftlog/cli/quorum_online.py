"""The online commands of `kraftlog quorum`: those of `kafka-metadata-quorum`, and more."""

from __future__ import annotations

from kraftlog.cli.common import UsageError, run_with_client
from kraftlog.cli.show import print_json
from kraftlog.errors import ClientError, ConfigError, ErrorCode, RefusedError
from kraftlog.types import uuid_text
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from kraftlog.client.client import Client
    from kraftlog.config.broker import BrokerConfig
    from kraftlog.types import Uuid


#: Errors of a removal after which the controller may still be registered.
_STILL_UNREGISTRABLE = {ErrorCode.VOTER_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION}


def run(options: argparse.Namespace) -> int:
    name = f"quorum {options.command}"
    return run_with_client(name, _separate_node_file(options), _COMMANDS[options.command])


def _separate_node_file(options: argparse.Namespace) -> argparse.Namespace:
    """Keep --command-config of add-controller apart, as it is a server.properties file."""
    if options.command == "add-controller":
        options.node_file = options.command_config
        options.command_config = None
    return options


def _add(client: Client, options: argparse.Namespace) -> None:
    from kraftlog.cli.config_file import load_config
    from kraftlog.client import voter_plans
    from kraftlog.server.files import OsFiles
    from kraftlog.storage.meta_properties import load

    if options.node_file is None:
        raise UsageError(
            "add-controller needs --command-config with the server.properties of the controller"
        )
    config, _ = load_config(options.node_file, {})
    if not config.is_controller:
        raise ConfigError(f"{options.node_file}: expected controller among process.roles")
    meta = load(OsFiles(), config.metadata_directory)
    listeners = _endpoints(config)
    endpoints = ", ".join([f"{name}://{host}:{port}" for name, host, port in listeners])
    directory = uuid_text(meta.directory_id)
    result = {"id": meta.node_id, "directoryId": directory, "dryRun": options.dry_run}
    outcome = f"is now a voter: {endpoints}"
    if options.dry_run:
        plan = voter_plans.checked_addition_plan(client.cluster, meta.node_id, meta.directory_id)
        result |= {"voters": [*plan.voters], "lag": plan.lag}
        voters = ", ".join(map(str, plan.voters))
        outcome = (
            f"would be added to voters {voters}: {endpoints}; it fetches and lags by "
            f"{plan.lag} records"
        )
    else:
        client.add_voter(meta.node_id, meta.directory_id, listeners)
    if options.json:
        print_json(result)
    else:
        print(f"controller {meta.node_id} with directory {directory} {outcome}")


def _endpoints(config: BrokerConfig) -> list[tuple[str, str, int]]:
    return [
        (each.name.upper(), each.host or "localhost", each.port)
        for each in config.advertised_controller_listeners
    ]


def _remove(client: Client, options: argparse.Namespace) -> None:
    voter, is_dry = options.controller_id, options.dry_run
    try:
        directory = _remove_voter(client, options)
    except (ConfigError, RefusedError) as error:
        is_other_error = isinstance(error, RefusedError) and error.code not in _STILL_UNREGISTRABLE
        if not options.unregister or is_other_error:
            raise
        raise ClientError(f"{error}; {_unregistration(voter)}") from None
    outcome = "would be removed" if is_dry else "was removed from the voters"
    if not options.json:
        print(f"controller {voter} with directory {uuid_text(directory)} {outcome}")
    if options.unregister and not is_dry:
        try:
            client.unregister_controller(voter)
        except ClientError as error:
            raise ClientError(f"{error}; {_unregistration(voter)}") from None
    if options.json:
        result = {"id": voter, "directoryId": uuid_text(directory)}
        print_json({**result, "unregister": options.unregister, "dryRun": is_dry})
    elif options.unregister:
        print(f"controller {voter} {'would be' if is_dry else 'was'} unregistered")


def _remove_voter(client: Client, options: argparse.Namespace) -> Uuid:
    """Remove a voter, except in a dry run; return its directory."""
    voter: int = options.controller_id
    directory: Uuid | None = options.controller_directory_id
    if options.dry_run or directory is None:
        directory = client.voter_directory(voter, directory)
    if not options.dry_run:
        client.remove_voter(voter, directory)
    return directory


def _unregistration(controller: int) -> str:
    return f"to unregister it, run: kraftlog cluster unregister-controller --id {controller}"


def _reassign(client: Client, options: argparse.Namespace) -> int:
    from kraftlog.cli import voter_targets

    return voter_targets.run(client, options)


def _describe(client: Client, options: argparse.Namespace) -> None:
    from kraftlog.cli import quorum_describe

    quorum_describe.run(client, options)


_COMMANDS: dict[str, Callable[[Client, argparse.Namespace], int | None]] = {
    "describe": _describe,
    "add-controller": _add,
    "remove-controller": _remove,
    "reassign": _reassign,
}
