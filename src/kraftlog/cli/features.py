"""`kraftlog features`: the commands of `kafka-features`."""

from __future__ import annotations

from kraftlog.cli.common import (
    UsageError,
    add_connection,
    new_parser,
    require_node,
    run_with_client,
    usage_errors,
)
from kraftlog.cli.show import print_json, print_table
from kraftlog.metadata.snapshot import METADATA_VERSION
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from kraftlog.client.client import Client

_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE = 1, 2, 3
#: Offline commands, shared with `kraftlog storage`.
_OFFLINE = ("version-mapping", "feature-dependencies")


def _parser() -> argparse.ArgumentParser:
    from kraftlog.client.command_parser import whole_number

    parser = new_parser(
        "features",
        "Describe and change the feature levels of the cluster.",
        "upgrade --release-version 4.4 --dry-run",
        controllers=True,
    )
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="COMMAND", prog=parser.prog
    )
    describe = commands.add_parser("describe", help="list features and their levels")
    describe.add_argument("--node-id", type=whole_number(), metavar="N", help="describe this node")
    for name, command_help in (
        ("upgrade", "raise feature levels"),
        ("downgrade", "lower feature levels"),
    ):
        subparser = commands.add_parser(name, help=command_help)
        subparser.add_argument("--feature", action="append", default=[], metavar="NAME=LEVEL")
        subparser.add_argument("--metadata", metavar="RELEASE", help="level of metadata.version")
        subparser.add_argument(
            "--release-version",
            metavar="RELEASE",
            help="set all features to the levels of this release",
        )
    disable = commands.add_parser("disable", help="set features to level 0")
    disable.add_argument("--feature", action="append", required=True, metavar="NAME")
    for name in ("downgrade", "disable"):
        commands.choices[name].add_argument(
            "--unsafe", action="store_true", help="downgrade even if metadata is lost"
        )
    for name in ("upgrade", "downgrade", "disable"):
        commands.choices[name].add_argument("--dry-run", action="store_true", help="validate only")
    for name in _OFFLINE:
        commands.add_parser(name, help="see kraftlog storage", add_help=False)
    for name in ("describe", "upgrade", "downgrade", "disable"):
        add_connection(commands.choices[name], is_subcommand=True, controllers=True)
    return parser


def run(arguments: Sequence[str]) -> int:
    words = list(arguments)
    if words and words[0] in _OFFLINE:
        from kraftlog.cli import storage

        return storage.run(words)
    options = _parser().parse_args(words)
    work = _describe if options.command == "describe" else _update
    return run_with_client("features", options, work)


def _describe(client: Client, options: argparse.Namespace) -> None:
    from kraftlog.client.cluster import ANY

    if options.node_id is not None:
        require_node(client, options.node_id)
    described = client.features(ANY if options.node_id is None else options.node_id)
    heads = ("FEATURE", "LEAST", "MOST", "LEVEL")
    rows = [
        (each.name, *[_level_text(each.name, n) for n in (each.least, each.most, each.level)])
        for each in described.features
    ]
    if options.json:
        print_json(
            {
                "epoch": described.epoch,
                "features": [
                    {"feature": f.name, "least": f.least, "most": f.most, "level": f.level}
                    for f in described.features
                ],
            }
        )
        return
    print_table(heads, rows)
    print(f"epoch {described.epoch}")


def _level_text(feature: str, level: int) -> str:
    """A feature level as text; that of metadata.version as a release, if this version knows it."""
    from kraftlog.metadata.releases import LATEST, METADATA_VERSIONS

    if feature != METADATA_VERSION:
        return str(level)
    if level > LATEST:
        return f"{level} (newer than {METADATA_VERSIONS[LATEST]})"
    return METADATA_VERSIONS.get(level, str(level))


def _update(client: Client, options: argparse.Namespace) -> None:
    levels = _levels(client, options)
    upgrade_type = _UPGRADE
    if options.command != "upgrade":
        upgrade_type = _UNSAFE_DOWNGRADE if options.unsafe else _SAFE_DOWNGRADE
    client.update_features(levels, upgrade_type=upgrade_type, validate_only=options.dry_run)
    if options.json:
        print_json({"levels": levels, "dry_run": options.dry_run})
        return
    verb = "would go" if options.dry_run else "went"
    for name, level in levels.items():
        print(f"{name} {verb} to {_level_text(name, level)}")


def _known_feature(name: str) -> str:
    from kraftlog.metadata.releases import FEATURES

    if name not in {METADATA_VERSION, *FEATURES}:
        expected = ", ".join([METADATA_VERSION, *FEATURES])
        raise UsageError(f"--feature {name}: expected one of {expected}")
    return name


def _levels(client: Client, options: argparse.Namespace) -> dict[str, int]:
    """The requested levels; for a release, only features that the cluster supports."""
    from kraftlog.metadata.releases import chosen_levels, parse_feature, release_level

    if options.command == "disable":
        return dict.fromkeys(map(_known_feature, options.feature), 0)
    with usage_errors():
        levels = dict([parse_feature(text) for text in options.feature])
    if options.release_version and options.metadata:
        raise UsageError("give either --release-version or --metadata")
    release = options.release_version or options.metadata
    if release is None and not levels:
        raise UsageError("give --feature or --release-version")
    if release is not None:
        with usage_errors():
            release_level(release)
        supported = {each.name: (each.least, each.most) for each in client.features().features}
        chosen = chosen_levels(release, {}, supported)
        if options.metadata:
            chosen = {METADATA_VERSION: chosen[METADATA_VERSION]}
        levels = chosen | levels
    return levels
