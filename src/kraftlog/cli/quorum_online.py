"""The commands of `kraftlog quorum` for a working quorum: as `kafka-metadata-quorum`, and more."""

from __future__ import annotations

import json

from kraftlog.cli.common import UsageError, run_with_client
from kraftlog.cli.show import print_json, print_table
from kraftlog.errors import ConfigError
from kraftlog.types import uuid_from_text, uuid_text
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from kraftlog.client.client import Client
    from kraftlog.client.nodes import Quorum, Replica
    from kraftlog.config.broker import BrokerConfig


def run(options: argparse.Namespace) -> int:
    name = f"quorum {options.command}"
    return run_with_client(name, _own_file_kept(options), _COMMANDS[options.command])


def _own_file_kept(options: argparse.Namespace) -> argparse.Namespace:
    """Keep --command-config of add-controller apart: it is a server.properties file."""
    if options.command == "add-controller":
        options.node_file = options.command_config
        options.command_config = None
    return options


def _describe(client: Client, options: argparse.Namespace) -> None:
    quorum = client.describe_quorum()
    if options.status:
        _print_status(client.describe_cluster().id, quorum, options)
    else:
        _print_replication(quorum, options)


def _leader(quorum: Quorum) -> Replica | None:
    return next((v for v in quorum.voters if v.id == quorum.leader_id), None)


def _print_status(cluster_id: str, quorum: Quorum, options: argparse.Namespace) -> None:
    leader = _leader(quorum)
    followers = [v for v in quorum.voters if v.id != quorum.leader_id]
    lag = time_lag = 0
    if leader is not None and followers:
        lag = leader.log_end_offset - min(each.log_end_offset for each in followers)
        caught_up = min(each.last_caught_up_ms for each in followers)
        time_lag = leader.last_caught_up_ms - caught_up if caught_up >= 0 else -1
    listeners = dict(quorum.listeners)
    voters = [_member(each, listeners.get(each.id, ())) for each in quorum.voters]
    observers = [_member(each, ()) for each in quorum.observers]
    lines: dict[str, object] = {
        "ClusterId": cluster_id,
        "LeaderId": quorum.leader_id,
        "LeaderEpoch": quorum.leader_epoch,
        "HighWatermark": quorum.high_watermark,
        "MaxFollowerLag": lag,
        "MaxFollowerLagTimeMs": time_lag,
        "CurrentVoters": voters,
        "CurrentObservers": observers,
    }
    if quorum.targets is not None:
        lines |= {"TargetVoters": list(quorum.targets), "WaitsFor": list(quorum.waits_for)}
    if options.json:
        print_json(lines)
        return
    for name, value in lines.items():
        shown = json.dumps(value) if isinstance(value, list) else value
        print(f"{name + ':':<24}{shown}")


def _member(replica: Replica, listeners: tuple[tuple[str, str, int], ...]) -> dict[str, object]:
    result: dict[str, object] = {"id": replica.id, "directoryId": uuid_text(replica.directory_id)}
    if not any(replica.directory_id):
        result["directoryId"] = None
    if listeners:
        result["endpoints"] = [f"{name}://{host}:{port}" for name, host, port in listeners]
    return result


def _print_replication(quorum: Quorum, options: argparse.Namespace) -> None:
    from kraftlog.client.deadline import wall_ms

    leader = _leader(quorum)
    end = leader.log_end_offset if leader is not None else quorum.high_watermark
    now = wall_ms()

    def when(time_ms: int) -> object:
        if time_ms < 0:
            return None
        return f"{now - time_ms} ms ago" if options.human_readable else time_ms

    followers = [each for each in quorum.voters if each is not leader]
    ranked = [(leader, "Leader")] if leader is not None else []
    ranked += [(each, "Follower") for each in followers]
    ranked += [(each, "Observer") for each in quorum.observers]
    rows = [
        (
            each.id,
            uuid_text(each.directory_id),
            each.log_end_offset,
            end - each.log_end_offset,
            when(each.last_fetch_ms),
            when(each.last_caught_up_ms),
            status,
            *(("yes" if each.is_target else "no",) if quorum.targets is not None else ()),
        )
        for each, status in ranked
    ]
    heads: tuple[str, ...] = (
        *("NODE", "DIRECTORY", "LOG END", "LAG", "LAST FETCH", "CAUGHT UP", "STATUS"),
        *(("TARGET",) if quorum.targets is not None else ()),
    )
    if options.json:
        names = [head.lower().replace(" ", "_") for head in heads]
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        print_table(heads, rows)


def _add(client: Client, options: argparse.Namespace) -> None:
    from kraftlog.cli.config_file import load_config
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
    if not options.dry_run:
        client.add_voter(meta.node_id, meta.directory_id, listeners)
    where = ", ".join([f"{name}://{host}:{port}" for name, host, port in listeners])
    does = "would be added" if options.dry_run else "votes"
    directory = uuid_text(meta.directory_id)
    if options.json:
        print_json({"id": meta.node_id, "directoryId": directory, "dryRun": options.dry_run})
    else:
        print(f"controller {meta.node_id} with directory {directory} {does}: {where}")


def _endpoints(config: BrokerConfig) -> list[tuple[str, str, int]]:
    return [
        (each.name.upper(), each.host or "localhost", each.port)
        for each in config.advertised_controller_listeners
    ]


def _remove(client: Client, options: argparse.Namespace) -> None:
    directory = uuid_from_text(options.controller_directory_id)
    if not options.dry_run:
        client.remove_voter(options.controller_id, directory)
    does = "would be removed" if options.dry_run else "was removed from the voters"
    if options.json:
        result = {"id": options.controller_id, "directoryId": uuid_text(directory)}
        print_json({**result, "dryRun": options.dry_run})
    else:
        print(f"controller {options.controller_id} with directory {uuid_text(directory)} {does}")


def _reassign(client: Client, options: argparse.Namespace) -> int:
    from kraftlog.cli import voter_targets

    return voter_targets.run(client, options)


_COMMANDS: dict[str, Callable[[Client, argparse.Namespace], int | None]] = {
    "describe": _describe,
    "add-controller": _add,
    "remove-controller": _remove,
    "reassign": _reassign,
}
