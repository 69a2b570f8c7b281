"""`kraftlog storage`: the commands and flags of `kafka-storage`."""

from __future__ import annotations

import os

from kraftlog.cli.common import UsageError, run_guarded, usage_errors
from kraftlog.cli.show import print_json
from kraftlog.errors import ConfigError
from kraftlog.server.ids import new_id
from kraftlog.types import uuid_text
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from kraftlog.config.broker import BrokerConfig
    from kraftlog.config.endpoints import QuorumVoter
    from kraftlog.storage.meta_properties import MetaProperties
    from kraftlog.types import Uuid


def run(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    return run_guarded(f"storage {options.command}", lambda: _COMMANDS[options.command](options))


def _parser() -> argparse.ArgumentParser:
    from kraftlog.client.command_parser import CommandParser

    parser = CommandParser(
        prog="kraftlog storage", description="Format and inspect the log directories of a node."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    info = commands.add_parser("info", help="describe the log directories of a node")
    _add_config(info)
    _add_format(commands.add_parser("format", help="format the log directories of a node"))
    mapping = commands.add_parser(
        "version-mapping", help="print the feature levels of a Kafka release"
    )
    mapping.add_argument(
        "-r", "--release-version", metavar="RELEASE", help="Kafka release; default: the latest"
    )
    dependencies = commands.add_parser(
        "feature-dependencies", help="print the dependencies of a feature level"
    )
    dependencies.add_argument(
        "-f", "--feature", action="append", required=True, metavar="FEATURE=LEVEL", dest="features"
    )
    commands.add_parser("random-uuid", help="print a random UUID")
    for subparser in commands.choices.values():
        subparser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-c", "--config", required=True, metavar="FILE", help="server.properties")


def _add_format(parser: argparse.ArgumentParser) -> None:
    _add_config(parser)
    parser.add_argument(
        "-t", "--cluster-id", metavar="ID", help="cluster id; default: a random one"
    )
    parser.add_argument(
        "-g", "--ignore-formatted", action="store_true", help="skip formatted directories"
    )
    parser.add_argument(
        "-r", "--release-version", metavar="RELEASE", help="Kafka release; default: the latest"
    )
    parser.add_argument(
        "-f", "--feature", action="append", default=[], metavar="FEATURE=LEVEL", dest="features"
    )
    parser.add_argument(
        "-S",
        "--add-scram",
        action="append",
        metavar="CREDENTIAL",
        help="SCRAM-SHA-512=[name=alice,password=…]: a user of the new cluster",
    )
    voters = parser.add_mutually_exclusive_group()
    voters.add_argument(
        "-s", "--standalone", action="store_true", help="make this controller the only voter"
    )
    voters.add_argument(
        "-N",
        "--no-initial-controllers",
        action="store_true",
        help="format without voters; the controller joins a quorum later",
    )
    voters.add_argument(
        "-I",
        "--initial-controllers",
        metavar="VOTERS",
        help="id@host:port:directory-id, …; only for a new quorum: a replaced disk is not this "
        "directory, although the command names its id",
    )


# format ------------------------------------------------------------------------------------------


def _format(options: argparse.Namespace) -> int:
    from kraftlog.cli.config_file import load_config
    from kraftlog.cli.scram_credentials import scram_record
    from kraftlog.metadata.releases import METADATA_VERSIONS
    from kraftlog.metadata.snapshot import METADATA_VERSION
    from kraftlog.server.files import OsFiles
    from kraftlog.server.loop import read_clock
    from kraftlog.storage.format import (
        DirectoryFormat,
        check_formatted,
        format_directory,
        is_formatted,
    )
    from kraftlog.storage.meta_properties import load

    with usage_errors():
        credentials = [scram_record(text) for text in options.add_scram or ()]
    config, _ = load_config(options.config, {})
    files = OsFiles()
    formatted = [path for path in config.directories if is_formatted(files, path)]
    if formatted and not options.ignore_formatted:
        raise ConfigError(
            f"{formatted[0]} is already formatted; --ignore-formatted skips it and formats "
            "the others"
        )
    existing_cluster_id = load(files, formatted[0]).cluster_id if formatted else None
    voters = _voters(options, config)
    is_dynamic = _is_dynamic(options, config)
    formatting = DirectoryFormat(
        cluster_id=_cluster_id(options.cluster_id or existing_cluster_id),
        node_id=config.node_id,
        features=_features(options, is_dynamic=is_dynamic),
        metadata_directory=config.metadata_directory,
        voters=voters,
        listener=config.controller_listener_names[0].upper(),
        is_dynamic=is_dynamic,
        scram=tuple(credentials),
    )
    for path in formatted:
        check_formatted(files, path, formatting)
    empty = [path for path in config.directories if path not in formatted]
    release = METADATA_VERSIONS[formatting.features[METADATA_VERSION]]
    for path in empty:
        is_metadata = path == config.metadata_directory
        directory_id = _directory_id(voters, config.node_id) if is_metadata else new_id()
        description = _description(config, voters) if is_metadata else "data directory"
        if not options.json:
            print(f"Formatting {description} {path} with metadata.version {release}.")
        format_directory(files, path, directory_id, formatting, read_clock().wall_ms)
    if options.json:
        print_json({"cluster_id": formatting.cluster_id, "formatted": empty})
    elif not empty:
        print("All of the log directories are already formatted.")
    elif options.cluster_id is None and existing_cluster_id is None:
        print(
            f"The cluster id is {formatting.cluster_id}: format the other nodes with "
            f"--cluster-id {formatting.cluster_id}."
        )
    return 0


def _is_dynamic(options: argparse.Namespace, config: BrokerConfig) -> bool:
    """Whether the quorum is dynamic: its voters are in the metadata log, not in the properties."""
    has_dynamic_option = (
        options.standalone or options.initial_controllers or options.no_initial_controllers
    )
    return not config.voters and bool(has_dynamic_option)


def _voters(options: argparse.Namespace, config: BrokerConfig) -> list[QuorumVoter] | None:
    """The initial voters, if the options give any."""
    starts_quorum = options.standalone or options.initial_controllers
    if config.voters and starts_quorum:
        raise UsageError(
            "controller.quorum.voters names voters that never change; for --standalone and "
            "--initial-controllers give controller.quorum.bootstrap.servers instead"
        )
    if options.standalone:
        return [_only_voter(config)]
    if options.initial_controllers:
        return _initial_voters(options.initial_controllers)
    if config.is_controller and not config.voters and not options.no_initial_controllers:
        raise UsageError(
            "controller.quorum.voters is not set: give --standalone, --initial-controllers or "
            "--no-initial-controllers"
        )
    return None


def _only_voter(config: BrokerConfig) -> QuorumVoter:
    from kraftlog.config.endpoints import QuorumVoter

    if not config.is_controller:
        raise UsageError("--standalone: expected controller among process.roles")
    listener = config.advertised_controller_listeners[0]
    host = "localhost" if listener.is_wildcard else listener.host
    return QuorumVoter(config.node_id, host, listener.port, new_id())


def _initial_voters(text: str) -> list[QuorumVoter]:
    from kraftlog.config.endpoints import parse_dynamic_voter

    voters: dict[int, QuorumVoter] = {}
    for entry in text.split(","):
        voter = parse_dynamic_voter(entry)
        if voter is None:
            raise UsageError(
                f"--initial-controllers {entry}: expected id@host:port:directory-id; kraftlog "
                "storage random-uuid makes such ids"
            )
        if voter.id in voters:
            raise UsageError(f"--initial-controllers: controller {voter.id} appears twice")
        voters[voter.id] = voter
    return [voters[number] for number in sorted(voters)]


def _features(options: argparse.Namespace, *, is_dynamic: bool) -> dict[str, int]:
    from kraftlog.metadata.features import KRAFT_VERSION, SET_BY_RECORDS
    from kraftlog.metadata.releases import chosen_levels, parse_feature

    with usage_errors():
        features = dict([parse_feature(text) for text in options.features])
    kraft = features.pop(KRAFT_VERSION, int(is_dynamic))
    if kraft != is_dynamic:
        raise UsageError(
            f"--feature {KRAFT_VERSION}={kraft}: expected 1 for a quorum whose voters may change "
            "(--standalone, --initial-controllers, --no-initial-controllers), 0 for "
            "the fixed voters of controller.quorum.voters"
        )
    with usage_errors():
        return chosen_levels(options.release_version, features, SET_BY_RECORDS)


def _cluster_id(text: str | None) -> str:
    if text is None:
        return uuid_text(new_id())
    if not text or not all(letter.isalnum() or letter in "-_." for letter in text):
        raise UsageError(f"--cluster-id {text}: expected only letters, digits, '-', '_' and '.'")
    return text


def _directory_id(voters: list[QuorumVoter] | None, node_id: int) -> Uuid:
    """The directory id that the voters have for this node, or else a random one."""
    for voter in voters or ():
        if voter.id == node_id and voter.directory_id is not None:
            return voter.directory_id
    return new_id()


def _description(config: BrokerConfig, voters: list[QuorumVoter] | None) -> str:
    if voters is None:
        return "metadata directory"
    is_voter = any(voter.id == config.node_id for voter in voters)
    return f"dynamic metadata {'voter ' if is_voter else ''}directory"


# The other commands ------------------------------------------------------------------------------


def _info(options: argparse.Namespace) -> int:
    from kraftlog.cli.config_file import load_config
    from kraftlog.server.files import OsFiles
    from kraftlog.storage.meta_properties import NAME, load

    config, _ = load_config(options.config, {})
    files = OsFiles()
    problems, metas = [], []
    existing = [path for path in config.directories if os.path.isdir(path)]
    for path in config.directories:
        if path not in existing:
            problem = "is not a directory" if os.path.exists(path) else "does not exist"
            problems.append(f"{path} {problem}")
        elif not files.exists(f"{path}/{NAME}"):
            problems.append(f"{path} is not formatted.")
        else:
            metas.append(load(files, path))
    if len({meta.cluster_id for meta in metas}) > 1:
        problems.append("Mismatched cluster IDs between storage directories.")
    elif len({meta.node_id for meta in metas}) > 1:
        problems.append("Mismatched node IDs between storage directories.")
    if options.json:
        print_json({"directories": existing, "metadata": _metas_json(metas), "problems": problems})
        return 1 if problems else 0
    if existing:
        print(f"Found log director{'ies' if len(existing) > 1 else 'y'}:")
        print(*[f"  {path}" for path in existing], "", sep="\n")
    for meta in metas[:1]:
        directory_id = uuid_text(meta.directory_id)
        print(
            f"Found metadata: {{cluster.id={meta.cluster_id or ''}, directory.id={directory_id}, "
            f"node.id={meta.node_id}, version=1}}\n"
        )
    if problems:
        print(f"Found problem{'s' if len(problems) > 1 else ''}:")
        print(*[f"  {problem}" for problem in problems], "", sep="\n")
    return 1 if problems else 0


def _metas_json(metas: Sequence[MetaProperties]) -> list[dict[str, object]]:
    return [
        {
            "cluster_id": meta.cluster_id,
            "directory_id": uuid_text(meta.directory_id),
            "node_id": meta.node_id,
        }
        for meta in metas
    ]


def _version_mapping(options: argparse.Namespace) -> int:
    from kraftlog.metadata.releases import (
        LATEST,
        METADATA_VERSIONS,
        default_levels,
        release_level,
    )
    from kraftlog.metadata.snapshot import METADATA_VERSION

    text = options.release_version
    with usage_errors("--release-version:"):
        level = LATEST if text is None else release_level(text)
    if options.json:
        print_json({METADATA_VERSION: level, **default_levels(level)})
        return 0
    print(f"{METADATA_VERSION}={level} ({text or METADATA_VERSIONS[LATEST]})")
    for name, number in default_levels(level).items():
        print(f"{name}={number}")
    return 0


def _feature_dependencies(options: argparse.Namespace) -> int:
    from kraftlog.metadata.releases import DEPENDENCIES, METADATA_VERSIONS, parse_feature
    from kraftlog.metadata.snapshot import METADATA_VERSION

    with usage_errors():
        requested = [parse_feature(text) for text in options.features]
    if options.json:
        print_json(
            {f"{name}={level}": DEPENDENCIES.get((name, level), {}) for name, level in requested}
        )
        return 0
    for name, level in requested:
        feature_text = f"{name}={level}"
        if name == METADATA_VERSION:
            feature_text += f" ({METADATA_VERSIONS[level]})"
        dependencies = DEPENDENCIES.get((name, level))
        if dependencies is None:
            print(f"{feature_text} has no dependencies.")
            continue
        print(f"{feature_text} requires:")
        for feature, min_level in dependencies.items():
            print(f"    {feature}={min_level} ({METADATA_VERSIONS[min_level]})")
    return 0


def _random_uuid(options: argparse.Namespace) -> int:
    uuid = uuid_text(new_id())
    if options.json:
        print_json(uuid)
    else:
        print(uuid)
    return 0


_COMMANDS = {
    "info": _info,
    "format": _format,
    "version-mapping": _version_mapping,
    "feature-dependencies": _feature_dependencies,
    "random-uuid": _random_uuid,
}
