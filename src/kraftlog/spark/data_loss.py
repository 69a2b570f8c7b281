"""Records that were to be read and are gone: found, described, and refused or reported.

The option `failOnDataLoss` decides. With true, the default, the query ends with an error that says
what is gone. With false it goes on, and says the same in one line on standard error.
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
_NAMED = 5


class DataLossError(KraftlogError):
    """Records are gone, and the query is not to go on without them."""


def settle(losses: Sequence[str], *, is_fatal: bool) -> None:
    """Raise if there are losses that may not be; otherwise report each in a line."""
    if losses and is_fatal:
        more = f"; and {len(losses) - _NAMED} more" if len(losses) > _NAMED else ""
        raise DataLossError(
            f"records are missing: {'; '.join(losses[:_NAMED])}{more}. Set failOnDataLoss=false to "
            "go on with what there is, or start with a new checkpoint"
        )
    for loss in losses:
        print(f"kraftlog: records are missing: {loss}", file=sys.stderr, flush=True)


def readable(start: Positions, end: Positions, earliest: Positions) -> tuple[Positions, list[str]]:
    """Where reading can start, given where the logs start; and what is gone before that."""
    found = dict(start)
    losses = []
    for name, wanted in start.items():
        if name not in end:
            losses.append(f"{text(name)} is not there any more; offset {wanted} was next")
            continue
        first = min(earliest.get(name, 0), end[name])
        if end[name] < wanted:
            losses.append(truncated(name, wanted, end[name]))
        elif first > wanted:
            losses.append(deleted(name, wanted, first, end[name]))
            found[name] = first
    return found, losses


def deleted(name: PartitionName, wanted: int, first: int, end: int) -> str:
    """The loss of records at the start of a log, by retention or DeleteRecords."""
    return (
        f"{text(name)} was to be read from offset {wanted}, but has offsets {first} to {end}: "
        f"{first - wanted} offsets are skipped, which retention or DeleteRecords has deleted"
    )


def truncated(name: PartitionName, wanted: int, end: int) -> str:
    """The loss of records at the end of a log."""
    return (
        f"{text(name)} was to be read from offset {wanted}, but ends at offset {end}, "
        f"{wanted - end} offsets before that: it was deleted and created again, or an unclean "
        f"leader election has truncated it; reading goes on at offset {end}"
    )


def short(name: PartitionName, wanted: int, end: int) -> str:
    """The loss of a log that ends before the end of a batch read."""
    return f"{text(name)} was to be read up to offset {wanted}, but ends at offset {end}"


def late_partitions(added: Positions) -> list[str]:
    """New partitions are read from offset 0, unless their first records are gone already."""
    return [
        f"the new partition {text(name)} starts at offset {first}: {first} offsets are skipped"
        for name, first in added.items()
        if first > 0
    ]


def recreated(known: Mapping[str, Uuid], now: Mapping[str, Uuid]) -> list[str]:
    """The topics that have another id now."""
    return [
        topic
        for topic, topic_id in known.items()
        if NULL_UUID not in (topic_id, now.get(topic, NULL_UUID)) and now[topic] != topic_id
    ]


def recreation(topic: str, known: Uuid, now: Uuid, consequence: str) -> str:
    return (
        f"topic {topic} was deleted and created again (its id was {uuid_text(known)} and is "
        f"{uuid_text(now)}), and the offsets of the checkpoint are those of the deleted topic; "
        f"{consequence}"
    )


def text(name: PartitionName) -> str:
    return f"{name[0]}-{name[1]}"
