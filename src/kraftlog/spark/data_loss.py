"""Finds and describes records that a query should read and that do not exist any more.

The option `failOnDataLoss` decides what follows. With true, the default, the query ends with an
error that names the missing records. With false it continues, and prints each loss as one line on
standard error.
"""

from __future__ import annotations

import sys

from kraftlog.errors import KraftlogError
from kraftlog.types import NULL_UUID, uuid_text
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kraftlog.client.model import PartitionName
    from kraftlog.spark.positions import Positions
    from kraftlog.types import Uuid

#: An error names this many partitions at most.
_MAX_NAMED = 5


class DataLossError(KraftlogError):
    """Records are missing, and the query must not continue without them."""


def raise_or_report(losses: Sequence[str], *, is_fatal: bool) -> None:
    """Raise DataLossError for losses if they are fatal; otherwise print each on its own line."""
    if losses and is_fatal:
        more = f"; and {len(losses) - _MAX_NAMED} more" if len(losses) > _MAX_NAMED else ""
        raise DataLossError(
            f"records are missing: {'; '.join(losses[:_MAX_NAMED])}{more}. Set "
            "failOnDataLoss=false to continue without them, or start with a new checkpoint"
        )
    for loss in losses:
        print(f"kraftlog: records are missing: {loss}", file=sys.stderr, flush=True)


def readable_starts(
    start: Positions, end: Positions, earliest: Positions
) -> tuple[Positions, list[str]]:
    """Return `start` with deleted offsets replaced by the log start, and a text for each loss."""
    starts = dict(start)
    losses = []
    for name, offset in start.items():
        if name not in end:
            losses.append(
                f"{partition_text(name)} does not exist any more; offset {offset} was next"
            )
            continue
        log_start = min(earliest.get(name, 0), end[name])
        if end[name] < offset:
            losses.append(truncation_text(name, offset, end[name]))
        elif log_start > offset:
            losses.append(deletion_text(name, offset, log_start, end[name]))
            starts[name] = log_start
    return starts, losses


def deletion_text(name: PartitionName, offset: int, log_start: int, end: int) -> str:
    """Describe the loss of records at the start of a log, by retention or DeleteRecords."""
    return (
        f"{partition_text(name)} was to be read from offset {offset}, but has offsets "
        f"{log_start} to {end}: {log_start - offset} offsets are skipped, which retention or "
        "DeleteRecords has deleted"
    )


def truncation_text(name: PartitionName, offset: int, end: int) -> str:
    """Describe the loss of records at the end of a log."""
    return (
        f"{partition_text(name)} was to be read from offset {offset}, but ends at offset {end}, "
        f"{offset - end} offsets before that: it was deleted and created again, or an unclean "
        f"leader election has truncated it; reading continues at offset {end}"
    )


def early_end_text(name: PartitionName, offset: int, end: int) -> str:
    """Describe a log that ends before the end of a batch read."""
    return f"{partition_text(name)} was to be read up to offset {offset}, but ends at offset {end}"


def skipped_in_new_partitions(added: Positions) -> list[str]:
    """Describe the deleted first records of partitions that are new to the query."""
    return [
        f"the new partition {partition_text(name)} starts at offset {first}: {first} offsets "
        "are skipped"
        for name, first in added.items()
        if first > 0
    ]


def recreated_topics(old_ids: Mapping[str, Uuid], new_ids: Mapping[str, Uuid]) -> list[str]:
    """The names of topics that have another id now."""
    return [
        topic
        for topic, topic_id in old_ids.items()
        if NULL_UUID not in (topic_id, new_ids.get(topic, NULL_UUID)) and new_ids[topic] != topic_id
    ]


def recreation_text(topic: str, old_id: Uuid, new_id: Uuid, consequence: str) -> str:
    return (
        f"topic {topic} was deleted and created again (its id was {uuid_text(old_id)} and is "
        f"{uuid_text(new_id)}), and the offsets of the checkpoint are those of the deleted topic; "
        f"{consequence}"
    )


def partition_text(name: PartitionName) -> str:
    return f"{name[0]}-{name[1]}"
