"""What each commit of a table records beside its files: which offsets of its topic the table has.

The record is in the commit's metadata under the key `kraftlog`, so `DeltaTable.history()` shows it.
As it is committed together with the files, the newest record is always true: a batch of the
pipeline begins at its offsets, whatever Spark's checkpoint or a consumer group says.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kraftlog.spark.lake.files import WrittenFile
from kraftlog.types import NULL_UUID, uuid_from_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from deltalake import DeltaTable

    from kraftlog.types import Uuid

#: The key of the record in a commit's metadata, and the version of the record's format.
KEY = "kraftlog"
FORMAT = 1


@dataclass
class ArchiveState:
    """The record of a commit, by partition number; in a range of offsets the end is exclusive."""

    topic: str
    #: As text; empty if the brokers are too old for topic ids.
    topic_id: str
    #: The value of --decode.
    decode: str
    #: The first offset of each partition that the table does not have yet.
    offsets: dict[int, int]
    #: The range of offsets that the commit added to each partition.
    ranges: dict[int, tuple[int, int]] = field(default_factory=dict)
    #: Ranges of offsets that were deleted from the log before they were archived.
    lost: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    #: The id of the streaming query and of its batch; a new checkpoint means a new query id.
    query: str = ""
    batch: int = -1
    #: The number of rows and of dead letters since the table was created.
    rows: int = 0
    bad: int = 0
    #: Files to be added to the table of dead letters, by a commit of its own that follows.
    dead_letters: tuple[WrittenFile, ...] = ()
    #: By name of a field without a column: the number of records that have the field.
    ignored: dict[str, int] = field(default_factory=dict)
    #: The value of --from with which the table was created; empty if it is not known.
    begun_at: str = ""

    @property
    def topic_uuid(self) -> Uuid:
        return uuid_from_text(self.topic_id) if self.topic_id else NULL_UUID

    def metadata(self) -> dict[str, Any]:
        return {
            KEY: {
                "format": FORMAT,
                "topic": self.topic,
                "topicId": self.topic_id,
                "decode": self.decode,
                "offsets": _with_text_keys(self.offsets),
                "ranges": _with_text_keys(self.ranges),
                "lost": _with_text_keys(self.lost),
                "query": self.query,
                "batch": self.batch,
                "rows": self.rows,
                "bad": self.bad,
                "deadLetters": [each.fields() for each in self.dead_letters],
                "ignored": self.ignored,
                "from": self.begun_at,
            }
        }


def state_of(table: DeltaTable) -> ArchiveState | None:
    """The newest record of a table; None if no commit of its history has one."""
    for limit in (1, None):  # the last commit nearly always has one
        for commit in table.history(limit):
            if KEY in commit:
                return _read(commit[KEY])
    return None


def _read(record: Mapping[str, Any]) -> ArchiveState:
    return ArchiveState(
        topic=record["topic"],
        topic_id=record["topicId"],
        decode=record["decode"],
        offsets=_with_int_keys(record["offsets"]),
        ranges={
            index: (start, end) for index, (start, end) in _with_int_keys(record["ranges"]).items()
        },
        lost={
            index: [(start, end) for start, end in lost]
            for index, lost in _with_int_keys(record["lost"]).items()
        },
        query=record["query"],
        batch=record["batch"],
        rows=record["rows"],
        bad=record["bad"],
        dead_letters=tuple(WrittenFile.read(each) for each in record["deadLetters"]),
        ignored=dict(record["ignored"]),
        begun_at=record.get("from", ""),
    )


def _with_text_keys(by_partition: Mapping[int, Any]) -> dict[str, Any]:
    return {str(index): value for index, value in sorted(by_partition.items())}


def _with_int_keys(by_partition: Mapping[str, Any]) -> dict[int, Any]:
    return {int(index): value for index, value in by_partition.items()}
