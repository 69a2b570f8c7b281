"""What a table says besides its files: which topic it is of, and which offsets of it it has.

What never changes is in a property of the table. The next offset of each partition is the version
of a transaction, as Delta calls it: the newest number that an application has committed. Delta
keeps both in its checkpoints, so they outlive the files of its log. As they are committed together
with the files, they are always true: a batch of the pipeline begins at these offsets, whatever
Spark's checkpoint or a consumer group says.

Each commit also has the whole state in its metadata under the key `kraftlog`, which
`DeltaTable.history()` shows until Delta deletes the commit. Tables of older versions have it only
there.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from deltalake import Transaction

from kraftlog.spark.lake.files import WrittenFile
from kraftlog.types import NULL_UUID, uuid_from_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from deltalake import DeltaTable

    from kraftlog.types import Uuid

#: The key of the state in a commit's metadata, and the version of its format.
KEY = "kraftlog"
FORMAT = 1
#: The table's property with what never changes, as JSON, and the version of its format.
PROPERTY = "kraftlog.archive"
PROPERTY_FORMAT = 1
#: The applications whose transaction's version is the next offset of a partition, the number of
#: partitions, of rows, and of dead letters.
_OFFSET, _PARTITIONS = "kraftlog.offset.{}", "kraftlog.partitions"
_ROWS, _DEAD_LETTERS = "kraftlog.rows", "kraftlog.deadLetters"
#: The same for retention: the first offset of a partition that is kept, the number of removed rows.
_KEPT, _REMOVED_ROWS = "kraftlog.kept.{}", "kraftlog.removedRows"


@dataclass
class ArchiveState:
    """The state of a table after a commit.

    `offsets`, `start`, `ranges` and `lost` are by partition number. The end of a range is
    exclusive.
    """

    topic: str
    #: As text; empty if the brokers are too old for topic ids.
    topic_id: str
    #: The value of --decode.
    decode: str
    #: For each partition, the first offset that the table does not have yet.
    offsets: dict[int, int]
    #: The same when the table was created; later partitions are not in it.
    start: dict[int, int] = field(default_factory=dict)
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
    #: By partition, the first offset that retention has not removed; and the number of rows that it
    #: has removed.
    kept: dict[int, int] = field(default_factory=dict)
    removed: int = 0

    @property
    def topic_uuid(self) -> Uuid:
        return uuid_from_text(self.topic_id) if self.topic_id else NULL_UUID

    @property
    def is_new(self) -> bool:
        """Whether no batch was committed yet."""
        return self.offsets == self.start

    def properties(self) -> dict[str, str]:
        """The table's property that has what never changes."""
        fixed = {
            "format": PROPERTY_FORMAT,
            "topic": self.topic,
            "topicId": self.topic_id,
            "decode": self.decode,
            "from": self.begun_at,
            "start": _with_text_keys(self.start),
        }
        return {PROPERTY: json.dumps(fixed)}

    def transactions(self, partitions: Iterable[int]) -> list[Transaction]:
        """The transactions of a commit that has changed the offsets of these partitions."""
        versions = {_OFFSET.format(index): self.offsets[index] for index in partitions}
        versions[_PARTITIONS] = 1 + max(self.offsets, default=-1)
        versions |= {_ROWS: self.rows, _DEAD_LETTERS: self.bad}
        if self.batch >= 0:
            versions[self.query] = self.batch
        return [Transaction(application, version) for application, version in versions.items()]

    def retention_transactions(self) -> list[Transaction]:
        """The transactions of a commit by retention."""
        versions = {_KEPT.format(index): offset for index, offset in self.kept.items()}
        versions[_REMOVED_ROWS] = self.removed
        return [Transaction(application, version) for application, version in versions.items()]

    def metadata(self) -> dict[str, Any]:
        retention = {"kept": _with_text_keys(self.kept), "removed": self.removed}
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
                **(retention if self.removed else {}),
            }
        }


def state_of(table: DeltaTable) -> ArchiveState | None:
    """The state of a table; None if it is not kraftlog's.

    What the newest batch has added is left out if the table's log does not have the batch any more.
    """
    fixed = table.metadata().configuration.get(PROPERTY)
    state = _newest_in_log(table)
    if fixed is None and state is not None:
        state.start = state.offsets | {
            index: start for index, (start, _) in archived_ranges(table).items()
        }
    if fixed is None:
        return state
    state = state or ArchiveState(topic="", topic_id="", decode="", offsets={})
    read_fixed(state, json.loads(fixed))
    state.offsets = _by_partition(table, _OFFSET)
    state.kept, state.removed = _by_partition(table, _KEPT), _version(table, _REMOVED_ROWS)
    state.rows, state.bad = _version(table, _ROWS), _version(table, _DEAD_LETTERS)
    return state


def is_durable(table: DeltaTable) -> bool:
    """Whether the table has its state where Delta keeps it, as those of older versions do not."""
    return PROPERTY in table.metadata().configuration


def archived_ranges(table: DeltaTable) -> dict[int, tuple[int, int]]:
    """The offsets of each partition that the commits in the table's log have added."""
    ranges: dict[int, tuple[int, int]] = {}
    for commit in table.history():
        for index, (start, end) in read_state(commit[KEY]).ranges.items() if KEY in commit else ():
            first, last = ranges.get(index, (start, end))
            ranges[index] = (min(first, start), max(last, end))
    return ranges


def read_fixed(state: ArchiveState, fields: Mapping[str, Any]) -> None:
    """Take what never changes from the table's property, `PROPERTY`."""
    state.topic, state.topic_id = fields["topic"], fields["topicId"]
    state.decode, state.begun_at = fields["decode"], fields["from"]
    state.start = _with_int_keys(fields["start"])


def _by_partition(table: DeltaTable, application: str) -> dict[int, int]:
    return {
        index: version
        for index in range(_version(table, _PARTITIONS))
        if (version := table.transaction_version(application.format(index))) is not None
    }


def _version(table: DeltaTable, application: str) -> int:
    return table.transaction_version(application) or 0


def _newest_in_log(table: DeltaTable) -> ArchiveState | None:
    for limit in (1, None):  # the last commit nearly always has one
        for commit in table.history(limit):
            if KEY in commit:
                return read_state(commit[KEY])
    return None


def read_state(fields: Mapping[str, Any]) -> ArchiveState:
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
        kept=_with_int_keys(fields.get("kept", {})),
        removed=fields.get("removed", 0),
    )


def _with_text_keys(by_partition: Mapping[int, Any]) -> dict[str, Any]:
    return {str(index): value for index, value in sorted(by_partition.items())}


def _with_int_keys(by_partition: Mapping[str, Any]) -> dict[int, Any]:
    return {int(index): value for index, value in by_partition.items()}
