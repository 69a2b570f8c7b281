"""Notices two processes with one node id and directory id: one directory is a copy of the other.

Both would vote, fetch and update their voter record as the same replica. The evidence: fetches of
a replica alternate between two connections, each time while the one before is unanswered. A single
process may have two connections to a leader that it is only looking for, but goes on with one.
"""

from __future__ import annotations

from kraftlog.types import uuid_text
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from kraftlog.logstate.voters import ReplicaKey
    from kraftlog.node.pending_response import PendingResponse

#: Alternations in a row that no single process makes.
ALTERNATIONS = 5
#: Replicas that are remembered; each is a node that fetches metadata here.
MAX_REPLICAS = 1000


class _Fetches(Value):
    """The last fetch of a replica, the connection it used before, and the evidence for two."""

    last: PendingResponse
    #: The connection that came first, and the one that came later.
    older: object
    newer: object
    alternations: int = 0


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
        elif seen.alternations < ALTERNATIONS:
            overlaps = connection is not former.connection and former.pieces is None
            seen.alternations = seen.alternations + 1 if overlaps else 0
        return seen.alternations >= ALTERNATIONS and connection is seen.newer


def twin_line(me: ReplicaKey) -> str:
    """Why a refused process stops."""
    return (
        f"another process is running as node {me.id} with the directory id "
        f"{uuid_text(me.directory_id)}: the log directory of this one is a copy of its directory. "
        "Start this node with an empty directory and an id of its own, and keep only one of the "
        "two running"
    )
