"""`kraftlog leader-election`: the flags of `kafka-leader-election`."""

from __future__ import annotations

from kraftlog.cli.common import UsageError, new_parser, run_with_client
from kraftlog.cli.json_entries import Entries
from kraftlog.cli.show import print_json, print_table
from kraftlog.client.command_parser import whole_number
from kraftlog.client.properties import read_text
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from kraftlog.client.client import Client
    from kraftlog.client.model import PartitionName

NO_LEADER = -1
_FORMAT = '{"partitions": [{"topic": …, "partition": …}]}'


def _parser() -> argparse.ArgumentParser:
    parser = new_parser(
        "leader-election",
        "Elect leaders: preferred replicas, or any replica of partitions without a leader.",
        "--election-type preferred --all-topic-partitions\n"
        "--election-type unclean --topic demo --partition 0",
    )
    parser.add_argument(
        "--election-type",
        type=str.lower,
        choices=("preferred", "unclean"),
        required=True,
        help="unclean: accept the loss of records; shows first how much each replica has",
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--topic", metavar="NAME", help="with --partition")
    which.add_argument("--all-topic-partitions", action="store_true")
    which.add_argument("--path-to-json-file", metavar="FILE", help=_FORMAT)
    parser.add_argument("--partition", type=whole_number(0), metavar="N", help="with --topic")
    return parser


def run(arguments: Sequence[str]) -> int:
    return run_with_client("leader-election", _parser().parse_args(arguments), _elect)


def _elect(client: Client, options: argparse.Namespace) -> None:
    if (options.topic is None) != (options.partition is None):
        raise UsageError("--topic and --partition belong together")
    unclean = options.election_type == "unclean"
    leaders = {
        (topic.name, partition.index): partition
        for topic in client.topics()
        for partition in topic.partitions
    }
    names = _named(options) or sorted(
        name for name, it in leaders.items() if not unclean or it.leader == NO_LEADER
    )
    if unclean and not options.json:
        _show_replicas(client, names, {name: it.replicas for name, it in leaders.items()})
    failed = (
        client.elect_unclean_leaders(names) if unclean else client.elect_preferred_leaders(names)
    )
    after = {
        (topic.name, partition.index): partition.leader
        for topic in client.topics()
        for partition in topic.partitions
    }
    rows = [
        (*name, after.get(name, NO_LEADER), str(failed[name]) if name in failed else "")
        for name in names
    ]
    if options.json:
        keys = ("topic", "partition", "leader", "error")
        print_json([dict(zip(keys, row, strict=True)) for row in rows])
    else:
        print_table(("TOPIC", "PARTITION", "LEADER", "ERROR"), rows)
    if failed:
        raise ValueError(f"{len(failed)} of {len(names)} elections failed")


def _named(options: argparse.Namespace) -> list[PartitionName]:
    """The partitions that the flags name; empty: all."""
    if options.topic is not None:
        return [(options.topic, options.partition)]
    if options.path_to_json_file is None:
        return []
    path = options.path_to_json_file
    try:
        entries = Entries(read_text(path), "partitions", _FORMAT)
        return [(entries.topic(each), entries.number(each, "partition")) for each in entries.all]
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _show_replicas(
    client: Client, names: Sequence[PartitionName], replicas: dict[PartitionName, Sequence[int]]
) -> None:
    """Show the size of each replica's log: what the elected one lacks is lost."""
    brokers = [broker.id for broker in client.describe_cluster().brokers]
    sizes = {
        (topic.name, partition.partition_index, broker): partition.partition_size
        for broker, directories in client.log_dirs(brokers).items()
        for directory in directories
        for topic in directory.topics
        for partition in topic.partitions
    }
    rows = [
        (*name, broker, sizes.get((*name, broker), "offline"))
        for name in names
        for broker in replicas.get(name, ())
    ]
    print_table(("TOPIC", "PARTITION", "REPLICA", "BYTES"), rows)
