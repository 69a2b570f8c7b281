"""What an Iceberg table says besides its files: which topic it is of, and which offsets it has.

The summary of each snapshot of the archive has the whole state under the key `kraftlog`, as JSON.
The newest one of the current snapshot and its ancestors is the table's: a table that was rolled
back to an earlier snapshot has the offsets of that one. Snapshots expire, so the newest state is in
a property of the table, too; it counts if none of the remaining ancestors has a state.

What never changes is in the property `kraftlog.archive`, as in a Delta table. For each query, a
property has the newest batch that was committed, like Delta's transactions. A version of an Iceberg
table has its snapshots and its properties in the same file, so they change together.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pyiceberg.table.snapshots import ancestors_of

from kraftlog.spark.lake.state import KEY, PROPERTY, ArchiveState, read_fixed, read_state
from kraftlog.spark.lake.table import LakeError

if TYPE_CHECKING:
    from typing import Any

    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

#: The property with the newest state, and with the number of the snapshot that it is of.
STATE = "kraftlog.state"
_QUERY = "kraftlog.query.{}"


def state_of(metadata: TableMetadata) -> ArchiveState | None:
    """The state of a table; None if it is not kraftlog's."""
    fixed = metadata.properties.get(PROPERTY)
    if fixed is None:
        return None
    current = metadata.current_snapshot()
    state = None
    for snapshot in [] if current is None else ancestors_of(current, metadata):
        recorded = recorded_state(snapshot)
        if recorded is not None:
            state = read_state(recorded)
            break
    else:
        kept = json.loads(metadata.properties[STATE])
        if kept["sequence"] > (0 if current is None else current.sequence_number):
            raise LakeError(
                f"{metadata.location}: the table was rolled back to a snapshot, and no snapshot is "
                "left that says which offsets it has: set it to a later snapshot, or archive into "
                "another directory"
            )
        state = read_state(kept["state"])
    assert state is not None
    read_fixed(state, json.loads(fixed))
    return state


def recorded_state(snapshot: Snapshot) -> dict[str, Any] | None:
    """The state that a snapshot's summary has; None if it is not of the archive."""
    text = snapshot.summary.get(KEY) if snapshot.summary is not None else None
    state: dict[str, Any] | None = None if text is None else json.loads(text)
    return state


def summary(state: ArchiveState) -> dict[str, str]:
    """What the summary of a batch's snapshot has."""
    return {KEY: json.dumps(state.metadata()[KEY])}


def properties(state: ArchiveState, sequence: int) -> dict[str, str]:
    """The properties that a batch changes; `sequence` is the number of its snapshot."""
    kept = {STATE: json.dumps({"sequence": sequence, "state": state.metadata()[KEY]})}
    return kept | (batch_property(state) if state.batch >= 0 else {})


def batch_property(state: ArchiveState) -> dict[str, str]:
    return {_QUERY.format(state.query): str(state.batch)}


def has_batch(metadata: TableMetadata, query: str, batch: int) -> bool:
    """Whether this batch of the query, or a later one, was committed."""
    return int(metadata.properties.get(_QUERY.format(query), "-1")) >= batch
