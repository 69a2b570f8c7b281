"""Offsets of many partitions: from the cluster, as Spark's JSON, and limited to a batch."""

from __future__ import annotations

import math
import re

from kraftlog.client import offsets
from kraftlog.errors import ConfigError
from kraftlog.spark.options import ASSIGN, EARLIEST, LATEST, PATTERN
from kraftlog.types import uuid_from_text, uuid_text
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kraftlog.client.cluster import Cluster
    from kraftlog.client.model import PartitionName
    from kraftlog.spark.options import Limit, Selection
    from kraftlog.types import Uuid

    #: An offset of each partition.
    Positions = dict[PartitionName, int]
    #: The same as Spark keeps it in a checkpoint: topic, then partition as text.
    Nested = dict[str, dict[str, int]]


#: Separates a topic's name from its id in a checkpoint; no topic name contains it.
_ID_MARK = "@"


def nested(positions: Mapping[PartitionName, int], ids: Mapping[str, Uuid] | None = None) -> Nested:
    """Offsets as in a checkpoint, and with `ids` an entry without partitions for each topic's id.

    Such an entry changes nothing for a reader of the offsets.
    """
    found: Nested = {}
    for (topic, index), offset in sorted(positions.items()):
        found.setdefault(topic, {})[str(index)] = offset
    for topic, topic_id in sorted((ids or {}).items()):
        found[f"{topic}{_ID_MARK}{uuid_text(topic_id)}"] = {}
    return found


def topic_ids(given: Mapping[str, Mapping[str, int]]) -> dict[str, Uuid]:
    """The topic ids that the offsets of a checkpoint contain."""
    pairs = (name.split(_ID_MARK) for name in given if _ID_MARK in name)
    return {topic: uuid_from_text(topic_id) for topic, topic_id in pairs}


def flat(given: Mapping[str, Mapping[str, int]]) -> Positions:
    return {
        (topic, int(index)): offset
        for topic, partitions in given.items()
        for index, offset in partitions.items()
    }


def selected(cluster: Cluster, selection: Selection) -> list[PartitionName]:
    """The partitions that are to be read, as the cluster has them now."""
    cluster.drop_cache()
    if selection.kind == ASSIGN:
        return sorted(selection.partitions)
    if selection.kind == PATTERN:
        pattern = re.compile(selection.pattern)
        topics = [
            topic
            for topic in cluster.all_topics()
            if not topic.is_internal and pattern.fullmatch(topic.name)
        ]
    else:
        topics = [cluster.topic(name) for name in selection.topics]
    return sorted((each.name, part.index) for each in topics for part in each.partitions)


def resolved(
    cluster: Cluster,
    names: list[PartitionName],
    limit: Limit,
    isolation_level: int,
    *,
    latest_if_none: bool = True,
) -> Positions:
    """The offset of each partition that a limit stands for.

    `latest_if_none`: without a record as late as the timestamp, the end of the log; else an error.
    """
    wanted = _wanted(names, limit)
    asked = {name: value for name, value in wanted.items() if value is not None}
    found = {
        name: result.offset
        for name, result in offsets.find(cluster, asked, isolation_level).items()
    }
    late = [name for name, offset in found.items() if offset < 0]
    if late and not latest_if_none:
        topic, index = late[0]
        raise ConfigError(
            f"{topic}-{index} has no record at or after the timestamp {wanted[topic, index]}; "
            "startingOffsetsByTimestampStrategy=latest starts at the end instead"
        )
    if late:
        ends = offsets.find(cluster, dict.fromkeys(late, LATEST), isolation_level)
        found.update({name: result.offset for name, result in ends.items()})
    exact = dict(limit.offsets or ())
    return {name: found[name] if name in found else exact[name] for name in names}


def _wanted(names: list[PartitionName], limit: Limit) -> dict[PartitionName, int | None]:
    """What to ask ListOffsets for each partition; None where the offset is given."""
    if limit.everywhere is not None:
        return dict.fromkeys(names, limit.everywhere)
    if limit.time_ms is not None:
        return dict.fromkeys(names, limit.time_ms)
    if limit.times_ms is not None:
        times = dict(limit.times_ms)
        _check_same(set(times), set(names))
        return {name: times[name] for name in names}
    given = dict(limit.offsets or ())
    _check_same(set(given), set(names))
    return {
        name: given[name] if given[name] in {LATEST, EARLIEST} else None  # others are exact
        for name in names
    }


def _check_same(given: set[PartitionName], names: set[PartitionName]) -> None:
    def text(partitions: set[PartitionName]) -> str:
        return ", ".join(f"{topic}-{index}" for topic, index in sorted(partitions))

    if given - names:
        raise ConfigError(
            f"offsets are given for partitions that are not read: {text(given - names)}"
        )
    if names - given:
        raise ConfigError(
            f"offsets must be given for every partition; missing: {text(names - given)}"
        )


def prorated(start: Positions, end: Positions, most: int) -> Positions:
    """An end with about `most` offsets, in proportion to each partition's backlog.

    The arithmetic is the connector's, so that the offsets are equal.
    """
    sizes = {name: max(0, end[name] - start.get(name, end[name])) for name in end}
    total = sum(sizes.values())
    if total == 0:
        return end
    found = {}
    for name, size in sizes.items():
        share = most * (size / total)
        # A small partition gets at least one record, so that it does not wait for ever.
        count = math.ceil(share) if share < 1 else math.floor(share)
        found[name] = min(end[name], start[name] + count) if size else end[name]
    return found
