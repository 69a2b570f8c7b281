"""Offsets by partition: looks them up, converts them to and from checkpoints, limits a batch."""

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
    #: The same in the form of a checkpoint: by topic, then by partition as text.
    Nested = dict[str, dict[str, int]]


#: Separates a topic's name from its id in a checkpoint; no topic name contains it.
_ID_MARK = "@"


def nested(positions: Mapping[PartitionName, int], ids: Mapping[str, Uuid] | None = None) -> Nested:
    """Offsets in the form of a checkpoint, with an entry `topic@id` for each topic in `ids`.

    As such an entry has no partitions, `flat` skips it.
    """
    by_topic: Nested = {}
    for (topic, index), offset in sorted(positions.items()):
        by_topic.setdefault(topic, {})[str(index)] = offset
    for topic, topic_id in sorted((ids or {}).items()):
        by_topic[f"{topic}{_ID_MARK}{uuid_text(topic_id)}"] = {}
    return by_topic


def topic_ids(checkpoint: Mapping[str, Mapping[str, int]]) -> dict[str, Uuid]:
    """The topic ids in a checkpoint, from its entries `topic@id`."""
    pairs = (name.split(_ID_MARK) for name in checkpoint if _ID_MARK in name)
    return {topic: uuid_from_text(topic_id) for topic, topic_id in pairs}


def flat(checkpoint: Mapping[str, Mapping[str, int]]) -> Positions:
    """The offsets of a checkpoint by partition."""
    return {
        (topic, int(index)): offset
        for topic, partitions in checkpoint.items()
        for index, offset in partitions.items()
    }


def selected(cluster: Cluster, selection: Selection) -> list[PartitionName]:
    """The partitions to read, from the current metadata of the cluster."""
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
    """The offset that a limit means in each partition.

    If a partition has no record at or after the timestamp, this is the log end with
    `latest_if_none`, else an error.
    """
    timestamps = _list_offsets_timestamps(names, limit)
    looked_up = {name: value for name, value in timestamps.items() if value is not None}
    offsets_found = {
        name: result.offset
        for name, result in offsets.find(cluster, looked_up, isolation_level).items()
    }
    after_end = [name for name, offset in offsets_found.items() if offset < 0]
    if after_end and not latest_if_none:
        topic, index = after_end[0]
        raise ConfigError(
            f"{topic}-{index} has no record at or after the timestamp {timestamps[topic, index]}; "
            "startingOffsetsByTimestampStrategy=latest starts at the end instead"
        )
    if after_end:
        ends = offsets.find(cluster, dict.fromkeys(after_end, LATEST), isolation_level)
        offsets_found.update({name: result.offset for name, result in ends.items()})
    explicit = dict(limit.offsets or ())
    return {
        name: offsets_found[name] if name in offsets_found else explicit[name] for name in names
    }


def _list_offsets_timestamps(
    names: list[PartitionName], limit: Limit
) -> dict[PartitionName, int | None]:
    """The timestamp of each partition for ListOffsets; None if the limit has an exact offset."""
    if limit.everywhere is not None:
        return dict.fromkeys(names, limit.everywhere)
    if limit.time_ms is not None:
        return dict.fromkeys(names, limit.time_ms)
    if limit.times_ms is not None:
        times = dict(limit.times_ms)
        _check_same_partitions(set(times), set(names))
        return {name: times[name] for name in names}
    explicit = dict(limit.offsets or ())
    _check_same_partitions(set(explicit), set(names))
    return {
        name: explicit[name] if explicit[name] in {LATEST, EARLIEST} else None for name in names
    }


def _check_same_partitions(given: set[PartitionName], names: set[PartitionName]) -> None:
    def text(partitions: set[PartitionName]) -> str:
        return ", ".join(f"{topic}-{index}" for topic, index in sorted(partitions))

    if given - names:
        raise ConfigError(
            "offsets or timestamps are given for partitions that are not read: "
            f"{text(given - names)}"
        )
    if names - given:
        raise ConfigError(
            "offsets or timestamps must be given for every partition; missing: "
            f"{text(names - given)}"
        )


def prorated(start: Positions, end: Positions, max_offsets: int) -> Positions:
    """The end of a batch of about `max_offsets`, split in proportion to the partitions' backlogs.

    The arithmetic is that of Spark's connector, so that both plan the same batches.
    """
    sizes = {name: max(0, end[name] - start.get(name, end[name])) for name in end}
    total = sum(sizes.values())
    if total == 0:
        return end
    ends = {}
    for name, size in sizes.items():
        share = max_offsets * (size / total)
        # A small backlog gets at least one offset, so that it does not wait for ever.
        count = math.ceil(share) if share < 1 else math.floor(share)
        ends[name] = min(end[name], start[name] + count) if size else end[name]
    return ends
