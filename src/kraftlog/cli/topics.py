"""`kraftlog topics`: the flags of `kafka-topics`."""

from __future__ import annotations

import sys

from kraftlog.cli.common import (
    UsageError,
    add_consistency,
    is_linearizable,
    matching,
    new_parser,
    parse_pairs,
    require_options,
    run_with_client,
)
from kraftlog.cli.show import numbers, print_json, print_table
from kraftlog.errors import ClientError, ErrorCode, RefusedError
from kraftlog.types import uuid_text
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from kraftlog.client.client import Client
    from kraftlog.client.configs import Setting
    from kraftlog.client.model import Partition, Topic

#: The largest replication factor in Kafka's protocol.
MAX_REPLICATION_FACTOR = 2**15 - 1
_DEFAULT_SOURCES = {"DEFAULT_CONFIG", "UNKNOWN"}


def _parser() -> argparse.ArgumentParser:
    from kraftlog.client.command_parser import uuid, whole_number

    parser = new_parser(
        "topics",
        "List, describe, create, alter and delete topics.",
        "--create --topic demo --partitions 3 --config retention.ms=3600000",
        usage="kraftlog topics --list | --describe | --create | --alter | --delete [options]",
    )
    actions = parser.add_argument_group("what to do").add_mutually_exclusive_group(required=True)
    for name in ("list", "describe", "create", "alter", "delete"):
        actions.add_argument(f"--{name}", dest="action", action="store_const", const=name)
    parser.add_argument(
        "--topic", metavar="NAME", help="a name; a regular expression except with --create"
    )
    parser.add_argument("--topic-id", type=uuid, metavar="ID", help="the id of a topic to describe")
    parser.add_argument(
        "--partitions", type=whole_number(1), metavar="N", help="number of partitions"
    )
    parser.add_argument(
        "--replication-factor",
        type=whole_number(1, MAX_REPLICATION_FACTOR),
        metavar="N",
        help="replication factor",
    )
    parser.add_argument(
        "--replica-assignment",
        metavar="1:2,2:3",
        help="brokers of each partition (with --alter: of existing partitions, too)",
    )
    parser.add_argument(
        "--remove-partitions",
        action="store_true",
        help="with --alter: delete the partitions beyond --partitions, with their records",
    )
    parser.add_argument("--config", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument(
        "--if-exists", action="store_true", help="succeed if the topic does not exist"
    )
    parser.add_argument("--if-not-exists", action="store_true", help="succeed if the topic exists")
    parser.add_argument("--exclude-internal", action="store_true", help="exclude internal topics")
    for name, filtered in _FILTERS.items():
        parser.add_argument(f"--{name}", action="store_true", help=f"only {filtered}")
    parser.add_argument(
        "--partition-size-limit-per-response", type=whole_number(1), default=2000, metavar="N"
    )
    add_consistency(parser)
    return parser


_FILTERS = {
    "under-replicated-partitions": "under-replicated partitions",
    "unavailable-partitions": "partitions without a leader",
    "under-min-isr-partitions": "partitions below min.insync.replicas",
    "at-min-isr-partitions": "partitions at min.insync.replicas",
    "topics-with-overrides": "topics with config overrides, without partitions",
}


def run(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    return run_with_client("topics", options, _ACTIONS[options.action])


def _list(client: Client, options: argparse.Namespace) -> None:
    names = [topic.name for topic in _selected_topics(client, options)]
    if options.json:
        print_json(names)
    else:
        for name in names:
            print(name)


def _selected_topics(client: Client, options: argparse.Namespace) -> list[Topic]:
    """The topics that the options select.

    Raises if there is none for --topic or --topic-id, except with --list or --if-exists.
    """
    topics = client.topics(linearizable=is_linearizable(options))
    if options.topic_id is not None:
        topics = [topic for topic in topics if topic.id == options.topic_id]
    elif options.topic is not None:
        names = matching([topic.name for topic in topics], options.topic)
        topics = [topic for topic in topics if topic.name in names]
    requested = uuid_text(options.topic_id) if options.topic_id else options.topic
    if requested and not topics and not options.if_exists and options.action != "list":
        raise ClientError(f"topic {requested} does not exist")
    if options.exclude_internal:
        topics = [topic for topic in topics if not topic.is_internal]
    return topics


def _describe(client: Client, options: argparse.Namespace) -> None:
    names = [topic.name for topic in _selected_topics(client, options)]
    linearizable = is_linearizable(options)
    described = client.describe_topics(
        names, options.partition_size_limit_per_response, linearizable=linearizable
    )
    shown: list[tuple[Topic, list[Partition], dict[str, str | None]]] = []
    for topic in described:
        configs = client.describe_configs("topics", topic.name, linearizable=linearizable)
        settings = {each.name: each for each in configs}
        partitions = [p for p in topic.partitions if _is_selected(p, settings, options)]
        overrides = {name: each.value for name, each in sorted(settings.items()) if _is_set(each)}
        if options.topics_with_overrides:
            if overrides:
                shown.append((topic, [], overrides))
        elif partitions or not _is_filtered(options):
            shown.append((topic, partitions, overrides))
    if options.json:
        print_json([_as_json(*each) for each in shown])
    else:
        _print_described(shown, options)


def _is_set(setting: Setting) -> bool:
    return setting.source not in _DEFAULT_SOURCES


def _is_filtered(options: argparse.Namespace) -> bool:
    # The first four filter partitions; topics-with-overrides filters topics.
    return any(getattr(options, name.replace("-", "_")) for name in list(_FILTERS)[:4])


def _is_selected(
    partition: Partition, settings: dict[str, Setting], options: argparse.Namespace
) -> bool:
    min_isr = int(settings["min.insync.replicas"].value or 1)
    in_sync = len(partition.isr)
    filters = (
        (options.under_replicated_partitions, partition.is_under_replicated),
        (options.unavailable_partitions, partition.leader < 0),
        (options.under_min_isr_partitions, in_sync < min_isr),
        (options.at_min_isr_partitions, in_sync == min_isr),
    )
    return all(matches for is_requested, matches in filters if is_requested)


def _print_described(
    shown: list[tuple[Topic, list[Partition], dict[str, str | None]]], options: argparse.Namespace
) -> None:
    for topic, partitions, overrides_of_topic in shown:
        replication_factor = len(topic.partitions[0].replicas) if topic.partitions else 0
        overrides = ", ".join(f"{key}={value or ''}" for key, value in overrides_of_topic.items())
        count = len(topic.partitions)
        print(
            f"{topic.name}  id {uuid_text(topic.id)}  {count} partition{'s'[: count != 1]}  "
            f"replication {replication_factor}"
        )
        if overrides:
            print(f"  {overrides}")
        if options.topics_with_overrides:
            continue
        print_table(
            ("  PARTITION", "LEADER", "REPLICAS", "ISR", "ELR", "LAST KNOWN ELR"),
            [
                (
                    f"  {p.index}",
                    None if p.leader < 0 else p.leader,
                    numbers(p.replicas),
                    numbers(p.isr),
                    numbers(p.elr),
                    numbers(p.last_known_elr),
                )
                for p in partitions
            ],
        )


def _as_json(
    topic: Topic, partitions: list[Partition], overrides: dict[str, str | None]
) -> dict[str, object]:
    return {
        "topic": topic.name,
        "id": uuid_text(topic.id),
        "internal": topic.is_internal,
        "partition_count": len(topic.partitions),
        "configs": overrides,
        "partitions": [
            {
                "partition": p.index,
                "leader": p.leader,
                "leader_epoch": p.leader_epoch,
                "replicas": p.replicas,
                "isr": p.isr,
                "offline": p.offline,
                "elr": p.elr,
                "last_known_elr": p.last_known_elr,
            }
            for p in partitions
        ],
    }


def _create(client: Client, options: argparse.Namespace) -> None:
    require_options(options, "topic")
    assignment = _assignment(options.replica_assignment)
    counts = options.partitions, options.replication_factor
    if assignment and counts != (None, None):
        raise UsageError(
            "--replica-assignment replaces --partitions and --replication-factor; remove them"
        )
    try:
        client.create_topic(
            options.topic,
            *[-1 if count is None else count for count in counts],
            configs=parse_pairs(options.config),
            assignment=dict(enumerate(assignment)) if assignment else None,
        )
    except RefusedError as error:
        if not (options.if_not_exists and error.code == ErrorCode.TOPIC_ALREADY_EXISTS):
            raise
        return
    if "." in options.topic and "_" in options.topic:
        print(
            "kraftlog topics: metric names replace . by _, so topics that differ only in these "
            "characters share a metric name",
            file=sys.stderr,
        )
    _print_outcome(options, f"created {options.topic}", created=[options.topic])


def _alter(client: Client, options: argparse.Namespace) -> None:
    if options.config:
        raise UsageError("topic configs are altered by kraftlog configs --alter --topic")
    require_options(options, "topic", "partitions")
    assignment = _assignment(options.replica_assignment)
    topics = _selected_topics(client, options)
    if options.remove_partitions and assignment:
        raise UsageError("--remove-partitions adds no partitions; remove --replica-assignment")
    for topic in topics:
        if options.remove_partitions:
            client.remove_partitions(topic.name, options.partitions)
            continue
        if options.partitions < len(topic.partitions):
            raise ClientError(
                f"topic {topic.name} has {len(topic.partitions)} partitions; --remove-partitions "
                "deletes the last ones with their records"
            )
        new_assignment = assignment[len(topic.partitions) :] if assignment else None
        client.create_partitions(topic.name, options.partitions, new_assignment)
    _print_outcome(
        options, *[f"altered {t.name}" for t in topics], altered=[t.name for t in topics]
    )


def _delete(client: Client, options: argparse.Namespace) -> None:
    require_options(options, "topic")
    topics = _selected_topics(client, options)
    for topic in topics:
        client.delete_topic(topic.name)
    _print_outcome(
        options, *[f"deleted {t.name}" for t in topics], deleted=[t.name for t in topics]
    )


def _print_outcome(options: argparse.Namespace, *lines: str, **data: list[str]) -> None:
    if options.json:
        print_json(data)
    else:
        for line in lines:
            print(line)


def _assignment(text: str | None) -> list[list[int]]:
    """Parse `1:2,2:3` into the brokers of each partition."""
    if text is None:
        return []
    from argparse import ArgumentTypeError

    from kraftlog.client.command_parser import whole_number

    parse = whole_number()
    try:
        return [[parse(broker) for broker in part.split(":")] for part in text.split(",")]
    except ArgumentTypeError:
        raise UsageError(f"--replica-assignment {text}: expected numbers as in 1:2,2:3") from None


_ACTIONS = {
    "list": _list,
    "describe": _describe,
    "create": _create,
    "alter": _alter,
    "delete": _delete,
}
