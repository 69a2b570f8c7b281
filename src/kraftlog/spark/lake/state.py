"""What each commit of a table records beside its files: where the table is in its topic's log.

It is in the commit's metadata under the key `kraftlog`, so `DeltaTable.history()` shows it. A
commit with files and its record are atomic, so the newest record is the truth about what the table
has: a batch of the pipeline begins where it says, whatever a checkpoint or a group says.
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

KEY = "kraftlog"
FORMAT = 1


@dataclass
class ArchiveState:
    """The record of a commit; partitions are numbers, ranges are pairs of offsets."""

    topic: str
    #: As text; empty if the brokers are too old for topic ids.
    topic_id: str
    decode: str
    #: The next offset of each partition that the table does not have.
    offsets: dict[int, int]
    #: The range of offsets that the commit added to each partition; the end is exclusive.
    ranges: dict[int, tuple[int, int]] = field(default_factory=dict)
    #: Ranges of offsets that were deleted from the log before they were archived.
    lost: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    #: The id of the streaming query and its batch; a new checkpoint has a new query.
    query: str = ""
    batch: int = -1
    #: The number of rows and of dead letters since the table was created.
    rows: int = 0
    bad: int = 0
    #: Files that the commit adds to the table of dead letters, in a commit that follows.
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
                "offsets": _texts(self.offsets),
                "ranges": _texts(self.ranges),
                "lost": _texts(self.lost),
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
    for limit in (1, None):  # the last commit nearly always has it
        for commit in table.history(limit):
            if KEY in commit:
                return _read(commit[KEY])
    return None


def _read(found: Mapping[str, Any]) -> ArchiveState:
    return ArchiveState(
        topic=found["topic"],
        topic_id=found["topicId"],
        decode=found["decode"],
        offsets=_numbers(found["offsets"]),
        ranges={index: (start, end) for index, (start, end) in _numbers(found["ranges"]).items()},
        lost={
            index: [(start, end) for start, end in lost]
            for index, lost in _numbers(found["lost"]).items()
        },
        query=found["query"],
        batch=found["batch"],
        rows=found["rows"],
        bad=found["bad"],
        dead_letters=tuple(WrittenFile.read(each) for each in found["deadLetters"]),
        ignored=dict(found["ignored"]),
        begun_at=found.get("from", ""),
    )


def _texts(by_partition: Mapping[int, Any]) -> dict[str, Any]:
    return {str(index): value for index, value in sorted(by_partition.items())}


def _numbers(by_partition: Mapping[str, Any]) -> dict[int, Any]:
    return {int(index): value for index, value in by_partition.items()}
