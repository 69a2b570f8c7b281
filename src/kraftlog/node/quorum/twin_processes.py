"""Notices two processes with one node id and directory id: one directory is a copy of the other.

Both would vote, fetch and update their voter record as the same replica. A process fetches on one
connection at a time, and does not return to one that it has left. So a leader whose fetches of a
replica alternate between two connections has two processes before it, and refuses the newer one.
"""

from __future__ import annotations

from kraftlog.types import uuid_text
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.logstate.voters import ReplicaKey

#: A single return may be a request that was sent before the process changed its connection.
RETURNS = 3
#: Replicas that are remembered; each is a node that fetches metadata here.
MAX_REPLICAS = 1000


class _Connections(Value):
    """The last two connections of a replica, and how often the older one was used again."""

    older: Any
    newer: Any
    last: Any
    returns: int = 0


class TwinProcesses:
    """The connections on which replicas have fetched."""

    def __init__(self) -> None:
        self._by_replica: dict[ReplicaKey, _Connections] = {}

    def refuses(self, replica: ReplicaKey, connection: Any) -> bool:
        """Whether a fetch comes from the newer one of two processes."""
        seen = self._by_replica.get(replica)
        if seen is None:
            if len(self._by_replica) >= MAX_REPLICAS:
                del self._by_replica[next(iter(self._by_replica))]
            self._by_replica[replica] = _Connections(None, connection, connection)
            return False
        if connection is not seen.last:
            if connection is seen.older:
                seen.returns += 1
            elif connection is not seen.newer:
                seen.older, seen.newer, seen.returns = seen.last, connection, 0
            seen.last = connection
        return seen.returns >= RETURNS and connection is seen.newer


def twin_line(me: ReplicaKey) -> str:
    """Why a refused process stops."""
    return (
        f"another process is running as node {me.id} with the directory id "
        f"{uuid_text(me.directory_id)}: the log directory of this one is a copy of its directory. "
        "Start this node with an empty directory and an id of its own, and keep only one of the "
        "two running"
    )
