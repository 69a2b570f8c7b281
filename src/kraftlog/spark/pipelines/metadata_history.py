"""Each change of the cluster's metadata as a row of a Delta table: `pipeline metadata --history`.

A run appends the changes after the newest one of the table. Each commit has the offset of its last
change as the version of a transaction, as Delta calls it, so of two runs that append the same
changes one is refused.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain, pairwise
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import DeltaError

from kraftlog.errors import ConfigError
from kraftlog.metadata.history import DeletedRecordsError, Moment
from kraftlog.metadata.row_changes import (
    QUORUM,
    TrackedState,
    oldest_state,
    record_changes,
    snapshot_changes,
)
from kraftlog.metadata.tables import TABLES_OF_IMAGE
from kraftlog.spark.lake.delta_table import is_conflict
from kraftlog.spark.schema import MAX_TIME_MS
from kraftlog.value import Value

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from kraftlog.client.metadata_folder import MetadataFolder
    from kraftlog.client.metadata_quorum import MetadataQuorum
    from kraftlog.metadata.history import MetadataState
    from kraftlog.metadata.row_changes import RowChange
    from kraftlog.metadata.tables import Row

    MetadataLog = MetadataFolder | MetadataQuorum

SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("number", pa.int32(), nullable=False),
        pa.field("epoch", pa.int32(), nullable=False),
        pa.field("timestamp", pa.timestamp("us", "UTC")),
        pa.field("leader", pa.int32()),
        pa.field("record", pa.string(), nullable=False),
        pa.field("table_name", pa.string(), nullable=False),
        pa.field("key", pa.string(), nullable=False),
        pa.field("before", pa.string()),
        pa.field("after", pa.string()),
    ]
)
#: The application whose transaction's version is the offset of the table's last change, plus one:
#: the rows of a bootstrap checkpoint have the offset -1.
_END = "kraftlog.metadata.end"
#: The table's property with what never changes, as JSON.
PROPERTY = "kraftlog.metadata"
#: How many rows a commit has; no more than those of one record batch are added to them.
COMMIT_ROWS = 100_000


class Appended(Value):
    """What a run has appended; `state` is as of the last record that it has read."""

    rows: int
    state: TrackedState
    #: The offsets of records that were deleted unread; what they changed is from a snapshot.
    skipped: tuple[int, int] | None


class HistoryTable:
    """The table; of each record it has all changes or none."""

    def __init__(self, path: str) -> None:
        self._path = path
        #: None if it does not exist yet.
        self._table = DeltaTable(path) if DeltaTable.is_deltatable(path) else None
        #: Offset, epoch, time and leader of the newest change.
        self._last: dict[str, Any] = {}
        if self._table is not None:
            self._last = _last_change(self._table, path)
        elif os.path.isdir(path) and os.listdir(path):
            raise ConfigError(f"--history {path} is not empty, and no Delta table: give another")

    def append(self, log: MetadataLog, until: Moment, *, is_dry: bool = False) -> Appended:
        """Append the changes that the table does not have, up to a moment."""
        self._check_cluster(log.cluster_id)
        count = 0
        rows: list[RowChange] = []
        state, from_snapshot, skipped = self._begin(log, until)
        for changes in chain([from_snapshot], record_changes(log, state, until)):
            rows += changes
            if len(rows) >= COMMIT_ROWS:
                count += self._commit(rows, log.cluster_id, is_dry=is_dry)
                rows = []
        count += self._commit(rows, log.cluster_id, is_dry=is_dry)
        return Appended(count, state, skipped)

    def _check_cluster(self, cluster_id: str) -> None:
        if self._table is None:
            return
        fixed = json.loads(self._table.metadata().configuration[PROPERTY])
        if cluster_id and fixed["clusterId"] not in {"", cluster_id}:
            raise ConfigError(
                f"--history {self._path} has the changes of cluster {fixed['clusterId']}, and this "
                f"is cluster {cluster_id}: give another directory"
            )

    def _begin(
        self, log: MetadataLog, until: Moment
    ) -> tuple[TrackedState, list[RowChange], tuple[int, int] | None]:
        """The state after the table's newest change; or that of the log's oldest snapshot.

        In the second case also the changes from the table's rows to the snapshot.
        """
        last: int = self._last.get("offset", -1)
        if last >= 0:
            with suppress(DeletedRecordsError):
                state = log.state_at(Moment(offset=last))
                self._check_same_log(state)
                return TrackedState(state), [], None
        state = oldest_state(log)
        if not (until.includes(state.offset) and until.includes_time(state.time_ms)):
            raise DeletedRecordsError(state.offset + 1)
        changes = [*snapshot_changes(state, self._rows())]
        is_continued = self._table is not None and state.offset > last
        return TrackedState(state), changes, (last + 1, state.offset) if is_continued else None

    def _check_same_log(self, state: MetadataState) -> None:
        """Check that the log has the same record at the offset of the table's newest change.

        Logs with the same offset and epoch have the same records until there.
        """
        last = self._last
        if (state.epoch, _timestamp(state.time_ms)) != (last["epoch"], last["timestamp"]):
            raise ConfigError(
                f"--history {self._path} has changes up to offset {state.offset} of epoch "
                f"{last['epoch']} and time {last['timestamp']}; the log has another record there: "
                "it is the log of another cluster, or the table has changes from a copy whose last "
                "records were never committed"
            )
        if state.leader is None:
            state.leader = last["leader"]

    def _rows(self) -> dict[tuple[str, tuple[Any, ...]], Row]:
        """The rows as of the table's newest change, by table and key."""
        if self._table is None:
            return {}
        columns = ["offset", "number", "table_name", "key", "after"]
        changes = self._table.to_pyarrow_table(columns=columns)
        changes = changes.sort_by([("offset", "ascending"), ("number", "ascending")])
        rows: dict[tuple[str, tuple[Any, ...]], Row] = {}
        for change in changes.to_pylist():
            key = json.loads(change["key"])
            place = change["table_name"], tuple(key.values())
            if change["after"] is None:
                del rows[place]
            else:
                rows[place] = {**key, **json.loads(change["after"])}
        return rows

    def _commit(self, changes: Sequence[RowChange], cluster_id: str, *, is_dry: bool) -> int:
        """Commit changes, the last ones of a record included; return their number."""
        if is_dry or not changes:
            return len(changes)
        properties = CommitProperties(app_transactions=[Transaction(_END, changes[-1].offset + 1)])
        try:
            if self._table is None:
                fixed = json.dumps({"format": 1, "clusterId": cluster_id})
                self._table = DeltaTable.create(
                    self._path,
                    SCHEMA,
                    name="metadata history",
                    description="each change of the metadata, written by kraftlog",
                    configuration={PROPERTY: fixed},
                    raise_if_key_not_exists=False,
                )
            write_deltalake(
                self._table, _arrow(changes), mode="append", commit_properties=properties
            )
            self._table.update_incremental()
        except DeltaError as error:
            if not is_conflict(error):
                raise
            raise ConfigError(
                f"another process has appended to {self._path} meanwhile: start again, to append "
                "what is still missing"
            ) from error
        return len(changes)


