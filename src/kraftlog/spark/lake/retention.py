"""Removes a table's oldest records, as Kafka's `retention.ms` removes those of a log.

Like segments, whole files are removed, from the beginning of each partition on, until the first one
that has a record that is not old enough. So a table has all archived records of a partition from an
offset on, which it keeps (`ArchiveState.kept`), and `verify` can hold it to that.
"""

from __future__ import annotations

from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from kraftlog.spark.lake.delta_table import DeltaArchive


class Expired(NamedTuple):
    """What a commit has removed; `kept` are the first offsets that are left, by partition."""

    files: int = 0
    rows: int = 0
    kept: Mapping[int, int] = MappingProxyType({})
    #: The number of files without statistics: because of them nothing was removed.
    unknown: int = 0


def expire(table: DeltaArchive, before_ms: int, *, is_dry: bool = False) -> Expired:
    """Remove the files at the beginning of each partition whose records are all older."""
    table.refresh()
    actions = table.actions()
    unknown = [each for each in actions if not _is_of_one_partition(each)]
    if unknown:  # they may have records at the beginning of any partition
        return Expired(unknown=len(unknown))
    by_partition: dict[int, list[dict[str, Any]]] = {}
    for action in actions:
        by_partition.setdefault(action["min.partition"], []).append(action)
    removed: list[dict[str, Any]] = []
    kept: dict[int, int] = {}
    for partition, files in by_partition.items():
        for group in _overlapping(files):
            if not all(_newest_ms(each) < before_ms for each in group):
                break
            removed += group
            kept[partition] = max(each["max.offset"] for each in group) + 1
    if not removed:
        return Expired()
    rows = sum(each["num_records"] for each in removed)
    if not is_dry:
        table.remove([unquote(each["path"]) for each in removed], kept, rows)
    return Expired(len(removed), rows, kept)


def _is_of_one_partition(action: Mapping[str, Any]) -> bool:
    is_known = None not in (
        *(action.get(f"{bound}.offset") for bound in ("min", "max")),
        *(action.get("min.partition"), action.get("num_records")),
    )
    return is_known and action["min.partition"] == action.get("max.partition")


def _overlapping(files: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Groups of files whose offsets overlap, in order; those of several dates may do so."""
    group: list[dict[str, Any]] = []
    end = -1
    for file in sorted(files, key=lambda file: (file["min.offset"], file["max.offset"])):
        if group and file["min.offset"] > end:
            yield group
            group = []
        group.append(file)
        end = max(end, file["max.offset"])
    if group:
        yield group


def _newest_ms(action: Mapping[str, Any]) -> int:
    """The time of a file's newest record; that of the file if no record has a time, as in Kafka."""
    newest: datetime | None = action.get("max.timestamp")
    if newest is not None:
        newest_ms = int(newest.replace(tzinfo=newest.tzinfo or UTC).timestamp() * 1000)
        if newest_ms >= 0:
            return newest_ms + 1  # Delta's log cuts times down to milliseconds
    written_ms: int = action["modification_time"]
    return written_ms
