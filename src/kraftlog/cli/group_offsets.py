"""Computes the target offsets of `groups --reset-offsets`."""

from __future__ import annotations

import sys

from kraftlog.cli.common import UsageError
from kraftlog.client.arguments import time_ms
from kraftlog.client.deadline import wall_ms
from kraftlog.errors import ClientError
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from kraftlog.client.client import Client
    from kraftlog.client.model import PartitionName

_DURATION = r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?"
_DURATION_UNITS_MS = (86_400_000, 3_600_000, 60_000, 1000)


def target_offsets(
    client: Client, group: str, options: argparse.Namespace
) -> dict[PartitionName, int]:
    """The target offset of each selected partition."""
    if options.from_file:
        with open(options.from_file, encoding="utf-8") as file:
            offsets = from_csv(file.read(), group)
        return _within_log(client, offsets)
    names = _selected_partitions(client, group, options)
    if options.spec == "to-current":
        committed = client.committed(group, names)
        current = {name: result.offset for name, result in committed.items()}
        uncommitted = [name for name in names if name not in current]
        return dict(sorted((current | _latest(client, uncommitted)).items()))
    if options.spec is not None:
        return list_offsets(client, names, options.spec.removeprefix("to-"))
    if options.to_offset is not None:
        return _within_log(client, dict.fromkeys(names, options.to_offset))
    if options.shift_by is not None:
        committed = client.committed(group, names)
        for name in names:
            if name not in committed:
                raise ClientError(
                    f"--shift-by: group {group} has no committed offset for {name[0]}-{name[1]}"
                )
        shifted = {name: committed[name].offset + options.shift_by for name in names}
        return _within_log(client, shifted)
    if options.to_datetime is not None:
        return _at_timestamp(client, names, datetime_ms(options.to_datetime))
    if options.by_duration is not None:
        return _at_timestamp(client, names, wall_ms() - duration_ms(options.by_duration))
    raise UsageError("--reset-offsets needs a target: --to-earliest, --to-offset, …")


def _selected_partitions(
    client: Client, group: str, options: argparse.Namespace
) -> list[PartitionName]:
    if options.all_topics == bool(options.topic):
        raise UsageError("--reset-offsets needs one of --topic and --all-topics")
    if options.all_topics:
        return sorted(client.committed(group))
    return partitions_named(client, options.topic)


def partitions_named(client: Client, texts: Sequence[str]) -> list[PartitionName]:
    """Parse `topic` and `topic:0,1` into partitions."""
    partitions: list[PartitionName] = []
    for text in texts:
        topic, colon, indexes = text.partition(":")
        existing = [each.index for each in client.cluster.topic(topic).partitions]
        if not colon:
            partitions += [(topic, index) for index in existing]
            continue
        for index_text in indexes.split(","):
            if not index_text.isdecimal():
                raise UsageError(
                    f"--topic {text}: expected partition numbers after the colon, as in a:0,1"
                )
            if int(index_text) not in existing:
                raise ClientError(f"topic {topic} has no partition {index_text}")
            partitions.append((topic, int(index_text)))
    return sorted(set(partitions))


def list_offsets(
    client: Client, names: Sequence[PartitionName], spec: str | int
) -> dict[PartitionName, int]:
    """The offset of each partition for a timestamp, or for a spec such as "latest"."""
    from kraftlog.client.groups import by_topic

    return {
        (topic, index): result.offset
        for topic, indexes in by_topic(names).items()
        for index, result in client.offsets(topic, spec, indexes).items()
    }


def _latest(client: Client, names: Sequence[PartitionName]) -> dict[PartitionName, int]:
    return list_offsets(client, names, "latest")


def _at_timestamp(
    client: Client, names: Sequence[PartitionName], timestamp_ms: int
) -> dict[PartitionName, int]:
    """Offsets of the first records at or after a timestamp, or else the log end offsets."""
    offsets = list_offsets(client, names, timestamp_ms)
    after_end = [name for name, offset in offsets.items() if offset < 0]
    return offsets | _latest(client, after_end)


def _within_log(client: Client, offsets: Mapping[PartitionName, int]) -> dict[PartitionName, int]:
    """Limit offsets to the log of each partition; print a warning for each that changes."""
    starts, ends = list_offsets(client, list(offsets), "earliest"), _latest(client, list(offsets))
    limited = {}
    for name, offset in offsets.items():
        limited[name] = min(max(offset, starts[name]), ends[name])
        if limited[name] != offset:
            print(
                f"{name[0]}-{name[1]} has offsets {starts[name]} to {ends[name]}: "
                f"{limited[name]} is used instead of {offset}",
                file=sys.stderr,
            )
    return limited


def datetime_ms(text: str) -> int:
    """Parse `YYYY-MM-DDTHH:MM:SS.sss` into milliseconds; UTC unless it has a zone."""
    try:
        milliseconds = time_ms(text)
    except (OverflowError, ValueError):
        milliseconds = -1
    if milliseconds < 0:
        raise UsageError(
            f"--to-datetime {text}: expected a time since 1970 such as 2026-01-31T12:00:00.000"
        )
    return milliseconds


def duration_ms(text: str) -> int:
    """Parse `PnDTnHnMnS` into milliseconds."""
    import re

    match = re.fullmatch(_DURATION, text)
    if match is None or not any(match.groups()):
        raise UsageError(f"--by-duration {text}: expected a duration such as P1DT2H or PT90S")
    parts = zip(match.groups(), _DURATION_UNITS_MS, strict=True)
    milliseconds = sum(float(number) * unit for number, unit in parts if number)
    if milliseconds > wall_ms():
        raise UsageError(f"--by-duration {text}: expected a time since 1970")
    return int(milliseconds)


def as_csv(plans: Mapping[str, Mapping[PartitionName, int]]) -> str:
    """Offsets as lines of topic,partition,offset, preceded by the group if there are several."""
    lines = []
    for group, plan in plans.items():
        group_cell = [group] if len(plans) > 1 else []
        lines += [
            ",".join([*group_cell, topic, str(index), str(offset)]) + "\n"
            for (topic, index), offset in plan.items()
        ]
    return "".join(lines)


def from_csv(text: str, group: str) -> dict[PartitionName, int]:
    """Parse the lines of `as_csv`; skip those of other groups."""
    offsets: dict[PartitionName, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        cells = [cell.strip().strip('"') for cell in line.split(",")]
        if cells == [""]:
            continue
        if len(cells) == 4 and cells.pop(0) != group:
            continue
        if len(cells) != 3 or not (cells[1].isdecimal() and cells[2].isdecimal()):
            raise ValueError(f"line {number}: expected topic,partition,offset, not {line}")
        offsets[cells[0], int(cells[1])] = int(cells[2])
    return offsets
