"""Notices two processes with one node id and directory id: one directory is a copy of the other.

Both would vote, fetch and update their voter record as the same replica. The evidence: fetches of
a replica alternate between two connections while the one before is unanswered. A single process
may have two connections to a leader that it is only looking for, but goes on with one of them,
and several fetches in a row on one connection remove the evidence.
"""

from __future__ import annotations

from kraftlog.types import uuid_text
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from kraftlog.logstate.voters import ReplicaKey
    from kraftlog.node.pending_response import PendingResponse

#: Alternations that no single process makes.
ALTERNATIONS = 5
#: Fetches in a row on one connection that remove the evidence. Two processes also make two in a
#: row: while records are written, one may fetch again before the other has its response.
IN_A_ROW = 3
#: Replicas that are remembered; each is a node that fetches metadata here.
MAX_REPLICAS = 1000


class _Fetches(Value):
    """The last fetch of a replica, the connection it used before, and the evidence for two."""

    last: PendingResponse
    #: The connection that came first, and the one that came later.
    older: object
    newer: object
    alternations: int = 0
    in_a_row: int = 1


class TwinProcesses:
    """The fetches of each replica of the quorum."""

    def __init__(self) -> None:
        self._by_replica: dict[ReplicaKey, _Fetches] = {}

    def refuses(self, replica: ReplicaKey, slot: PendingResponse) -> bool:
        """Whether a fetch comes from the newer one of two processes."""
        connection = slot.connection
        seen = self._by_replica.get(replica)
        if seen is None:
            if len(self._by_replica) >= MAX_REPLICAS:
                del self._by_replica[next(iter(self._by_replica))]
            self._by_replica[replica] = _Fetches(slot, connection, connection)
            return False
        former, seen.last = seen.last, slot
        if connection is not seen.older and connection is not seen.newer:
            seen.older, seen.newer, seen.alternations = former.connection, connection, 0
            seen.in_a_row = 1
        elif seen.alternations < ALTERNATIONS:
            _count(seen, former, connection)
        return seen.alternations >= ALTERNATIONS and connection is seen.newer


def _count(seen: _Fetches, former: PendingResponse, connection: object) -> None:
    if connection is not former.connection:
        seen.in_a_row = 1
        seen.alternations += former.pieces is None
    else:
        seen.in_a_row += 1
        if seen.in_a_row >= IN_A_ROW:
            seen.alternations = 0


def twin_line(me: ReplicaKey) -> str:
    """Why a refused process stops."""
    return (
        f"another process is running as node {me.id} with the directory id "
        f"{uuid_text(me.directory_id)}: the log directory of this one is a copy of its directory. "
        "Start this node with an empty directory and an id of its own, and keep only one of the "
        "two running"
    )