def _last_change(table: DeltaTable, path: str) -> dict[str, Any]:
    """Offset, epoch, time and leader of the newest change."""
    if PROPERTY not in table.metadata().configuration:
        raise ConfigError(
            f"--history {path} is a Delta table, but not one of pipeline metadata --history: give "
            "another directory"
        )
    end = table.transaction_version(_END)
    if end is None:
        return {}  # a run has ended right after it had created the table
    newest = table.to_pyarrow_dataset().to_table(
        ["epoch", "timestamp", "leader"], filter=pc.field("offset") == end - 1
    )
    if not newest:
        raise ConfigError(f"--history {path} lacks its newest change, that of offset {end - 1}")
    return {"offset": end - 1, **newest.slice(newest.num_rows - 1).to_pylist()[0]}


def _arrow(changes: Sequence[RowChange]) -> pa.Table:
    rows = []
    number = 0
    for before, change in pairwise([None, *changes]):
        assert change is not None
        number = number + 1 if before is not None and before.offset == change.offset else 0
        rows.append(
            {
                "offset": change.offset,
                "number": number,
                "epoch": change.epoch,
                "timestamp": _timestamp(change.time_ms),
                "leader": change.leader,
                "record": change.record,
                "table_name": change.table,
                "key": _json(dict(zip(_key_columns(change.table), change.key, strict=True))),
                "before": _row_json(change, change.before),
                "after": _row_json(change, change.after),
            }
        )
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _key_columns(table: str) -> tuple[str, ...]:
    if table == QUORUM:
        return ()
    return TABLES_OF_IMAGE[table].columns[: TABLES_OF_IMAGE[table].keys]


def _row_json(change: RowChange, row: Row | None) -> str | None:
    """A row without its key."""
    if row is None:
        return None
    keys = _key_columns(change.table)
    return _json({name: value for name, value in row.items() if name not in keys})


def _json(value: Row) -> str:
    """As Spark's to_json writes it, so that texts of keys can be compared."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _timestamp(time_ms: int) -> datetime | None:
    return datetime.fromtimestamp(time_ms / 1000, UTC) if 0 <= time_ms <= MAX_TIME_MS else None
