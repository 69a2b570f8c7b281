"""`kraftlog offsets`: the flags of `kafka-get-offsets`."""

from __future__ import annotations

from kraftlog.cli.common import UsageError, matching, new_parser, run_with_client
from kraftlog.cli.show import print_json
from kraftlog.errors import ClientError
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from kraftlog.client.client import Client

#: A topic, and optionally a colon with an index, `from-to`, `from-` or `-to` (`to` is exclusive).
_PATTERN = r"([^:,]*)(?::(?:([0-9]+)|(?:([0-9]*)-([0-9]*))))?"


def _parser() -> argparse.ArgumentParser:
    parser = new_parser(
        "offsets",
        "Print topic:partition:offset for each partition.",
        "--topic demo --time earliest",
    )
    parser.add_argument("--topic", metavar="NAME", help="topic name or regular expression")
    parser.add_argument("--partitions", metavar="0,1", help="only these partitions")
    parser.add_argument("--topic-partitions", metavar="a:0,b:0-3", help="topics with partitions")
    parser.add_argument(
        "--time",
        default="latest",
        metavar="WHEN",
        help="a timestamp in ms; latest (-1), earliest (-2), max-timestamp (-3), …",
    )
    parser.add_argument("--exclude-internal-topics", action="store_true")
    return parser


def run(arguments: Sequence[str]) -> int:
    return run_with_client("offsets", _parser().parse_args(arguments), _offsets)


def _offsets(client: Client, options: argparse.Namespace) -> None:
    if options.topic_partitions and (options.topic or options.partitions):
        raise UsageError("give either --topic-partitions or --topic and --partitions, not both")
    timestamp = _timestamp(options.time)
    rows = []
    for topic, indexes in _selected_partitions(client, options).items():
        for index, result in client.offsets(topic, timestamp, indexes).items():
            if result.offset >= 0:
                rows.append((topic, index, result.offset))
    if options.json:
        names = ("topic", "partition", "offset")
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        for row in rows:
            print(*row, sep=":")


def _timestamp(text: str) -> int:
    from argparse import ArgumentTypeError

    from kraftlog.client.arguments import MAX_INT64
    from kraftlog.client.command_parser import whole_number
    from kraftlog.client.offsets import SPECS

    if text in SPECS:
        return SPECS[text]
    try:
        return whole_number(min(SPECS.values()), MAX_INT64)(text)
    except ArgumentTypeError:
        expected = f"a timestamp in ms or one of {', '.join(SPECS)}"
        raise UsageError(f"--time {text}: expected {expected}") from None


def _selected_partitions(client: Client, options: argparse.Namespace) -> dict[str, list[int]]:
    """The selected partitions of each topic."""
    topics = [
        topic
        for topic in client.topics()
        if not (options.exclude_internal_topics and topic.is_internal)
    ]
    existing = {topic.name: [each.index for each in topic.partitions] for topic in topics}
    if options.topic_partitions:
        selected = _by_patterns(existing, options.topic_partitions)
    else:
        names = matching(existing, options.topic)
        selected = {name: existing[name] for name in names}
        if options.partitions:
            wanted_indexes = _numbers(options.partitions)
            selected = {
                name: [n for n in indexes if n in wanted_indexes]
                for name, indexes in selected.items()
            }
    selected = {name: indexes for name, indexes in selected.items() if indexes}
    if not selected:
        raise ClientError("no partition matches")
    return selected


def _numbers(text: str) -> set[int]:
    try:
        return {int(each) for each in text.split(",")}
    except ValueError:
        raise UsageError(f"--partitions {text}: expected numbers") from None


def _by_patterns(existing: dict[str, list[int]], text: str) -> dict[str, list[int]]:
    import re

    selected: dict[str, list[int]] = {}
    for pattern in text.split(","):
        match = re.fullmatch(_PATTERN, pattern.strip())
        if match is None:
            raise UsageError(f"--topic-partitions {pattern}: expected topic:0, topic:0-3 or topic")
        name, single, first, end = match.groups()
        for topic in matching(existing, name or None):
            for index in existing[topic]:
                is_selected = single is None or index == int(single)
                is_selected &= not first or index >= int(first)
                is_selected &= not end or index < int(end)
                if is_selected and index not in selected.setdefault(topic, []):
                    selected[topic].append(index)
    return {topic: sorted(indexes) for topic, indexes in sorted(selected.items())}
