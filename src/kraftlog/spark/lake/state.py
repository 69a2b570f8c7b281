"""What each commit of a table states besides its files: which offsets of its topic the table has.

This state is in the commit's metadata under the key `kraftlog`: `DeltaTable.history()` shows it. As
it is committed together with the files, the newest state is always true: a batch of the pipeline
begins at the offsets in it, whatever Spark's checkpoint or a consumer group says.
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

#: The key of the state in a commit's metadata, and the version of the state's format.
KEY = "kraftlog"
FORMAT = 1


@dataclass
class ArchiveState:
    """The state of a table after a commit, kept in the metadata of the commit.

    `offsets`, `ranges` and `lost` are by partition number. The end of a range is exclusive.
    """

    topic: str
    #: As text; empty if the brokers are too old for topic ids.
    topic_id: str
    #: The value of --decode.
    decode: str
    #: For each partition, the first offset that the table does not have yet.
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
    """The newest state of a table; None if no commit of its history has one."""
    for limit in (1, None):  # the last commit nearly always has one
        for commit in table.history(limit):
            if KEY in commit:
                return _read(commit[KEY])
    return None


def _read(fields: Mapping[str, Any]) -> ArchiveState:
    return ArchiveState(
        topic=fields["topic"],
        topic_id=fields["topicId"],
        decode=fields["decode"],
        offsets=_with_int_keys(fields["offsets"]),
        ranges={
            index: (start, end) for index, (start, end) in _with_int_keys(fields["ranges"]).items()
        },
        lost={
            index: [(start, end) for start, end in lost]
            for index, lost in _with_int_keys(fields["lost"]).items()
        },
        query=fields["query"],
        batch=fields["batch"],
        rows=fields["rows"],
        bad=fields["bad"],
        dead_letters=tuple(WrittenFile.read(each) for each in fields["deadLetters"]),
        ignored=dict(fields["ignored"]),
        begun_at=fields.get("from", ""),
    )


def _with_text_keys(by_partition: Mapping[int, Any]) -> dict[str, Any]:
    return {str(index): value for index, value in sorted(by_partition.items())}


def _with_int_keys(by_partition: Mapping[str, Any]) -> dict[int, Any]:
    return {int(index): value for index, value in by_partition.items()}
